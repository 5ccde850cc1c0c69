"""``tenure status``: who leads."""

import json
from pathlib import Path

import click

from tenure.cli.completion import election_names
from tenure.cli.output import as_object, columns, is_terminal, table
from tenure.cli.reading import address_of, look, reading
from tenure.cli.settings import settings_of, store_options
from tenure.office.desk import check_name


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("elections", metavar="[ELECTION]...", nargs=-1, shell_complete=election_names)
@store_options
@click.option("--json", "as_json", is_flag=True, help="Print one object, with durations in seconds.")
def command(
    *,
    elections: tuple[str, ...],
    store: str | None,
    config: Path | None,
    accept_best_effort: bool | None,
    as_json: bool,
) -> None:
    """Show who leads: the named elections in that order, or all that the store knows of.

    An election that was never held is shown without a leader.

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
    if as_json:
        click.echo(json.dumps({"store": address, "elections": [as_object(status) for status in found]}))
    elif not found:
        click.echo(f"no elections yet at {address}")
    elif is_terminal():
        from rich.console import Console  # noqa: PLC0415  (only a terminal pays for it)

        Console(highlight=False).print(table(found, address))
    else:
        click.echo(columns(found, address))
