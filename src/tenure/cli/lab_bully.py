"""``tenure lab bully``: the bully algorithm under faults."""

from typing import Any

import click

from tenure.cli.lab_asking import options, run


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@options
def command(**asked: Any) -> int:
    """The bully algorithm: of all that answer, the one with the highest number leads.

    It works while nothing fails. Cut in two, each side takes the other for dead, and each has a leader: split brain.

    For learning and measuring. Production rents an engine: see tenure doctor.

    \b
    Examples:
      tenure lab bully                                            what breaks under which fault
      tenure lab bully --faults partition --story                 a split brain, told
      tenure lab bully --seed 3 --faults partition --fence sink   one seed again, with a fence
    """
    return run("bully", asked)
