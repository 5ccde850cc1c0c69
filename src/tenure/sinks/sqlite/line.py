"""The one connection of a sink, and whose turn it is to use it.

One and not a pool: SQLite has one writer at a time anyway, and a thread that waits for a lock is woken at once, where one
that waits for SQLite's lock looks again every so often.

Rules of this file
1. A transaction is ended by the line and by nobody else. Whatever came after a COMMIT of the caller's own would be
   written without a check, so it is refused, also where it hides: in ``executescript``, in ``with connection:``.
2. A connection is not used in a process that did not open it, not even to close it (SQLite forbids it).
3. A thread cannot wait for itself: a second transaction in the same thread is an error at once.
"""

import os
import sqlite3
from collections.abc import Callable
from threading import Lock, get_ident
from weakref import WeakSet

from tenure.errors import ConfigError, Unreachable
from tenure.sinks.sqlite.presence import Presence, presence_of
from tenure.sinks.sqlite.row import CREATE, admit, highest_of, is_manual

Connect = Callable[[], sqlite3.Connection]

WAIT_S = 5  # For another thread of this process. As long as sqlite3 waits, by default, for another process.

# The comments make these texts our own. Python keeps prepared statements by their text, and the gate below is asked only
# when one is prepared: a COMMIT of the caller's must not find ours.
_BEGIN = "BEGIN -- tenure"
_COMMIT = "COMMIT -- tenure"
_ROLLBACK = "ROLLBACK -- tenure"

# What a process inherited from its parent. Kept, so that nothing closes it (rule 2).
_INHERITED: list[object] = []
_LINES: "WeakSet[Line]" = WeakSet()


class _Gate:
    """Lets nobody begin or end a transaction while one is bound (rule 1). Knows no connection, so it keeps none alive."""

    __slots__ = ("bound",)

    def __init__(self) -> None:
        self.bound = False

    def judge(self, action: int, *_: str | None) -> int:
        """Answer for SQLite's authorizer, which is asked when a statement is prepared."""
        return sqlite3.SQLITE_DENY if self.bound and action == sqlite3.SQLITE_TRANSACTION else sqlite3.SQLITE_OK


class Line:
    """A connection that is opened when it is first needed, and that one thread uses at a time."""

    connection: sqlite3.Connection
    cursor: sqlite3.Cursor
    presence: Presence

    def __init__(self, connect: Connect, name: str, wait_s: float = WAIT_S) -> None:
        self._connect, self._name, self._wait_s = connect, name, wait_s
        self._is_closed = False
        self._start()
        _LINES.add(self)

    def _start(self) -> None:
        self._lock, self._gate = Lock(), _Gate()
        self._owner: int | None = None
        self._is_open = False

    def begin(self, fence: str, number: int, statement: str) -> sqlite3.Connection:
        """Take the line for this thread, and begin a transaction with the check of ``row.admit``."""
        if not self._lock.acquire(False):
            self._wait()
        self._owner = get_ident()
        bound = False
        try:
            if not self._is_open:
                self._open()
            self.cursor.execute(_BEGIN)
            admit(self.cursor, fence, number, statement)
            self.presence.tokens[fence] = number
            self._gate.bound = bound = True
        except sqlite3.ProgrammingError as error:
            if "thread" not in str(error):
                raise
            rule = "must be False where the connection is opened: the threads of a process share a sink"
            raise ConfigError("check_same_thread", True, rule) from error
        finally:
            if not bound:
                self.roll_back()
        return self.connection

    def stands_at(self, fence: str, number: int) -> bool:
        """Return whether the fence stands at exactly this token, by a read that takes no write lock."""
        if not self._lock.acquire(blocking=False):
            self._wait()
        self._owner = get_ident()
        try:
            if not self._is_open:
                self._open()
            return highest_of(self.cursor, fence) == number
        finally:
            self._free()

    def commit(self) -> None:
        """Commit, and give the line free. Raises ConfigError if the transaction is not there any more."""
        self._gate.bound = committed = False
        try:
            if self._owner is None or not self.connection.in_transaction:
                rule = "must last until its block ends: what came after was not fenced"
                raise ConfigError("transaction", "ended inside", rule)
            self.cursor.execute(_COMMIT)
            committed = True
        finally:
            if not committed:
                self.roll_back()  # A COMMIT that failed, for instance because somebody reads, leaves it open.
        self._free()

    def roll_back(self) -> None:
        """Roll back what is open, and give the line free."""
        if self._owner is None:  # This process was forked inside the transaction, which belongs to its parent.
            return
        self._gate.bound = False
        try:
            if self._is_open and self.connection.in_transaction:
                self.cursor.execute(_ROLLBACK)
        finally:
            self._free()

    def close(self) -> None:
        """Close the connection, or let the transaction that uses it close it. The line cannot be used again."""
        self._is_closed = True
        if self._lock.acquire(blocking=False):
            if self._is_open:
                self._is_open = False
                self.connection.close()
            self._lock.release()

    def start_anew(self) -> None:
        """Forget the connection that this process inherited from its parent, without touching it (rule 2)."""
        _INHERITED.append(self.__dict__.copy())
        self._start()

    def _free(self) -> None:
        if self._is_open:
            self.presence.tokens.clear()
        self._owner = None
        self._lock.release()
        if self._is_closed:
            self.close()

    def _wait(self) -> None:
        if self._owner == get_ident():
            raise ConfigError("transaction", "a second one", "must wait until this thread has ended the one it is in")
        if not self._lock.acquire(timeout=self._wait_s):
            detail = f"another thread has kept its transaction open for {self._wait_s} s"
            raise Unreachable(self._name, "begin", detail)

    def _open(self) -> None:
        if self._is_closed:
            raise ConfigError("sink", self._name, "must not be used after it was closed")
        connection = self._connect()
        try:
            self._prepare(connection)
        finally:
            if not self._is_open:
                connection.close()

    def _prepare(self, connection: sqlite3.Connection) -> None:
        if not is_manual(connection) or connection.in_transaction:
            rule = "must be None: only the sink may begin and end transactions on its connection"
            raise ConfigError("isolation_level", repr(connection.isolation_level), rule)
        connection.execute(CREATE)
        connection.set_authorizer(self._gate.judge)
        self.connection, self.presence = connection, presence_of(connection)
        self.cursor = connection.cursor()
        self._is_open = True


def _after_fork() -> None:
    for line in list(_LINES):
        line.start_anew()


os.register_at_fork(after_in_child=_after_fork)
