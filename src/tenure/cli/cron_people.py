"""``tenure cron list``, ``runs``, ``trigger``, ``pause`` and ``resume``: what people ask of a crontab, whoever is in office."""

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from tenure.apps.cron.crontab import Crontab, read_crontab
from tenure.apps.cron.jobs import Job
from tenure.apps.cron.layout import is_made, prepare
from tenure.apps.cron.records import STATES, JobRow, Record, Records
from tenure.apps.cron.schedule import iso
from tenure.apps.cron.scheduler import wall_ms
from tenure.apps.ledger.base import Entry, Ledger
from tenure.apps.ledger.opening import open_ledger
from tenure.cli.cron_place import crontab_options, place_of
from tenure.cli.output import aligned, shown
from tenure.errors import ConfigError, TenureError

T = TypeVar("T")
_RUNS_MAX = 100_000


def job_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Return the jobs of FILE that begin like ``incomplete``, for a completion."""
    try:
        crontab = read_crontab(ctx.params["file"], calls=False)
    except (KeyError, TenureError):
        return []
    return [job.id for job in crontab.jobs if job.id.startswith(incomplete)]


_JOB = click.argument("job_id", metavar="JOB", shell_complete=job_names)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one object a line.")


@click.command("list")
@crontab_options
@_JSON
def list_(*, file: Path, as_json: bool, **where: Any) -> None:
    """Show the jobs of FILE: when each is due next, and how its newest run has ended.

    \b
    Examples:
      tenure cron list crontab.toml
      tenure cron list crontab.toml --json
    """
    crontab = read_crontab(file, calls=False)

    def found(records: Records) -> Entry[tuple[dict[str, JobRow], dict[str, Record]]]:
        return (yield from records.jobs()), (yield from records.newest())

    rows, newest = _asked(crontab, where, found, change=False) or ({}, {})
    show_jobs(crontab, rows, newest, as_json=as_json)


@click.command()
@crontab_options
@click.option("--job", "job_id", metavar="JOB", shell_complete=job_names, help="Only of this job.")
@click.option("--state", type=click.Choice(STATES), help="Only those in this state.")
@click.option("--limit", type=click.IntRange(1, _RUNS_MAX), default=20, show_default=True, help="How many, at most.")
@_JSON
def runs(*, file: Path, job_id: str | None, state: str | None, limit: int, as_json: bool, **where: Any) -> None:
    """Show the newest runs of FILE's jobs.

    \b
    Examples:
      tenure cron runs crontab.toml
      tenure cron runs crontab.toml --job backup --state failed --json
    """
    crontab = read_crontab(file, calls=False)
    found = _asked(crontab, where, lambda records: records.runs(job_id, state, limit), change=False) or []
    if as_json:
        for run in found:
            click.echo(json.dumps(_object(run)))
        return
    lines = [("JOB", "SCHEDULED", "STATE", "ATTEMPT", "TOKEN", "TOOK", "CODE", "DETAIL")]
    for run in found:
        took = (
            "-" if run.started_ms is None or run.ended_ms is None else f"{(run.ended_ms - run.started_ms) / 1000:.1f}s"
        )
        code = "-" if run.code is None else str(run.code)
        when = iso(run.key.scheduled_ms)
        lines.append(
            (run.key.job, when, run.state, str(run.attempt), str(run.token), took, code, shown(run.detail) or "-")
        )
    click.echo(aligned(lines))


@click.command()
@crontab_options
@_JOB
@_JSON
def trigger(*, file: Path, job_id: str, as_json: bool, **where: Any) -> None:
    """Have JOB of FILE run now, whether or not it is paused. The scheduler in office begins it within a second or so.

    It is never skipped. Unless runs of JOB may overlap, it waits for the one that is under way; not for one that has failed and is to be
    tried again.

    \b
    Examples:
      tenure cron trigger crontab.toml backup
    """
    crontab = read_crontab(file, calls=False)
    job, now_ms = _job_of(crontab, job_id), wall_ms()
    key = _asked(crontab, where, lambda records: records.triggered(job, now_ms), change=True)
    fields = {"event": "triggered", "run": str(key)}
    click.echo(json.dumps(fields) if as_json else f"triggered {key}: it begins when a scheduler in office sees it")


@click.command()
@crontab_options
@_JOB
@_JSON
def pause(*, file: Path, job_id: str, as_json: bool, **where: Any) -> None:
    """Let no run of JOB begin until it is resumed. A run that is under way goes on.

    \b
    Examples:
      tenure cron pause crontab.toml backup
    """
    _set_paused(file, job_id, where, paused=True, as_json=as_json)


@click.command()
@crontab_options
@_JOB
@_JSON
def resume(*, file: Path, job_id: str, as_json: bool, **where: Any) -> None:
    """Let JOB run again. What would have been due while it was paused is not run.

    \b
    Examples:
      tenure cron resume crontab.toml backup
    """
    _set_paused(file, job_id, where, paused=False, as_json=as_json)


def show_jobs(crontab: Crontab, rows: Mapping[str, JobRow], newest: Mapping[str, Record], *, as_json: bool) -> None:
    """Print jobs, and what is known of them."""
    lines = [("JOB", "SCHEDULE", "NEXT", "LAST", "STATE", "RUNS")]
    for job in crontab.jobs:
        row, last = rows.get(job.id), newest.get(job.id)
        paused = row is not None and row.paused
        mark_ms = wall_ms() if row is None else max(wall_ms(), row.mark_ms)
        next_ms = None if paused else next(job.schedule.after(mark_ms), None)
        due, before = "-" if next_ms is None else iso(next_ms), "-" if last is None else iso(last.key.scheduled_ms)
        if as_json:
            click.echo(json.dumps(_job_object(job, due, paused=paused, last=last)))
        state = "paused" if paused else "-" if last is None else last.state
        lines.append((job.id, job.schedule.text, due, before, state, _how(job)))
    if not as_json:
        click.echo(aligned(lines))
        for stranger in sorted(set(rows) - {job.id for job in crontab.jobs}):
            click.echo(f"{shown(stranger)} is in the ledger and not in this file: it does not run")


def _job_object(job: Job, due: str, *, paused: bool, last: Record | None) -> dict[str, Any]:
    return {
        "job": job.id,
        "schedule": job.schedule.text,
        "next": None if due == "-" else due,
        "paused": paused,
        "runs": _how(job),
        "idempotent": job.idempotent,
        "catch_up": job.catch_up,
        "overlap": job.overlap,
        "last": None if last is None else _object(last),
    }


def _how(job: Job) -> str:
    if not isinstance(job.work, tuple):
        return "a function"
    return f"by {job.work[0]}" if job.work[1:2] == ("-c",) else shown(job.work[0])


def _object(run: Record) -> dict[str, Any]:
    return {
        "run": str(run.key),
        "job": run.key.job,
        "scheduled": iso(run.key.scheduled_ms),
        "state": run.state,
        "origin": run.origin,
        "attempt": run.attempt,
        "token": run.token,
        "started": None if run.started_ms is None else iso(run.started_ms),
        "ended": None if run.ended_ms is None else iso(run.ended_ms),
        "code": run.code,
        "detail": run.detail,
        "tail": run.tail,
    }


def _job_of(crontab: Crontab, job_id: str) -> Job:
    for job in crontab.jobs:
        if job.id == job_id:
            return job
    raise ConfigError("JOB", job_id, f"is not in the crontab, which has {', '.join(job.id for job in crontab.jobs)}")


def _set_paused(file: Path, job_id: str, where: dict[str, Any], *, paused: bool, as_json: bool) -> None:
    crontab = read_crontab(file, calls=False)
    job, now_ms = _job_of(crontab, job_id), wall_ms()
    changed = _asked(crontab, where, lambda records: records.paused(job, now_ms, paused=paused), change=True)
    word = "paused" if paused else "resumed"
    fields = {"event": word, "job": job_id, "changed": bool(changed)}
    text = f"{word} {job_id}" if changed else f"{job_id} {'is paused already' if paused else 'was not paused'}"
    click.echo(json.dumps(fields) if as_json else text)


def _asked(crontab: Crontab, where: dict[str, Any], entry: Callable[[Records], Entry[T]], *, change: bool) -> T | None:
    """Carry out what somebody asks of the ledger; None if nothing was ever recorded there."""
    _, url = place_of(crontab, **where, reading=not change)

    async def work() -> T | None:
        ledger = open_ledger(url)
        records = Records(ledger.kind, crontab.election)
        try:
            if not change:
                return await ledger.look(_if_made(ledger, entry(records)))
            await prepare(ledger)
            return await ledger.ask(entry(records))
        finally:
            await ledger.close()

    return asyncio.run(work())


def _if_made(ledger: Ledger, entry: Entry[T]) -> Entry[T | None]:
    if not (yield from is_made(ledger)):
        entry.close()
        return None
    return (yield from entry)
