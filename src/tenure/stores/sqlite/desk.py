"""Connections and who may use them: one at a desk, opened when it is needed, closed before every fork.

Rules of this file
1. A connection is used only under its desk's lock, by whichever thread has it.
2. No connection crosses a fork. SQLite keeps the locks of a process in its memory, and the kernel does not give them to
   a child: a child would believe in locks that it does not hold, also on connections that it opens itself, and the last
   other process to close the file would delete the log under it. So the parent closes what it has before it forks and
   opens it again afterwards. This costs some milliseconds per fork, and nothing for a subprocess (which does not run
   these hooks, and takes no descriptor along).
3. If a connection cannot be closed in time (its disk hangs), the child may not open that file at all, and never closes
   what it inherited.
"""

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tenure.errors import ConfigError, Refused
from tenure.stores.sqlite.engine import Engine
from tenure.stores.sqlite.file import connect, identity_of, log_of, patiently, prepare, tune
from tenure.stores.sqlite.host import Host, check_place

# How long a fork waits for a transaction under way: longer than any healthy one, and bounded because os.fork() is
# called where nobody expects to wait.
_FORK_WAIT_S = 2.0

FileId = tuple[int, int]


class Desk:
    """One connection to one file, and the engine that speaks through it."""

    def __init__(self, path: Path, address: str, host: Callable[[], Host]) -> None:
        self.path, self.address = path, address
        self.identity = ""
        self.opened_count = 0
        self._host = host
        self.file_id: FileId | None = None
        self._log = path
        self._log_id: FileId | None = None  # while connected
        self._connection: sqlite3.Connection | None = None
        self._engine: Engine | None = None
        self._lock = threading.Lock()
        with _REGISTRY.lock:
            _REGISTRY.desks.add(self)

    def open_first(self) -> None:
        """Look at the place and the file, make a database if there is none, and connect."""
        with self._lock:
            host, real = self._host(), check_place(self.path)
            _refuse_inherited(self.path)
            connection, self.identity = prepare(real)
            self._keep(connection, host)
            self.file_id = _file_id(real)

    def open_beside(self, other: "Desk") -> None:
        """Take over what another desk of the same store has found out, and connect on first use."""
        self.identity, self.file_id = other.identity, other.file_id

    @contextmanager
    def at_work(self, operation: str) -> Iterator[tuple[sqlite3.Connection, Engine]]:
        """Give the connection for one piece of work. Raises Refused if the file is not the one that was opened."""
        with self._lock:
            # A process that goes on in a deleted file renews in one that nobody else can see, while others elect a
            # second leader in a new file under the same name. So does one whose log was deleted under it (``rm *-wal``),
            # and worse: the newest tokens were in the log, and are issued again.
            log_is_gone = self._connection is not None and self._log_id != _file_id(self._log)
            if log_is_gone or self.file_id != _file_id(self.path):
                self._close()
                detail = "the file was removed, replaced or hidden while it was open; start again to use the new one"
                raise Refused(self.address, operation, detail)
            if self._connection is None or self._engine is None:
                host = self._host()
                self._keep(self._reopen(operation), host)
            assert self._connection is not None
            assert self._engine is not None
            yield self._connection, self._engine

    def give_up(self) -> None:
        """Drop a connection that has failed. The caller is at work; the next one gets a new connection."""
        self._close()

    def close(self) -> None:
        with self._lock:
            self._close()

    def park(self) -> bool:
        """Before a fork: close the connection and keep everybody out. False if whoever is at work did not end in time."""
        if not self._lock.acquire(timeout=_FORK_WAIT_S):
            return False
        self._close()
        return True

    def unpark(self) -> None:
        """After a fork, in the parent."""
        self._lock.release()

    def disown(self) -> None:
        """After a fork, in the child, of a desk that could not be parked: see rule 3."""
        file_id = self.file_id or _file_id(self.path)
        if file_id is not None:
            _INHERITED.add(file_id)
        if self._connection is not None:
            import ctypes  # noqa: PLC0415  (dear to import, and hardly ever needed)

            # For ever: the interpreter closes a connection whose last reference goes, also on its way out.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))

    def _reopen(self, operation: str) -> sqlite3.Connection:
        connection = connect(self.path.resolve())
        try:
            patiently(lambda: tune(connection))
            identity = identity_of(connection)
        except sqlite3.Error:
            connection.close()
            raise
        if identity != self.identity:
            connection.close()
            raise Refused(self.address, operation, "the file was overwritten by that of another store; start again")
        return connection

    def _keep(self, connection: sqlite3.Connection, host: Host) -> None:
        self._connection, self._engine = connection, Engine(connection, host)
        self._log = log_of(self.path.resolve())
        self._log_id = _file_id(self._log)
        self.opened_count += 1

    def _close(self) -> None:
        connection, self._connection, self._engine = self._connection, None, None
        if connection is not None:
            with suppress(sqlite3.Error):  # Whatever could not be finished is finished by who opens the file next.
                connection.close()


def _file_id(path: Path) -> FileId | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


_INHERITED: set[FileId] = set()


class _Registry:
    """Every desk of this process, for the sake of forks. The lock is held from before one until after it."""

    def __init__(self) -> None:
        # Reentrant: a signal handler may fork while its thread makes a desk.
        self.lock = threading.RLock()
        self.desks: weakref.WeakSet[Desk] = weakref.WeakSet()
        self.parked: list[Desk] = []

    def before_fork(self) -> None:
        self.lock.acquire()
        self.parked = [desk for desk in self.desks if desk.park()]

    def after_in_parent(self) -> None:
        for desk in self.parked:
            desk.unpark()
        self.parked = []
        self.lock.release()

    def after_in_child(self) -> None:
        for desk in self.desks:
            if desk not in self.parked:
                desk.disown()
        # Whatever there was belongs to the parent, and so do its locks.
        self.lock, self.desks, self.parked = threading.RLock(), weakref.WeakSet(), []


_REGISTRY = _Registry()
os.register_at_fork(
    before=_REGISTRY.before_fork,
    after_in_parent=_REGISTRY.after_in_parent,
    after_in_child=_REGISTRY.after_in_child,
)


def _refuse_inherited(path: Path) -> None:
    if _file_id(path) in _INHERITED:
        rule = "was in use in the parent when this process was forked, and could not be closed in time: use spawn"
        raise ConfigError("path", path, rule)
