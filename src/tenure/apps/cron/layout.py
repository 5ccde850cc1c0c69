"""The two tables of a schedule: what they are called, what is in them, and how they are made."""

from contextlib import suppress
from typing import Final

from tenure.apps.ledger import tables
from tenure.apps.ledger.base import Entry, Ledger
from tenure.errors import Unreachable
from tenure.sinks.sql.talk import Ask

RUNS: Final = "tenure_cron_run"
JOBS: Final = "tenure_cron_job"


async def prepare(ledger: Ledger) -> None:
    """Make the tables, unless they are there. A file is put into WAL mode, in which a commit is one wait for the disk in place of several."""
    if ledger.kind == "sqlite":
        # Two who ask for it at once are refused without a wait. Then the other does it, or whoever comes next.
        with suppress(Unreachable):
            await ledger.ask(_wal(), one_by_one=True)
    await ledger.ask(_create(ledger))


def _wal() -> Entry[None]:
    yield Ask("PRAGMA journal_mode = WAL")


def _create(ledger: Ledger) -> Entry[None]:
    key, text, number, _ = ledger.words
    columns = (
        f"election {key} NOT NULL, job {key} NOT NULL, mark {number} NOT NULL, paused {number} NOT NULL, schedule {text} NOT NULL, "
        f"forgotten {number} NOT NULL, changes {number} NOT NULL"
    )
    yield from tables.make(ledger, JOBS, f"{columns}, PRIMARY KEY (election, job)")
    columns = (
        f"election {key} NOT NULL, job {key} NOT NULL, scheduled {number} NOT NULL, state {key} NOT NULL, origin {key} NOT NULL, "
        f"on_loss {key} NOT NULL, token {number} NOT NULL, attempt {number} NOT NULL, failures {number} NOT NULL, "
        f"not_before {number} NOT NULL, started {number}, ended {number}, code {number}, detail {text} NOT NULL, tail {text} NOT NULL, "
        f"PRIMARY KEY (election, job, scheduled)"
    )
    if ledger.kind == "mysql":  # It has no CREATE INDEX IF NOT EXISTS.
        yield from tables.make(ledger, RUNS, f"{columns}, INDEX {RUNS}_state (election, state)")
    elif (yield from tables.make(ledger, RUNS, columns)):
        yield Ask(f"CREATE INDEX IF NOT EXISTS {RUNS}_state ON {RUNS} (election, state)")


def is_made(ledger: Ledger) -> Entry[bool]:
    """Say whether there are tables. Changes nothing."""
    return (yield from tables.where(ledger, RUNS)) is not None
