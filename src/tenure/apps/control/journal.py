"""A worker's journal: one SQLite file with the highest token, the orders, and when a leader was last heard.

Rules of this file
1. The check of the token, the orders and the instant are one transaction, on disk before it is acknowledged. A worker that is
   killed has all of it or nothing, so an order is neither forgotten nor taken twice. Of a delivery that is not taken the token
   alone stays: whoever sent it leads, whatever it said.
2. An id is used once. What is done or withdrawn stays here as a name, so that a late copy of it is not begun again. Of these
   names the oldest are forgotten, and how old one is counts from the order's end: one that took a year to carry out may be sent
   again by the next leader a moment after it was done.
3. What an order has brought about may be written into the same file, in the transaction that says that it is done.
"""

import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from functools import partial
from threading import Lock
from typing import Any, Final, NamedTuple

from tenure.apps.control.order import AcceptedOrder, Delivery, NotTaken, Receipt
from tenure.errors import ConfigError, Unreachable
from tenure.sinks.base import Bound
from tenure.sinks.files import lock
from tenure.sinks.marks import connect_durably
from tenure.sinks.sqlite import guard
from tenure.sinks.sqlite.sink import store_error

_WAIT_S: Final = 5.0  # for another thread, and as sqlite3 does by itself for another process
_SCHEMA: Final = (
    # AUTOINCREMENT: a number is never given again, so the order in which orders came is kept when old ones are forgotten.
    """CREATE TABLE IF NOT EXISTS tenure_order (came INTEGER PRIMARY KEY AUTOINCREMENT, fence TEXT NOT NULL, id TEXT NOT NULL,
    token INTEGER NOT NULL, payload TEXT NOT NULL, state INTEGER NOT NULL, ended INTEGER NOT NULL DEFAULT 0, UNIQUE (fence, id))""",
    "CREATE INDEX IF NOT EXISTS tenure_order_state ON tenure_order (state, fence, came)",
    "CREATE INDEX IF NOT EXISTS tenure_order_ended ON tenure_order (fence, ended)",
    """CREATE TABLE IF NOT EXISTS tenure_heard (fence TEXT NOT NULL PRIMARY KEY, token INTEGER NOT NULL, number INTEGER NOT NULL,
    clock TEXT NOT NULL, at_ns INTEGER NOT NULL) WITHOUT ROWID""",
)
_HEAR: Final = (
    "INSERT INTO tenure_heard (fence, token, number, clock, at_ns) VALUES (?, ?, ?, ?, ?) ON CONFLICT (fence) DO UPDATE SET "
    "token = excluded.token, number = excluded.number, clock = excluded.clock, at_ns = excluded.at_ns"
)
# ``ended`` counts up within a fence, from 1: 0 is of what is in force.
_END: Final = (
    "UPDATE tenure_order SET state = ?1, ended = 1 + (SELECT max(ended) FROM tenure_order WHERE fence = ?2) "
    "WHERE fence = ?2 AND id = ?3 AND state = 0"
)
_IN_FORCE: Final = "SELECT id FROM tenure_order WHERE state = ? AND fence = ? ORDER BY came"
_FORGET: Final = (
    "DELETE FROM tenure_order WHERE fence = ?1 AND ended > 0 AND ended <= (SELECT ended FROM tenure_order "
    "WHERE fence = ?1 AND ended > 0 ORDER BY ended DESC LIMIT 1 OFFSET ?2)"
)

Connect = Callable[[], sqlite3.Connection]


class State(IntEnum):
    """What became of an order."""

    OPEN = 0
    DONE = 1
    WITHDRAWN = 2


class Key(NamedTuple):
    """Which order: ids of different fences know nothing of each other."""

    fence: str
    id: str


class Heard(NamedTuple):
    """When a leader was last heard, on which clock, and what it said last."""

    token: int
    number: int
    clock: str
    at_ns: int


class Limits(NamedTuple):
    """How much of it a journal takes."""

    open_orders: int
    remembered: int


class Journal:
    """One connection, which one thread uses at a time. Not to be used in the child of a fork."""

    def __init__(self, database: str | os.PathLike[str] | Connect, limits: Limits) -> None:
        connect = database if callable(database) else partial(connect_durably, os.fspath(database))
        self._path = None if callable(database) else os.fspath(database)
        self.name = "worker" if self._path is None else f"worker {self._path}"
        self._limits, self._lock = limits, Lock()
        try:
            self._connection = connect()
            with self._writing("open"):
                _make(self._connection)
        except sqlite3.Error as error:
            raise store_error(self.name, error, "open") from error

    def take(self, term: Bound, delivery: Delivery, heard: tuple[str, int], *, known_only: bool) -> Receipt:
        """Check the token and take what was delivered, in one step (rule 1)."""
        with self._writing("take") as connection:
            last_number = self._admit(term, heard, known_only=known_only)
            connection.execute("SAVEPOINT tenure_delivery")
            try:
                is_new = self._is_new(delivery, last_number)
                # What it withdraws was withdrawn when it first came.
                outcome: Receipt | NotTaken = self._apply(term, delivery, withdraws=delivery.complete and is_new)
                connection.execute(_HEAR, (term.fence, term.token, delivery.number, *heard))
            except NotTaken as not_taken:
                connection.execute("ROLLBACK TO tenure_delivery")
                outcome = not_taken
        if isinstance(outcome, NotTaken):  # only now: the mark is on disk
            raise outcome
        return outcome

    def admit(self, term: Bound, heard: tuple[str, int], *, known_only: bool) -> None:
        """Raise the mark without an order: a seal."""
        with self._writing("seal"):
            self._admit(term, heard, known_only=known_only)

    def finish(self, order: AcceptedOrder, work: Callable[[sqlite3.Connection], object] | None) -> bool:
        """Note that an order is done, and let ``work`` write what came of it in the same step; False if it is over already."""
        with self._writing("finish") as connection:
            changed = connection.execute(_END, (State.DONE, order.fence, order.id)).rowcount
            if changed and work is not None:
                work(connection)
            return bool(changed)

    def keys(self) -> list[Key]:
        """Return the fences and ids of what is in force, in the order in which it came. Payloads may be large."""
        query = "SELECT fence, id FROM tenure_order WHERE state = ? ORDER BY came"
        return [Key(*row) for row in self._read(query, State.OPEN)]

    def order(self, key: Key) -> AcceptedOrder | None:
        """Return an order that is in force; None if it is not."""
        query = "SELECT payload, token FROM tenure_order WHERE fence = ? AND id = ? AND state = ?"
        rows = self._read(query, *key, State.OPEN)
        return AcceptedOrder(key.id, json.loads(rows[0][0]), rows[0][1], key.fence) if rows else None

    def all_heard(self) -> dict[str, Heard]:
        """Return who was heard last, by fence."""
        return {
            row[0]: Heard(*row[1:]) for row in self._read("SELECT fence, token, number, clock, at_ns FROM tenure_heard")
        }

    def heard(self, fence: str) -> Heard | None:
        """Return who was heard last, inside a transaction."""
        query = "SELECT token, number, clock, at_ns FROM tenure_heard WHERE fence = ?"
        row = self._connection.execute(query, (fence,)).fetchone()
        return None if row is None else Heard(*row)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Be the one that carries out what is in here: a worker that was started twice would do everything twice."""
        if self._path is None:
            yield
            return
        beside = f"{self._path}.busy"  # Not the file itself: SQLite has locks of its own there.
        own = lock.noted(partial(os.open, beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
        try:
            if not lock.try_lock(own):
                raise ConfigError("journal", self._path, "is carried out by another process already: one is enough")
            yield
        finally:
            lock.close(own)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def _admit(self, term: Bound, heard: tuple[str, int], *, known_only: bool) -> int:
        """Raise the mark; return the number of the last delivery of this leader, 0 if none was taken."""
        guard(self._connection, term, sealed_only=known_only)
        last = self.heard(term.fence)
        if last is not None and last.token == term.token:  # Nothing is new, and nothing is written.
            return last.number
        self._connection.execute(_HEAR, (term.fence, term.token, 0, *heard))
        return 0

    def _is_new(self, delivery: Delivery, last_number: int) -> bool:
        if delivery.number < last_number:
            detail = f"delivery {delivery.number} comes late: {last_number} of the same leader was here"
            raise NotTaken(self.name, "take", detail)
        return delivery.number > last_number

    def _apply(self, term: Bound, delivery: Delivery, *, withdraws: bool) -> Receipt:
        connection, fence = self._connection, term.fence
        accepted, known, over = list[str](), list[str](), list[str]()
        look_up = "SELECT payload, state FROM tenure_order WHERE fence = ? AND id = ?"
        insert = "INSERT INTO tenure_order (fence, id, token, payload, state) VALUES (?, ?, ?, ?, ?)"
        for order in delivery.orders:
            row = connection.execute(look_up, (fence, order.id)).fetchone()
            if row is None:
                connection.execute(insert, (fence, order.id, term.token, order.text, State.OPEN))
                accepted.append(order.id)
            elif row[0] != order.text:
                detail = f"order {order.id[:40]!r} is known with another payload: an id is used once"
                raise NotTaken(self.name, "take", detail)
            else:
                (known if row[1] == State.OPEN else over).append(order.id)
        in_force = [row[0] for row in connection.execute(_IN_FORCE, (State.OPEN, fence))]
        named = {order.id for order in delivery.orders}
        withdrawn = [id_ for id_ in in_force if id_ not in named] if withdraws else []
        connection.executemany(_END, [(State.WITHDRAWN, fence, id_) for id_ in withdrawn])
        if len(in_force) - len(withdrawn) > self._limits.open_orders:
            detail = (
                f"{len(in_force) - len(withdrawn)} orders would be in force, and at most {self._limits.open_orders} may"
            )
            raise NotTaken(self.name, "take", detail)
        connection.execute(_FORGET, (fence, self._limits.remembered))
        return Receipt(tuple(accepted), tuple(known), tuple(over), tuple(withdrawn))

    def _read(self, query: str, *values: Any) -> Sequence[tuple[Any, ...]]:
        with self._held("read"):
            try:
                return self._connection.execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise store_error(self.name, error, "read") from error

    @contextmanager
    def _writing(self, operation: str) -> Iterator[sqlite3.Connection]:
        connection = self._connection
        with self._held(operation):
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                raise store_error(self.name, error, operation) from error
            finally:
                if connection.in_transaction:  # Also after a COMMIT that failed, for want of room on the disk.
                    connection.execute("ROLLBACK")

    @contextmanager
    def _held(self, operation: str) -> Iterator[None]:
        if not self._lock.acquire(timeout=_WAIT_S):
            raise Unreachable(self.name, operation, f"another thread has used the journal for {_WAIT_S:g} s")
        try:
            yield
        finally:
            self._lock.release()


def _make(connection: sqlite3.Connection) -> None:
    table, *others = _SCHEMA
    connection.execute(table)
    columns = {name for _, name, *_ in connection.execute("PRAGMA table_info(tenure_order)")}
    if (
        "ended" not in columns
    ):  # A journal of before: when its orders ended is not known, but that it was before all others.
        connection.execute("ALTER TABLE tenure_order ADD COLUMN ended INTEGER NOT NULL DEFAULT 0")
        connection.execute("UPDATE tenure_order SET ended = came WHERE state <> 0")
    for statement in others:
        connection.execute(statement)
