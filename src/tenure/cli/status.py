"""``tenure status``: who leads."""

import json
from pathlib import Path

import click

from tenure.cli.completion import election_names
from tenure.cli.grouping import grouped
from tenure.cli.output import as_object, columns, is_terminal, table
from tenure.cli.reading import address_of, look, reading
from tenure.cli.settings import settings_of, store_options
from tenure.office.desk import check_name


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("elections", metavar="[ELECTION]...", nargs=-1, shell_complete=election_names)
@store_options
@click.option("--all", "show_all", is_flag=True, help="Show each shard, and not only how many a member owns.")
@click.option("--json", "as_json", is_flag=True, help="Print one object, with all elections and durations in seconds.")
def command(  # noqa: PLR0913  (click hands every option in)
    *,
    elections: tuple[str, ...],
    store: str | None,
    config: Path | None,
    accept_best_effort: bool | None,
    show_all: bool,
    as_json: bool,
) -> None:
    """Show who leads: the named elections in that order, or all that the store knows of.

    An election that was never held is shown without a leader. Of shards that are owned it is told how many
    each member has. A store that is best effort is said to be so on stderr.

    \b
    Examples:
      tenure status
      tenure status billing/close --store sqlite:///var/lib/books/tenure.db
      tenure status --json | jq '.elections[].leader.host'
    """
    names = [check_name(name) for name in elections]
    settings = settings_of(store=store, config=config, accept_best_effort=accept_best_effort, reading=True)
    address = address_of(settings)
    with reading(settings) as opened:
        found = look(opened, names)
        best_effort = opened.store.traits.best_effort if opened is not None else ""
    if best_effort and not as_json:  # Beside the columns, so that whoever reads those finds them as ever.
        click.echo(f"{address} is best effort: {best_effort}", err=True)
    if as_json:
        told = {
            "store": address,
            "best_effort": best_effort or None,
            "elections": [as_object(status) for status in found],
        }
        click.echo(json.dumps(told))
        return
    shown, notes = (found, {}) if names or show_all else grouped(found)
    if not shown:
        click.echo(f"no elections yet at {address}")
    elif is_terminal():
        from rich.console import Console  # noqa: PLC0415  (only a terminal pays for it)

        Console(highlight=False).print(table(shown, address, notes))
    else:
        click.echo(columns(shown, address, notes))
