"""Requests in transactions: those that wait together are carried out together, and each gets an outcome of its own.

Rules of this file
1. A claim is durable before it is answered, and so is a document. A token that was issued again after a power cut would be two tenures under
   one number, which no fence could tell apart. Renewals and releases need not be: a reboot frees every lease anyway.
   So a transaction that holds one of these is synced (synchronous = FULL) and others are not (NORMAL), which costs nothing
   in consistency: the log is in order, and a synced commit takes everything before it along.
2. Whoever waits together is served by one transaction: a thousand renewals are one commit, and fifty claims one sync.
3. Answers are given after the commit, never before.
4. Nothing is left open: whatever is raised, the transaction has ended when ``carry_out`` returns.
"""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import IntEnum
from typing import Any, Generic, NamedTuple, TypeVar

from tenure.clock import Clock
from tenure.errors import Refused, TenureError, Unreachable
from tenure.model import Bid, Conflict, Document, Wait
from tenure.stores.base import ElectionStatus
from tenure.stores.sqlite.desk import Desk
from tenure.stores.sqlite.engine import Denied, Engine, Swap
from tenure.stores.sqlite.faults import fault_of, needs_new_connection
from tenure.stores.sqlite.file import LOG_MAX, log_of, patiently, size_of

S = TypeVar("S")
A = TypeVar("A")

# After how many transactions the length of the log is looked at; a look costs 5 µs.
_LOOK_AT_LOG_EVERY = 64
# How long what nobody waits for may keep the next request waiting. What is not done then is tried again later.
_TIDY_MAX_S = 0.05
# How long moving the log into the file may wait for the others to stop writing. It is tried again soon.
_MOVE_WAIT_MS = 100


class Need(IntEnum):
    """What a request asks of its transaction, in rising order: a batch gets what the most demanding one needs."""

    SNAPSHOT = 0
    LOCK = 1
    SYNC = 2


class Operation(NamedTuple, Generic[S, A]):
    """What can be asked of the engine: about a subject, at an instant that is read once the transaction has begun."""

    name: str
    need: Need
    act: Callable[[Engine, S, int], A]


CLAIM = Operation("claim", Need.SYNC, Engine.claim)
RENEW = Operation("renew", Need.LOCK, Engine.renew)
PROCLAIM = Operation("proclaim", Need.LOCK, Engine.proclaim)
RELEASE = Operation[Bid, None]("release", Need.LOCK, lambda engine, bid, _: engine.release(bid))
READ = Operation("read", Need.SNAPSHOT, Engine.read)
ELECTIONS = Operation[None, list[ElectionStatus]](
    "elections", Need.SNAPSHOT, lambda engine, _, now: engine.elections(now)
)
FETCH = Operation[str, Document | None]("fetch", Need.SNAPSHOT, lambda engine, key, _: engine.fetch(key))
SWAP = Operation[Swap, Document | Conflict]("swap", Need.SYNC, lambda engine, swap, _: engine.swap(swap))
ASK_TO_RESIGN = Operation("ask_to_resign", Need.LOCK, Engine.ask_to_resign)


class Request(NamedTuple):
    """One thing to do in the file."""

    operation: Operation[Any, Any]
    subject: Any


class Session:
    """Carries requests out on one desk. Used by one thread."""

    def __init__(self, desk: Desk, clock: Clock) -> None:
        self.desk = desk
        self._clock = clock
        self._transaction_count = 0
        self._somebody_waits = False
        self._synced: tuple[int, bool] | None = None  # which connection, and whether its commits are synced

    def carry_out(self, requests: Sequence[Request]) -> list[object]:
        """Carry the requests out in one transaction, in their order; return for each its answer, or its error."""
        try:
            with self.desk.at_work(requests[0].operation.name) as (connection, engine):
                return self._transact(connection, engine, requests)
        except sqlite3.Error as error:  # There is no connection to be had.
            return self._faults(error, requests, committing=False)
        except TenureError as error:  # The file was replaced, or the clock went back: true of all alike.
            return [error for _ in requests]
        except OSError as error:  # No descriptor is left, say: neither is there a connection.
            return [Unreachable(self.desk.address, request.operation.name, str(error)) for request in requests]

    def tidy(self) -> bool:
        """Do what nobody waits for: record who stands by, and keep the log short. A failure here is nobody's.

        Returns False if somebody who stands by could not be recorded, because others kept the file locked.
        """
        look_at_log = self._transaction_count % _LOOK_AT_LOG_EVERY == 1
        if not (look_at_log or self._somebody_waits):
            return True
        with suppress(sqlite3.Error, TenureError, OSError), self.desk.at_work("tidy") as (connection, engine):
            try:
                if engine.must_record_standbys():
                    self._sync(connection, False)
                    patiently(lambda: self._begin(connection, Need.LOCK), _TIDY_MAX_S)
                    engine.write_standbys()
                    connection.execute("COMMIT")
                self._somebody_waits = False
                if look_at_log:
                    self._shorten_log(connection)
            finally:
                self._roll_back(connection)
        return not self._somebody_waits

    def _transact(self, connection: sqlite3.Connection, engine: Engine, requests: Sequence[Request]) -> list[object]:
        need = max(request.operation.need for request in requests)
        committing = False
        try:
            self._sync(connection, need is Need.SYNC)
            patiently(lambda: self._begin(connection, need))
            now = self._clock.now()
            answers = [self._answer(engine, request, now) for request in requests]
            committing = True
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if needs_new_connection(error):
                self.desk.give_up()
            return self._faults(error, requests, committing)
        finally:
            self._roll_back(connection)
        self._transaction_count += 1
        self._somebody_waits |= any(isinstance(answer, Wait) for answer in answers)
        return answers

    def _begin(self, connection: sqlite3.Connection, need: Need) -> None:
        if need is not Need.SNAPSHOT:
            connection.execute("BEGIN IMMEDIATE")
            return
        connection.execute("BEGIN")
        try:
            connection.execute("SELECT one FROM store")  # A plain BEGIN takes nothing; the first look at the file does.
        except sqlite3.Error:
            self._roll_back(connection)
            raise

    def _answer(self, engine: Engine, request: Request, now: int) -> object:
        try:
            return request.operation.act(engine, request.subject, now)
        except Denied as no:
            return Refused(self.desk.address, request.operation.name, str(no))

    def _faults(self, error: sqlite3.Error, requests: Sequence[Request], committing: bool) -> list[object]:
        faults: list[object] = []
        for request in requests:
            name, need, _ = request.operation
            in_doubt = committing and need is not Need.SNAPSHOT  # A read has no outcome to doubt.
            faults.append(fault_of(error, self.desk.address, name, committing=in_doubt))
        return faults

    def _sync(self, connection: sqlite3.Connection, synced: bool) -> None:
        if self._synced != (self.desk.opened_count, synced):
            connection.execute("PRAGMA synchronous = FULL" if synced else "PRAGMA synchronous = NORMAL")
            self._synced = (self.desk.opened_count, synced)

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            # Closed by then, or closed now: either way the transaction is gone with its connection.
            self.desk.give_up()

    def _shorten_log(self, connection: sqlite3.Connection) -> None:
        """Move the log into the file once it is long.

        Not by SQLite's automatic checkpoint, which lets others write on meanwhile: up to 3.51.2 a commit that restarts
        the log between two such checkpoints can be lost (sqlite.org/wal.html#walresetbug), and our files are written by
        many processes by their nature. FULL takes the lock of the writers first.
        """
        if size_of(log_of(self.desk.path.resolve())) < LOG_MAX:
            return
        connection.execute(f"PRAGMA busy_timeout = {_MOVE_WAIT_MS}")
        try:
            connection.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
        finally:
            connection.execute("PRAGMA busy_timeout = 0")
