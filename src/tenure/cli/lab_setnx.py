"""``tenure lab setnx``: SET NX PX on a Redis under faults."""

from typing import Any

import click

from tenure.cli.lab_asking import options, run


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@options
@click.option("--replica", is_flag=True, help="With a replica and a sentinel that promotes it.")
def command(*, replica: bool, **asked: Any) -> int:
    """SETNX with a ttl: who sets the key of one Redis leads, and prolongs it.

    With --replica the Redis has an asynchronous replica, which a sentinel promotes when the primary does not answer: what the primary
    had promised a moment ago is then forgotten, and two lead, perhaps with the same number.

    For learning and measuring. Production rents an engine: see tenure doctor.

    \b
    Examples:
      tenure lab setnx                                       what breaks under which fault
      tenure lab setnx --faults pause --story                a write that comes too late, told
      tenure lab setnx --replica --story                     two leaders after a failover, told
      tenure lab setnx --faults pause --fence own --seed 7   one seed again, with a fence
    """
    return run("setnx-replica" if replica else "setnx", asked)
