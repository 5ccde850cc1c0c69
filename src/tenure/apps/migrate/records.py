"""The table in which each step that was applied is recorded, as entries of a ledger."""

from datetime import UTC, datetime
from typing import Final, cast

from tenure.apps.ledger.base import Entry, Kind, Ledger
from tenure.apps.migrate.plan import Record, State
from tenure.apps.migrate.steps import Step
from tenure.errors import Refused
from tenure.sinks.sql.talk import Ask

TABLE: Final = "tenure_migration"
_SELECT: Final = f"SELECT step, name, checksum, state, token, at FROM {TABLE} ORDER BY step"  # noqa: S608
_INSERT: Final = f"INSERT INTO {TABLE} (step, name, checksum, state, token, at) VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608
_END: Final = (
    f"UPDATE {TABLE} SET state = 'applied', token = ?, at = ? WHERE step = ? AND checksum = ? AND state = 'begun'"  # noqa: S608
)
_AGAIN: Final = f"UPDATE {TABLE} SET token = ?, at = ? WHERE step = ? AND checksum = ? AND state = 'begun'"  # noqa: S608
_UNDO: Final = f"DELETE FROM {TABLE} WHERE step = ? AND state = 'begun'"  # noqa: S608
_SETTLE: Final = f"UPDATE {TABLE} SET state = 'applied' WHERE step = ? AND state = 'begun'"  # noqa: S608

_THERE: Final[dict[Kind, str]] = {
    "sqlite": "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?",
    "postgresql": "SELECT 1 WHERE to_regclass(?) IS NOT NULL",
    "mysql": "SELECT 1 FROM information_schema.tables WHERE table_schema = database() AND table_name = ?",
}


def create(ledger: Ledger) -> Entry[None]:
    """Make the table, unless it is there."""
    told = yield Ask(_THERE[ledger.kind], (TABLE,))
    if told.rows:
        return
    key, text, number = ledger.words
    columns = f"step {number} PRIMARY KEY, name {text} NOT NULL, checksum {key} NOT NULL, state {key} NOT NULL, token {number} NOT NULL, at {key} NOT NULL"
    if ledger.kind == "postgresql":
        # CREATE IF NOT EXISTS is not safe against another one at the same time; a lock is.
        yield Ask("SELECT pg_advisory_xact_lock(hashtext(?))", (TABLE,))
    yield Ask(f"CREATE TABLE IF NOT EXISTS {TABLE} ({columns})")


def found(ledger: Ledger) -> Entry[list[Record]]:
    """Read what was recorded, if anything ever was. Changes nothing."""
    told = yield Ask(_THERE[ledger.kind], (TABLE,))
    return (yield from recorded()) if told.rows else []


def recorded() -> Entry[list[Record]]:
    """Read what was recorded, where the table is."""
    told = yield Ask(_SELECT)
    return [
        Record(
            cast("int", step),
            cast("str", name),
            cast("str", checksum),
            cast("State", state),
            cast("int", token),
            cast("str", at),
        )
        for step, name, checksum, state, token, at in told.rows
    ]


def applied(step: Step, token: int) -> Entry[None]:
    """Apply a step and record it. Nothing else decides whether it was applied: its number can be recorded once."""
    yield Ask(_INSERT, (step.number, step.name, step.checksum, "applied", token, _now()))
    yield from done(step)


def done(step: Step) -> Entry[None]:
    """Do what a step is to do."""
    for part in step.work:  # noqa: UP028  (a tuple takes no answers)
        yield part


def begun(step: Step, token: int, *, again: bool) -> Entry[None]:
    """Record that a step without a transaction is about to be begun."""
    if again:
        told = yield Ask(_AGAIN, (token, _now(), step.number, step.checksum))
        _expect_one(told.count, step)
    else:
        yield Ask(_INSERT, (step.number, step.name, step.checksum, "begun", token, _now()))


def ended(step: Step, token: int) -> Entry[None]:
    """Record that a step without a transaction has ended."""
    told = yield Ask(_END, (token, _now(), step.number, step.checksum))
    _expect_one(told.count, step)


def settled(number: int, state: str) -> Entry[bool]:
    """Record what somebody has found out about a step that was begun: it was applied, or must be begun anew."""
    told = yield Ask(_SETTLE if state == "applied" else _UNDO, (number,))
    return told.count == 1


def _expect_one(count: int, step: Step) -> None:
    if count != 1:
        raise Refused(TABLE, "record", f"step {step} is not as it was left: somebody has changed its record")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
