"""The table in which each step that was applied is recorded, as entries of a ledger."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, cast

from tenure.apps.ledger import tables
from tenure.apps.ledger.base import Entry, Ledger
from tenure.apps.migrate.plan import Record, State
from tenure.apps.migrate.steps import Step
from tenure.errors import Refused
from tenure.sinks.sql.talk import Ask

TABLE: Final = "tenure_migration"


def create(ledger: Ledger) -> Entry[None]:
    """Make the table, unless it is there."""
    key, text, number, _ = ledger.words
    columns = (
        f"step {number} PRIMARY KEY, name {text} NOT NULL, checksum {key} NOT NULL, state {key} NOT NULL, "
        f"token {number} NOT NULL, at {key} NOT NULL"
    )
    yield from tables.make(ledger, TABLE, columns)


def where(ledger: Ledger) -> Entry["Records | None"]:
    """Find the table. Changes nothing."""
    name = yield from tables.where(ledger, TABLE)
    return None if name is None else Records(name)


def found(ledger: Ledger) -> Entry[list[Record]]:
    """Read what was recorded, if anything ever was. Changes nothing."""
    table = yield from where(ledger)
    return [] if table is None else (yield from table.all())


def done(step: Step) -> Entry[None]:
    """Do what a step is to do."""
    for part in step.work:  # noqa: UP028  (a tuple takes no answers)
        yield part


@dataclass(frozen=True, slots=True)
class Records:
    """The table, by its whole name: a step may change for its session where names are looked for."""

    table: str

    def all(self) -> Entry[list[Record]]:
        """Read what was recorded."""
        told = yield Ask(f"SELECT step, name, checksum, state, token, at FROM {self.table} ORDER BY step")  # noqa: S608
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

    def applied(self, step: Step, token: int) -> Entry[None]:
        """Apply a step and record it, in one transaction. Its number can be recorded once.

        That it was applied is the last thing that is said. If something in it has ended the transaction, the record says that
        it was begun.
        """
        yield from self.begun(step, token, again=False)
        yield from done(step)
        yield from self.ended(step, token)

    def begun(self, step: Step, token: int, *, again: bool) -> Entry[None]:
        """Record that a step is about to be begun."""
        if again:
            yield from self._moved("begun", step, token)
        else:
            row = step.number, step.name, step.checksum, "begun", token, _now()
            columns = "step, name, checksum, state, token, at"
            yield Ask(f"INSERT INTO {self.table} ({columns}) VALUES (?, ?, ?, ?, ?, ?)", row)  # noqa: S608

    def ended(self, step: Step, token: int) -> Entry[None]:
        """Record that a step has ended."""
        yield from self._moved("applied", step, token)

    def settled(self, number: int, state: str) -> Entry[bool]:
        """Record what somebody has found out about a step that was begun: it was applied, or must be begun anew."""
        if state == "applied":
            told = yield Ask(f"UPDATE {self.table} SET state = 'applied' WHERE step = ? AND state = 'begun'", (number,))  # noqa: S608
        else:
            told = yield Ask(f"DELETE FROM {self.table} WHERE step = ? AND state = 'begun'", (number,))  # noqa: S608
        return told.count == 1

    def _moved(self, state: State, step: Step, token: int) -> Entry[None]:
        change = (
            f"UPDATE {self.table} SET state = ?, token = ?, at = ? WHERE step = ? AND checksum = ? AND state = 'begun'"  # noqa: S608
        )
        told = yield Ask(change, (state, token, _now(), step.number, step.checksum))
        if told.count != 1:
            raise Refused(TABLE, "record", f"step {step} is not as it was left: somebody has changed its record")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
