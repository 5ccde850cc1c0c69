"""``tenure lab ours``: the machine of this package under the faults of the laboratory."""

from typing import Any

import click

from tenure.cli.lab_asking import options, run


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@options
def command(**asked: Any) -> int:
    """The shipped machine over its model store, under the faults that the others get.

    It is no exception: a leader that is paused in the middle of its work overlaps with its successor. What it has is a fence that
    always refuses what is then written. To attack it in earnest, with sixteen checkers and more faults, use tenure sim.

    For learning and measuring, like its neighbours: what you run in production is an engine and an Election.

    \b
    Examples:
      tenure lab ours                                what breaks under which fault
      tenure lab ours --story                        a paused leader writes, and nothing stops it
      tenure lab ours --story --seed 2 --fence own   the same seed with its fence
    """
    return run("tenure", asked)
