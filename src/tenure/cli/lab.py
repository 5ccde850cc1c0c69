"""``tenure lab``: a group whose commands are imported when they are run, one file each."""

from importlib import import_module
from typing import Final

import click

# Name → module that defines ``command``, and the line that ``tenure lab --help`` shows for it.
LABS: Final = {
    "raft": ("tenure.cli.lab_raft", "Raft: stories, seeds with faults, mutants, and figure 16 of the paper."),
    "bully": ("tenure.cli.lab_bully", "The bully algorithm: the highest number that answers leads."),
    "flag": ("tenure.cli.lab_flag", "A flag in a database row, and the job that clears it."),
    "setnx": ("tenure.cli.lab_setnx", "SETNX with a ttl on one Redis, or with a replica."),
    "redlock": ("tenure.cli.lab_redlock", "Redlock over five Redis servers."),
    "ours": ("tenure.cli.lab_ours", "The machine of this package, under the same faults."),
    "compare": ("tenure.cli.lab_compare", "All of them and tenure under the same faults, in one table."),
}


class _Labs(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(LABS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in LABS:
            command: click.Command = import_module(LABS[cmd_name][0]).command
            return command
        if not ctx.resilient_parsing and not cmd_name.startswith("-"):
            ctx.fail(f"There is no laboratory {cmd_name!r}: there are {', '.join(LABS)}.")
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Laboratories"):
            formatter.write_dl([(name, short) for name, (_, short) in LABS.items()])


@click.group(cls=_Labs, context_settings={"help_option_names": ["-h", "--help"]}, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """The algorithms behind the engines, run and measured under faults, in virtual time.

    For learning and measuring. Nothing of tenure rests on them, and no production should: rent an engine.

    \b
    Examples:
      tenure lab raft --story split-vote
      tenure lab raft --figure16 --trials 100
      tenure lab redlock --faults pause --story
      tenure lab compare --seeds 100
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
