"""High-water marks: fences that stand for themselves, for whoever has to judge what comes to it from elsewhere.

A worker that takes orders and a service that takes requests cannot put the comparison into the same step as whatever they do
next. They compare with a mark, which is as durable as they choose: ``MemoryMark``, ``SQLiteMark`` or ``FileMark``.
"""

import os
import sqlite3
from collections.abc import Awaitable
from functools import partial
from inspect import isawaitable
from threading import Lock
from typing import Protocol

import anyio
from anyio import to_thread

from tenure.errors import UnverifiedToken
from tenure.model import Token
from tenure.model import token as checked
from tenure.sinks.base import Verify
from tenure.sinks.fence import Fence
from tenure.sinks.verifying import confirmed


class Mark(Protocol):
    """The highest token seen, for every fence, kept where it outlives what it must outlive."""

    @property
    def blocks(self) -> bool:
        """Whether ``admit`` may wait for a disk or a lock, and must not be called on an event loop."""
        ...

    def admit(self, fence: str, token: Token, *, known_only: bool = False) -> None:
        """Raise the mark to ``token``, durably, before this returns; return at once if it stands there.

        Raises StaleToken if it stands higher, and with ``known_only`` UnverifiedToken in place of raising it. Raises
        StoreError if the mark could not be read or kept; then nothing was admitted.
        """
        ...


class AsyncMark(Protocol):
    """A mark that is asked with ``await``: the same promises, for a database with a client of that kind."""

    def admit(self, fence: str, token: Token, *, known_only: bool = False) -> Awaitable[None]:
        """See ``Mark.admit``."""
        ...


class MemoryMark:
    """Marks that end with the process: a restart lets everybody in again, until the next leader writes or seals."""

    blocks = False

    def __init__(self) -> None:
        self._fences: dict[str, Fence] = {}
        self._lock = Lock()

    def admit(self, fence: str, token: Token, *, known_only: bool = False) -> None:
        """Raise the mark to ``token`` (see ``Mark.admit``)."""
        number, known = checked(token), self._fences.get(fence)
        if known is not None and known.highest == number:  # Nearly always, and needs no lock: it is one comparison.
            return
        with self._lock:
            known = self._fences.setdefault(fence, Fence())
            if known_only and number > known.highest:
                raise UnverifiedToken(number, known.highest)
            known.admit(number)


class SQLiteMark:
    """Marks in a SQLite database, in the table that ``SQLiteSink`` keeps its fences in. Survives a restart and kill -9.

    Several processes of one machine may share the file. A known token costs a read; only a new one is written.
    """

    blocks = True

    def __init__(self, database: str | os.PathLike[str]) -> None:
        from tenure.sinks.sqlite.line import Line  # noqa: PLC0415  (only who uses it pays for it)

        self._path = os.fspath(database)
        self.name = f"sqlite mark {self._path}"
        self._line = Line(partial(connect_durably, self._path), self.name)

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def admit(self, fence: str, token: Token, *, known_only: bool = False) -> None:
        """Raise the mark to ``token`` (see ``Mark.admit``)."""
        from tenure.sinks.sqlite.row import HOLD, RAISE  # noqa: PLC0415
        from tenure.sinks.sqlite.sink import store_error  # noqa: PLC0415

        try:
            if self._line.stands_at(fence, checked(token)):
                return
            self._line.begin(fence, token, HOLD if known_only else RAISE)
            self._line.commit()
        except sqlite3.Error as error:
            raise store_error(self.name, error) from error

    def close(self) -> None:
        """Close the connection. The mark cannot be used again."""
        self._line.close()


def connect_durably(path: str) -> sqlite3.Connection:
    """Open a file for what must be on disk when it was acknowledged, and be read without waiting."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    # Readers then wait for nobody, and every request reads.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


async def admit(mark: "Mark | AsyncMark", fence: str, token: Token, verify: Verify | None) -> None:
    """Ask a mark of either kind, and ``verify`` where the token is higher than any seen."""
    try:
        await _ask(mark, fence, token, known_only=verify is not None)
    except UnverifiedToken:
        if verify is None or not await confirmed(verify, fence, token):
            raise
        await _ask(mark, fence, token, known_only=False)


def admit_now(mark: Mark, fence: str, token: Token, verify: Verify | None) -> None:
    """Ask a mark from a thread that may block. An ``async`` verify gets an event loop of its own there."""
    try:
        mark.admit(fence, token, known_only=verify is not None)
    except UnverifiedToken:
        if verify is None or not anyio.run(confirmed, verify, fence, token):
            raise
        mark.admit(fence, token)


async def _ask(mark: "Mark | AsyncMark", fence: str, token: Token, *, known_only: bool) -> None:
    if getattr(mark, "blocks", False):
        await to_thread.run_sync(partial(mark.admit, fence, token, known_only=known_only))
        return
    answer = mark.admit(fence, token, known_only=known_only)
    if isawaitable(answer):
        await answer
