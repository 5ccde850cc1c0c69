"""``tenure migrate``: bring a database up to date, once, however many start at the same time."""

import asyncio
import json
import re
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import click

from tenure.apps.ledger.opening import is_server
from tenure.apps.migrate.plan import Plan, Record
from tenure.apps.migrate.runner import ELECTION, Applied, Candidature, Migration, NotInTime, StepFailed
from tenure.cli.settings import DURATION, settings_of, store_options, timing_options
from tenure.errors import ConfigError, StaleToken, TenureOver
from tenure.office.desk import check_name
from tenure.office.opened import open_store

FAILED: Final = 1
NOT_IN_TIME: Final = 75  # EX_TEMPFAIL of sysexits.h
LOST: Final = 124
_SETTLE: Final = re.compile(r"(?P<number>[0-9]{1,9})=(?P<state>applied|undone)")
EXIT_CODES: Final = """\b
Exit codes:
  0    the database is up to date (--status: likewise; --dry-run: this is what would be done)
  1    a step failed (--status: steps are pending)
  2    bad input, or a step that cannot be right: changed, missing, twice
  69   the database or the store could not be reached, or refused
  75   another runner was in office for all of --wait
  124  the office was lost
"""


@click.command(context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXIT_CODES)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--database", metavar="URL", required=True, help="sqlite:///path, postgresql://… or mysql://…")
@click.option(
    "--election", help=f"The office that runners stand for.  [default: {ELECTION}; for a file, one of its own]"
)
@click.option("--wait", "wait_s", type=DURATION, help="Wait for another runner at most this long, then exit with 75.")
@click.option("--status", "only_status", is_flag=True, help="Show what was applied and what is pending.")
@click.option("--dry-run", is_flag=True, help="Say what would be applied.")
@click.option("--settle", metavar="N=STATE", help="Say of step N, which was begun: applied, or undone.")
@click.option("--allow-newer", is_flag=True, help="Go on though the database has steps that DIR has not.")
@click.option("--json", "as_json", is_flag=True, help="Print one object a line.")
@store_options
@timing_options
def command(  # noqa: PLR0913  (click hands every option in)
    *,
    folder: Path,
    database: str,
    election: str | None,
    wait_s: float | None,
    only_status: bool,
    dry_run: bool,
    settle: str | None,
    allow_newer: bool,
    as_json: bool,
    store: str | None,
    config: Path | None,
    accept_best_effort: bool | None,
    ttl: float | None,
    grace: float | None,
) -> int:
    """Apply the steps of DIR that the database has not had yet.

    Start it wherever the program starts that needs the database: one applies the steps, the others wait and find nothing left to do.
    Steps are files such as 0001_create_users.sql or 0002_backfill.py with a function apply(connection). Each is applied and recorded in
    one transaction. Elections are held in the database itself, if it is a server; say --store for another place.

    \b
    Examples:
      tenure migrate migrations --database postgresql://app@db1/prod && exec ./serve
      tenure migrate migrations --database sqlite:///var/lib/app/app.db --status
      tenure migrate migrations --database mysql://app@db1/prod --wait 10m
    """
    if sum((only_status, dry_run, settle is not None)) > 1:
        raise ConfigError("options", "--status, --dry-run, --settle", "exclude each other")
    migration = Migration(folder, database, allow_newer=allow_newer)
    told, name = _Told(as_json=as_json), check_name(election or _office_of(database))

    async def work() -> int:
        async with migration:
            found, due = await migration.status()
            if only_status or dry_run:
                return told.status(found, due, dry_run=dry_run)
            if settle is None and not due.pending:
                return told.done(0, len(migration.steps))
            settings = settings_of(
                store=store,
                config=config,
                ttl=ttl,
                grace=grace,
                accept_best_effort=accept_best_effort,
                otherwise=database if is_server(database) else None,
            )
            async with open_store(settings.store, accept_best_effort=settings.accept_best_effort) as opened:
                candidature = Candidature(opened, name, settings.timing, wait_s)
                if settle is not None:
                    return await _settled(migration, settle, candidature, told)
                return told.done(len(await migration.run(candidature, told=told.applied)), len(migration.steps))

    try:
        return asyncio.run(work())
    except StepFailed as failed:
        return told.failed("failed", str(failed), FAILED)
    except NotInTime as late:
        return told.failed("not-in-time", str(late), NOT_IN_TIME)
    except (TenureOver, StaleToken) as over:
        return told.failed("lost", str(over), LOST)


def _office_of(database: str) -> str:
    """Return the office for a database. Files of one user share a store, and have nothing else in common."""
    return ELECTION if is_server(database) else f"{ELECTION}/{sha256(database.encode()).hexdigest()[:12]}"


async def _settled(migration: Migration, settle: str, candidature: Candidature, told: "_Told") -> int:
    said = _SETTLE.fullmatch(settle)
    if said is None:
        raise ConfigError("--settle", settle, "must be a number and a state, such as 7=applied or 7=undone")
    if not await migration.settle(int(said["number"]), said["state"], candidature):
        raise ConfigError("--settle", settle, "is of no step that was begun and whose end is not known")
    told.line({"event": "settled", "step": int(said["number"]), "state": said["state"]}, f"step {settle}")
    return 0


class _Told:
    """What is printed."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def line(self, fields: dict[str, Any], text: str) -> None:
        click.echo(json.dumps(fields) if self._as_json else text)

    def applied(self, done: Applied) -> None:
        step = done.step
        fields = {
            "event": "applied",
            "step": step.number,
            "name": step.name,
            "token": done.token,
            "took_s": round(done.took_s, 6),
        }
        self.line(fields, f"applied {step} in {done.took_s:.2f} s, token {done.token}")

    def failed(self, event: str, text: str, code: int) -> int:
        if self._as_json:
            click.echo(json.dumps({"event": event, "text": text}))
        click.echo(f"tenure migrate: {text}", err=True)
        return code

    def done(self, applied: int, steps: int) -> int:
        text = f"{applied} of {steps} steps applied" if applied else f"nothing to do: {steps} steps were applied before"
        self.line({"event": "up-to-date", "applied": applied, "steps": steps}, text)
        return 0

    def status(self, found: list[Record], due: Plan, *, dry_run: bool) -> int:
        for record in () if dry_run else found:
            fields = {
                "step": record.number,
                "name": record.name,
                "state": record.state,
                "token": record.token,
                "at": record.at,
            }
            self.line(fields, f"{record.state:<8} {record.number} {record.name}  {record.at}, token {record.token}")
        for step in due.pending:
            text = f"{'would apply' if dry_run else 'pending '} {step}  {step.how}"
            self.line({"step": step.number, "name": step.name, "state": "pending", "how": str(step.how)}, text)
        return FAILED if due.pending and not dry_run else 0
