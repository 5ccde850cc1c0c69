"""``tenure lab flag``: a flag in a row of a database under faults."""

from typing import Any

import click

from tenure.cli.lab_asking import options, run


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@options
@click.option("--cron", is_flag=True, help="With a job that clears a flag which is old.")
def command(*, cron: bool, **asked: Any) -> int:
    """A flag in a database row: UPDATE … SET leader = me WHERE leader IS NULL.

    There is no lease: after a crash the flag stays, and nobody works for ever. With --cron a job clears flags that are old, which is
    the usual repair: then one who was only slow is joined by a second, and work is done twice.

    For learning and measuring. Production rents an engine: see tenure doctor.

    \b
    Examples:
      tenure lab flag                                 what breaks under which fault
      tenure lab flag --story                         a deadlock after a crash, told
      tenure lab flag --cron --faults pause --story   a double run after the repair, told
    """
    return run("flag-cron" if cron else "flag", asked)
