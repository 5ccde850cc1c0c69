"""PostgreSQL by psycopg 3: a driver for ``ThreadSink``, and one for ``LoopSink``."""

import re
import time
from typing import Any, Final

import psycopg
from psycopg.abc import RV, PQGen
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from tenure.errors import ConfigError
from tenure.sinks.postgresql.sqlstate import by_server
from tenure.sinks.sql.address import UNREADABLE, address_of
from tenure.sinks.sql.flow import NO_ANSWER
from tenure.sinks.sql.lending import end, lend, used_late
from tenure.sinks.sql.talk import Ask, Rows, Trouble, Unfinished

_OPEN_S: Final = 10
_UNREAD: Final = re.compile(
    r"invalid (integer value|port number|percent-encoded)|missing \"=\"|unexpected (character|spaces)"
)
_PID: Final = b"SELECT pg_backend_pid()"
_PLACE: Final = re.compile(r"\$\d+")
_RULE: Final = "must not be used inside: what came before would not be fenced"


class FencedConnection(psycopg.Connection[Any]):
    """The connection that a sink gives out. ``transaction()`` inside nests; ``commit`` and ``rollback`` are refused."""

    is_pooled = False
    is_unfinished = False  # what its block has begun
    until_s: float | None = None

    def wait(self, gen: PQGen[RV], *args: Any, **settings: Any) -> RV:
        """Wait for the server, but not for longer than the sink does."""
        return super().wait(gen if self.until_s is None else _until(self.until_s, gen), *args, **settings)

    def commit(self) -> None:
        """Refuse: a sink commits, together with the check."""
        raise ConfigError("transaction", "commit", _RULE)

    def rollback(self) -> None:
        """Refuse: an error rolls back."""
        raise ConfigError("transaction", "rollback", _RULE)


class _Over(FencedConnection):
    """See ``lending``. All that psycopg says goes through ``wait``, but for what cancels and what closes."""

    def wait(self, *_: Any, **__: Any) -> Any:
        raise used_late()

    cancel = cancel_safe = wait

    def close(self) -> None:
        pass  # It is not its own any more.

    def __del__(self, *_: Any) -> None:
        pass  # Nor is it left open by it.


class AsyncFencedConnection(psycopg.AsyncConnection[Any]):
    """The connection that a sink gives out. ``transaction()`` inside nests; ``commit`` and ``rollback`` are refused."""

    is_pooled = False
    is_unfinished = False  # what its block has begun

    async def commit(self) -> None:
        """Refuse: a sink commits, together with the check."""
        raise ConfigError("transaction", "commit", _RULE)

    async def rollback(self) -> None:
        """Refuse: an error rolls back."""
        raise ConfigError("transaction", "rollback", _RULE)


class _AsyncOver(AsyncFencedConnection):
    """See ``lending``, and ``_Over``."""

    async def wait(self, *_: Any, **__: Any) -> Any:
        raise used_late()

    cancel_safe = wait

    def cancel(self) -> None:
        raise used_late()

    async def close(self) -> None:
        pass

    def __del__(self, *_: Any) -> None:
        pass


class _Psycopg:
    """What both have in common.

    psycopg prepares under a name what it is asked often. Behind a pooler in transaction mode the next transaction has another session,
    which does not know that name. So there, which is recognised by a process number that is not the server's, it prepares nothing.
    """

    def __init__(self, dsn: str, settings: dict[str, Any]) -> None:
        self.address = address_of("postgresql", dsn)
        self._may_prepare_nothing = "prepare_threshold" not in settings
        # The encoding: what is said without parameters is sent as it is, and that in UTF-8.
        own = {"autocommit": True, "client_encoding": "utf8"}
        self._dsn, self._settings = dsn, {"connect_timeout": _OPEN_S, **settings, **own}

    def _tell_apart(self, raw: "FencedConnection | AsyncFencedConnection", server_pid: tuple[int, ...] | None) -> None:
        raw.is_pooled = server_pid != (raw.info.backend_pid,)
        if self._may_prepare_nothing and raw.is_pooled:
            raw.prepare_threshold = None

    def is_own(self, raw: "FencedConnection | AsyncFencedConnection") -> bool:
        return not raw.is_pooled

    def is_inside(self, raw: psycopg.BaseConnection[Any]) -> bool:
        # Whether it is still there is for the server to say.
        return raw.pgconn.transaction_status != TransactionStatus.IDLE

    def is_usable(self, raw: psycopg.BaseConnection[Any]) -> bool:
        return not raw.closed and raw.pgconn.transaction_status == TransactionStatus.IDLE

    def trouble(self, error: BaseException) -> Trouble | None:
        return trouble_of(error)

    def drop(self, raw: psycopg.BaseConnection[Any]) -> None:
        raw.pgconn.finish()


class PsycopgDriver(_Psycopg):
    """See ``ThreadDriver``."""

    def open(self) -> FencedConnection:
        raw: FencedConnection | None = None
        known = False
        try:
            raw = FencedConnection.connect(self._dsn, **self._settings)
            raw.until_s = time.monotonic() + _OPEN_S
            self._tell_apart(raw, psycopg.Cursor(raw, row_factory=tuple_row).execute(_PID).fetchone())
            known = True
        except psycopg.Error as error:
            trouble = _not_opened(error)
            raise trouble from (None if trouble.text is UNREADABLE else error)
        finally:
            if raw is not None and not known:
                self.drop(raw)
        return raw

    def ask(self, raw: FencedConnection, ask: Ask) -> Rows:
        _check_there(raw)
        try:
            cursor = psycopg.Cursor(raw, row_factory=tuple_row).execute(*_worded(ask))
            return cursor.fetchall() if ask.parameters and cursor.description else []
        except psycopg.Error as error:
            raise _told(error) from error

    def lend(self, raw: FencedConnection) -> FencedConnection:
        return lend(raw)

    def end(self, raw: FencedConnection, lent: FencedConnection) -> bool:
        end(raw, lent, _Over)
        _look_for_unfinished(raw)
        return self.is_inside(raw)

    def limit(self, raw: FencedConnection, until_s: float | None) -> None:
        raw.until_s = until_s

    def close(self, raw: FencedConnection) -> None:
        raw.close()


class AsyncPsycopgDriver(_Psycopg):
    """See ``LoopDriver``."""

    async def open(self) -> AsyncFencedConnection:
        raw: AsyncFencedConnection | None = None
        known = False
        try:
            raw = await AsyncFencedConnection.connect(self._dsn, **self._settings)
            asked = await psycopg.AsyncCursor(raw, row_factory=tuple_row).execute(_PID)
            self._tell_apart(raw, await asked.fetchone())
            known = True
        except psycopg.Error as error:
            trouble = _not_opened(error)
            raise trouble from (None if trouble.text is UNREADABLE else error)
        except RuntimeError as error:  # No thread was left to look up the name.
            raise Trouble("", str(error), was_sent=False) from error
        finally:
            if raw is not None and not known:
                self.drop(raw)
        return raw

    async def ask(self, raw: AsyncFencedConnection, ask: Ask) -> Rows:
        _check_there(raw)
        try:
            cursor = await psycopg.AsyncCursor(raw, row_factory=tuple_row).execute(*_worded(ask))
            return await cursor.fetchall() if ask.parameters and cursor.description else []
        except psycopg.Error as error:
            raise _told(error) from error

    def lend(self, raw: AsyncFencedConnection) -> AsyncFencedConnection:
        return lend(raw)

    def end(self, raw: AsyncFencedConnection, lent: AsyncFencedConnection) -> bool:
        end(raw, lent, _AsyncOver)
        _look_for_unfinished(raw)
        return self.is_inside(raw)

    def postpone(self, raw: AsyncFencedConnection, asks: list[Ask], idle_s: float) -> None:  # noqa: ARG002
        return None

    async def close(self, raw: AsyncFencedConnection) -> None:
        await raw.close()

    async def settle(self) -> None:
        pass  # Nothing is left to be done.


def _until(until_s: float, gen: PQGen[RV]) -> PQGen[RV]:
    """Return a generator that waits as ``gen`` does, and not for longer. psycopg goes on with it every 0.1 s, ready or not."""
    try:
        due = next(gen)
        while True:
            ready = yield due
            if time.monotonic() >= until_s and not ready:
                raise psycopg.OperationalError(NO_ANSWER)
            due = gen.send(ready)
    except StopIteration as done:
        answer: RV = done.value
        return answer


def trouble_of(error: BaseException) -> Trouble | None:
    """Return what an error of psycopg says; None: it is not of psycopg."""
    if not isinstance(error, psycopg.Error):
        return None
    text = error.diag.message_primary or str(error)
    return Trouble(by_server(error.sqlstate), text)


def _look_for_unfinished(raw: FencedConnection | AsyncFencedConnection) -> None:
    # A statement, a stream or a copy has the lock for as long as it lasts. In a pipeline what is asked is put into a queue, and answered
    # when the pipeline ends, which is the block's.
    is_asking = raw.lock.locked() or raw.pgconn.transaction_status == TransactionStatus.ACTIVE
    raw.is_unfinished = is_asking or raw._pipeline is not None  # noqa: SLF001


def _check_there(raw: FencedConnection | AsyncFencedConnection) -> None:
    # psycopg would say so, but as it does if the server goes after it was asked.
    if raw.closed:
        raise Trouble("", "the connection is closed", was_sent=False)
    if raw.is_unfinished:
        raise Unfinished


def _worded(ask: Ask) -> tuple[bytes, tuple[Any, ...] | None]:
    # Bytes: psycopg wants texts to be written where it can read them, and ours are put together.
    if not ask.parameters:
        return ask.sql.encode(), None
    return _PLACE.sub("%s", ask.sql.replace("%", "%%")).encode(), ask.parameters


def _told(error: psycopg.Error) -> Trouble:
    return trouble_of(error) or Trouble("", str(error))


def _not_opened(error: psycopg.Error) -> Trouble:
    if isinstance(error, psycopg.ProgrammingError) or _UNREAD.search(str(error)):
        return Trouble("", UNREADABLE, was_sent=False)  # What it says may be a part of the password.
    # What the server says when it lets nobody in comes without its SQLSTATE.
    code = "28000" if re.search(r"authentication failed|no pg_hba|does not exist|denied", str(error)) else ""
    return Trouble(code, str(error), was_sent=False)
