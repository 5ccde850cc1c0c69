"""``tenure lab redlock``: Redlock under faults."""

from typing import Any

import click

from tenure.cli.lab_asking import options, run


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@options
def command(**asked: Any) -> int:
    """Redlock: the same key on five Redis servers, and who has it on three of them leads.

    It survives the loss of two servers. It does not survive a client that is paused between its check and its write, nor clocks of
    servers that are set, nor servers that come back empty. A fence refuses what is then written.

    For learning and measuring. Production rents an engine: see tenure doctor.

    \b
    Examples:
      tenure lab redlock                                           what breaks under which fault
      tenure lab redlock --faults pause --story                    a write that comes too late, told
      tenure lab redlock --faults jump --story --picture run.svg   clocks that are set, drawn as well
      tenure lab redlock --seeds 1000 --faults pause,jump          both at once
    """
    return run("redlock", asked)
