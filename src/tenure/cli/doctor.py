"""``tenure doctor``: whether elections will work at a store."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from tenure.cli.output import is_terminal, shown
from tenure.cli.reading import is_there
from tenure.cli.settings import DEFAULT_TTL, DURATION, settings_of, store_options
from tenure.errors import ConfigError
from tenure.stores.base import Store
from tenure.stores.examining import CanExamine, Finding, HasSchema, Level, good
from tenure.stores.judging import promises
from tenure.stores.opening import make_store

if TYPE_CHECKING:
    from rich.table import Table

_WRONG: Final = 1
_COLOURS: Final = {Level.GOOD: "green", Level.WARNING: "yellow", Level.BAD: "bold red"}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@store_options
@click.option("--ttl", type=DURATION, help=f"The lease that the store is to be good for.  {DEFAULT_TTL}")
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
@click.option("--rbac", is_flag=True, help="Print the rights that elections need, for kubectl apply. Examines nothing.")
@click.option(
    "--schema", is_flag=True, help="Print tables and rights of elections in a SQL database. Examines nothing."
)
def command(  # noqa: PLR0913  (click hands every option in)
    *,
    store: str | None,
    config: Path | None,
    accept_best_effort: bool | None,
    ttl: float | None,
    as_json: bool,
    rbac: bool,
    schema: bool,
) -> int:
    """Say whether elections will work at a store.

    It looks at every member that the URL names, and holds an election of its own, whose name nobody else has and which is
    gone afterwards. In Kubernetes all doctors share the Lease tenure-doctor, which stays: to delete it is a right that
    elections do not need. Exit code 1 says that elections will not work; a warning is no error.

    \b
    Examples:
      tenure doctor
      tenure doctor --store etcd://h1,h2,h3 --ttl 5s
      tenure doctor --json | jq '.findings[] | select(.level != "good")'
      tenure doctor --store kubernetes://prod --rbac | kubectl apply -f -
      tenure doctor --store postgresql://app@db/prod --schema | psql -h db prod
    """
    settings = settings_of(store=store, config=config, ttl=ttl, accept_best_effort=accept_best_effort, reading=True)
    engine = make_store(settings.store, {}, accept_best_effort=settings.accept_best_effort)
    if rbac:
        click.echo(_rights(engine), nl=False)
        return 0
    if schema:
        click.echo(_tables(engine), nl=False)
        return 0
    ttl_ns = settings.timing.ttl_ns
    if not is_there(settings):
        found = [good("file", "not there yet: it is made when somebody first stands"), *promises(engine.traits)]
    elif isinstance(engine, CanExamine):
        found = asyncio.run(engine.examine(ttl_ns))
    else:
        raise ConfigError("store", engine.address, "cannot be examined")
    _show(found, engine.address, ttl_ns, as_json=as_json)
    return _WRONG if any(finding.level is Level.BAD for finding in found) else 0


def _rights(engine: Store) -> str:
    if not engine.address.startswith("kubernetes://"):
        raise ConfigError("--rbac", engine.address, "has no such rights: they are for kubernetes://namespace")
    from tenure.stores.kubernetes.rights import manifest  # noqa: PLC0415  (only such a store pays for it)

    return manifest(engine.address.removeprefix("kubernetes://"))


def _tables(engine: Store) -> str:
    if not isinstance(engine, HasSchema):
        rule = "has no tables: they are for postgresql://… and mysql://…"
        raise ConfigError("--schema", engine.address, rule)
    return engine.schema()


def _show(found: Sequence[Finding], address: str, ttl_ns: int, *, as_json: bool) -> None:
    if as_json:
        told = {"store": address, "ttl_s": ttl_ns / 1e9, "findings": [asdict(finding) for finding in found]}
        click.echo(json.dumps(told))
        return
    if is_terminal():
        from rich.console import Console  # noqa: PLC0415  (only a terminal pays for it)

        Console(highlight=False).print(_table(found, address))
    else:
        click.echo("\n".join(_line(finding) for finding in found))
    click.echo(_summary(found, address))


def _line(finding: Finding) -> str:
    advice = f" ({finding.advice})" if finding.advice else ""
    return f"{finding.level.value:<9}{finding.subject:<12}{shown(finding.detail + advice)}"


def _table(found: Sequence[Finding], address: str) -> "Table":
    from rich.table import Table  # noqa: PLC0415  (only a terminal pays for it)
    from rich.text import Text  # noqa: PLC0415

    made = Table(title=Text(address, style="dim"), title_justify="left", box=None, pad_edge=False, show_header=False)
    for finding in found:
        # Text and not str: in a str, rich takes "[red]" for an order, and a member may be called so.
        told = Text(shown(finding.detail))
        if finding.advice:
            told.append(f"\n{shown(finding.advice)}", style="italic")
        made.add_row(Text(finding.level.value, style=_COLOURS[finding.level]), Text(finding.subject), told)
    return made


def _summary(found: Sequence[Finding], address: str) -> str:
    bad_count, warning_count = (
        sum(finding.level is level for finding in found) for level in (Level.BAD, Level.WARNING)
    )
    warned = f"{warning_count} warning{'' if warning_count == 1 else 's'}"
    if bad_count:
        return f"elections will not work at {address}: {bad_count} bad, {warned}"
    return f"elections will work at {address}" + (f", with {warned}" if warning_count else "")
