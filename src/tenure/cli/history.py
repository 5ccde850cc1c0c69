"""``tenure history``: who led when, and how long nobody did."""

import json
import sys
from pathlib import Path
from typing import Any, Final

import click

from tenure.apps.history.reading import History, ask, concluded
from tenure.apps.history.rto import Basis, Change, Report, Verdict, report
from tenure.apps.history.told import Clocks, TenureRecord, last
from tenure.cli import reading
from tenure.cli.completion import election_names
from tenure.cli.output import aligned, is_terminal, shown
from tenure.cli.settings import DURATION, Settings, settings_of, store_options
from tenure.cli.timeline import ASCII, BLOCKS, Part, instant, lasted, seconds, span, timeline, why
from tenure.errors import ConfigError, redact
from tenure.office.desk import check_name
from tenure.office.opened import OpenStore
from tenure.plan.engines import shipped
from tenure.stores.base import CanList

_NEAR_MAX: Final = 3
_LAST: Final = 20
COLUMNS: Final = ("token", "holder", "began", "ended", "lasted", "gap", "margin", "end")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("election", shell_complete=election_names)
@store_options
@click.option(
    "--last",
    "last_count",
    type=click.IntRange(min=1),
    default=_LAST,
    show_default=True,
    metavar="N",
    help="The last N tenures that are recorded, and the N changes of leader that led to them.",
)
@click.option("--rto", "rto_s", type=DURATION, default="30s", show_default=True, help="In what time work must go on.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one object, with durations in seconds and instants in UTC."
)
def command(  # noqa: PLR0913  (click hands every option in)
    *,
    election: str,
    store: str | None,
    config: Path | None,
    accept_best_effort: bool | None,
    last_count: int,
    rto_s: float,
    as_json: bool,
) -> None:
    """Show who led ELECTION when, for how long nobody did, and how that compares with the plan.

    Recorded is what tenure run, tenure cron and programs with tenure.apps.history.keep() say of their tenures: the last
    64 of each election, in the store, or on this machine if the store keeps no documents. A leader that ended without a
    word has vanished: then it is told between which two instants. Of two machines the clocks may differ.

    \b
    Examples:
      tenure history billing/close
      tenure history billing/close --last 5 --rto 10s
      tenure history billing/close --json | jq '.rto.worst_s'
    """
    check_name(election)
    if rto_s <= 0:
        raise ConfigError("--rto", f"{rto_s:g} s", "must be more than 0")
    settings = settings_of(store=store, config=config, accept_best_effort=accept_best_effort, reading=True)
    found, address = history_of(settings, election)
    tenures = last(found.tenures, last_count)
    basis = Basis(looks=shipped(settings.store).looks)
    told = report(
        last(found.tenures, last_count + 1), found.traits, rto_s, basis
    )  # The first of N has come after somebody, too.
    if as_json:
        click.echo(json.dumps(_as_object(found, address, tenures, told)))
    elif not tenures:
        click.echo(f"no tenures of {shown(election)} are recorded {_where(found, address)}{_now(found)}")
    elif is_terminal():
        _draw(found, address, tenures, told)
    else:
        if found.folder is not None or _now(
            found
        ):  # Beside the columns, so that whoever reads those finds them as ever.
            click.echo(f"{shown(election)} is recorded {_where(found, address)}{_now(found)}", err=True)
        click.echo(_columns(tenures, found.at_s))
        click.echo("\n".join(["", *_report(told)]))


def history_of(settings: Settings, election: str) -> tuple[History, str]:
    """Return what is recorded of an election, and the store's address. Raises ConfigError if it was never held."""
    address = reading.address_of(settings)
    with reading.reading(settings) as opened:
        if opened is None:
            raise ConfigError("ELECTION", shown(election), f"was never held: {address} has no elections yet")
        found = concluded(opened.store, reading.ask(opened, "history", ask(opened.store, election)))
        if not found.tenures and found.incumbent is None:
            _check_known(opened, election)
    return found, address


def _check_known(opened: OpenStore, election: str) -> None:
    """Refuse an election that was never held, and name those that may have been meant."""
    engine = opened.store
    if not isinstance(engine, CanList):
        return
    names = [status.election for status in reading.ask(opened, "elections", engine.elections())]
    if election in names:
        return
    from difflib import get_close_matches  # noqa: PLC0415  (only a slip pays for it)

    near = [name for name in names if name.startswith(f"{election}/")] or get_close_matches(election, names)
    meant = " or ".join(repr(shown(name)) for name in near[:_NEAR_MAX])
    rule = f"was never held at {engine.address}" + (f": did you mean {meant}?" if meant else "")
    raise ConfigError("ELECTION", shown(election), rule)


def _where(found: History, address: str) -> str:
    return (
        f"at {address}" if found.folder is None else f"on this machine ({found.folder}): {address} keeps no documents"
    )


def _now(found: History) -> str:
    """Return who is in office, if that one keeps no history."""
    incumbent = found.incumbent
    if incumbent is None or any(one.token == incumbent.token for one in found.tenures):
        return ""
    return f"; {shown(str(incumbent.holder))} (token {incumbent.token}) is in office, and not recorded"


def _as_object(found: History, address: str, tenures: list[TenureRecord], told: Report) -> dict[str, Any]:
    incumbent = found.incumbent
    leader = None
    if incumbent is not None:
        advertised = redact(incumbent.advertised) or None
        leader = {"holder": str(incumbent.holder), "token": incumbent.token, "advertised": advertised}
    return {
        "store": address,
        "election": found.election,
        "kept": "store" if found.folder is None else "local",
        "leader": leader,
        "tenures": [tenure.as_json() for tenure in tenures],
        "rto": told.as_json(),
    }


# For people


def _columns(tenures: list[TenureRecord], now_s: float) -> str:
    lines = [[name.upper() for name in COLUMNS]]
    for tenure in tenures:
        if tenure.ended_between is not None:
            ended = f"{instant(tenure.ended_between.least_s)} to {instant(tenure.ended_between.most_s)}"
        else:
            ended = "-" if tenure.ended_s is None else instant(tenure.ended_s)
        lines.append(
            [
                str(tenure.token),
                shown(tenure.holder),
                instant(tenure.began_s),
                ended,
                lasted(tenure, now_s),
                span(tenure.gap),
                seconds(tenure.margin_min_s),
                why(tenure),
            ]
        )
    return aligned(lines)


def _report(told: Report) -> list[str]:
    """Return the changes of leader, and what they come to."""
    if not told.changes:
        return ["no change of leader is recorded"]
    rows = [[f"{change.before.token} → {change.after.token}", *_cells(change)] for change in told.changes]
    head = ["CHANGE", "AFTER", "MEASURED", "OF IT ELECT", "PLANNED", f"RTO {seconds(told.rto_s)}"]
    lines = aligned([head, *rows]).splitlines()
    counts = ", ".join(f"{verdict.value} {told.count(verdict)}" for verdict in Verdict if told.count(verdict))
    worst = "none was measured" if told.worst_s is None else f"the longest took up to {seconds(told.worst_s)}"
    lines += ["", f"{counts} of {len(told.changes)}; {worst}."]
    if told.worst_s is not None:
        left_s, planned = told.rto_s - told.worst_s, f"which is not measured here (planned: {seconds(told.unseen_s)})."
        if left_s >= 0:
            lines.append(f"That leaves {seconds(left_s)} of the RTO to load, get warm and be found, {planned}")
        else:
            lines.append(
                f"That is {seconds(-left_s)} over the RTO, without the time to load, get warm and be found, {planned}"
            )
    if any(change.gap is not None and change.gap.clocks is Clocks.TWO for change in told.changes):
        lines.append("* by the clocks of two machines: off by as much as they differ.")
    lines += [
        f"{change.before.token} → {change.after.token} was not measured: {change.unmeasured}."
        for change in told.changes
        if change.unmeasured
    ]
    return lines


def _cells(change: Change) -> list[str]:
    gap, plan = change.gap, change.plan
    measured = span(gap) + ("*" if gap is not None and gap.clocks is Clocks.TWO else "")
    verdict = {Verdict.KEPT: "", Verdict.MISSED: " (longer than planned)", Verdict.UNKNOWN: ""}[change.as_planned]
    return [
        change.before.reason or "in office",
        measured,
        seconds(change.after.elect_s),
        "-" if plan is None else seconds(plan.total_s),
        change.in_rto.value + verdict,
    ]


def _draw(found: History, address: str, tenures: list[TenureRecord], told: Report) -> None:
    from rich.console import Console  # noqa: PLC0415  (only a terminal pays for it)
    from rich.text import Text  # noqa: PLC0415

    console = Console(highlight=False)
    marks = BLOCKS if "utf" in (sys.stdout.encoding or "").lower() else ASCII
    console.print(Text(f"{found.election} {_where(found, address)}{_now(found)}", style="dim"))
    for line in timeline(tenures, found.at_s, console.width, marks):
        console.print(_text(line), overflow="ellipsis", no_wrap=True)
    legend = f"{marks.led} in office   {marks.gap} nobody   {marks.perhaps} vanished by then   {marks.refused} stale writes refused"
    console.print(Text(legend, style="dim"))
    console.print()
    for number, text in enumerate(_report(told)):
        style = "dim" if number == 0 else "bold red" if Verdict.MISSED.value in text and "→" in text else ""
        console.print(Text(text, style=style), soft_wrap=True)


def _text(line: Any) -> Any:
    from rich.text import Text  # noqa: PLC0415

    part: Part
    made = Text()
    for part in line:
        made.append(part.text, part.style or None)
    return made
