"""The connection that a sink over asyncpg gives out, and what asyncpg is told of the transaction on it.

Rules of this file
1. Nothing reaches the server before the BEGIN of its transaction, or it would be committed by itself.
2. Nothing that a block has made, or was given, reaches the server when the block has ended (see ``lending``).
"""

import inspect
import select
import time
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Final

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from tenure.sinks.sql.lending import used_late
from tenure.sinks.sql.talk import Ask

_AT_ONCE_S: Final = 0.0001  # Nobody is told anything in less, so it is not worth the question.
# Those whose protocol was read and tested. With any other each BEGIN is sent by itself.
_IS_KNOWN: Final = asyncpg.__version__.rpartition(".")[0] in {"0.30", "0.31", "0.32"}
# What asyncpg asks of its protocol without anything being said to the server in this session, but for a good-bye.
_SAY_NOTHING: Final = {
    *("get_server_pid", "get_settings", "get_record_class", "_get_timeout", "backend_pid", "backend_secret"),
    *("is_closed", "abort", "close"),
}
# Where in what it is asked there stands how long it may take.
_LIMIT_AT: Final = {
    "prepare": 2,
    "bind_execute": 5,
    "bind_execute_many": 3,
    "bind": 3,
    "execute": 4,
    "close_portal": 1,
    "copy_out": 2,
    "copy_in": 5,
}
# As the server would say it; but that would know whether the message which failed has committed what came before.
_FAILED: Final = (
    "current transaction is aborted, commands ignored until end of transaction block"
    " (if the statement that failed had a COMMIT in it, what came before that is committed, and was not fenced)"
)


class _Outermost:
    """A transaction that asyncpg did not begin, as far as asyncpg asks about one. It knows no connection, so it keeps none alive."""

    _isolation = None  # not known: asyncpg asks the server, if something nested names a level
    _managed = False


_OUTERMOST: Final = _Outermost()


class _Unbegun:
    """Stands in the place of asyncpg's protocol until BEGIN has been answered: whatever is asked of it has BEGIN sent before.

    Everything that asyncpg says to a server goes through its protocol, which it looks up when it speaks. So it is decided then, and not
    when a coroutine, a cursor, a statement or a transaction was made, which may have been in an earlier block.

    If BEGIN fails, or what came in one message with it, the transaction has failed; but the server may not have begun one, for
    instance if it could not read the statement. Then it is refused here what the server would have refused.
    """

    __slots__ = ("_begin", "_connection", "is_asked", "protocol", "was_sent")

    def __init__(self, connection: "FencedConnection", protocol: Any, begin: str) -> None:
        self._connection, self.protocol, self._begin = connection, protocol, begin
        self.was_sent = self.is_asked = False

    def is_in_transaction(self) -> bool:
        return True

    def is_connected(self) -> bool:
        return bool(self.protocol.is_connected())

    async def query(self, query: str, limit_s: float | None) -> Any:
        if self.is_asked:  # As asyncpg says it.
            raise asyncpg.InterfaceError("cannot perform operation: another operation is in progress")
        if self.was_sent:
            raise asyncpg.InFailedSQLTransactionError(_FAILED)
        if not self.protocol.is_connected():  # Nothing is sent, so nothing has failed.
            raise asyncpg.InterfaceError("connection is closed")
        self.was_sent = self.is_asked = True
        is_begun = False
        try:
            status = await self.protocol.query(f"{self._begin}; {query}", limit_s)
            is_begun = True
        except asyncpg.PostgresError as error:
            is_begun = self.protocol.is_in_transaction()
            # What it points at is to be found in the caller's own words.
            place, before = getattr(error, "position", None) or "", len(f"{self._begin}; ")
            if place.isdigit() and int(place) > before:
                error.position = str(int(place) - before)
            raise
        finally:
            self.is_asked = False
            if is_begun and self._connection._protocol is self:  # noqa: SLF001  (Or it was closed in the meantime.)
                self._connection._protocol = self.protocol  # noqa: SLF001
        return status

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self.protocol, name)
        if name in _SAY_NOTHING:
            return asked

        async def begun_before(*args: Any, **kwargs: Any) -> Any:
            place = _LIMIT_AT.get(name, len(args))
            limit_s = kwargs.get("timeout", args[place] if place < len(args) else None)
            if not isinstance(limit_s, float | int):  # None, or what asyncpg has for none at all.
                await self.query("", None)
                return await asked(*args, **kwargs)
            # However long the caller wants to wait for its statement, BEGIN has to be answered within that.
            until_s = time.monotonic() + limit_s
            await self.query("", limit_s)
            left_s = until_s - time.monotonic()
            if "timeout" in kwargs:
                return await asked(*args, **{**kwargs, "timeout": left_s})
            return await asked(*args[:place], left_s, *args[place + 1 :], **kwargs)

        return begun_before


class _NoPool:
    """What asyncpg up to 0.31 tells, by way of what a pool gave out, that a connection has ended."""

    def _release_on_close(self) -> None:
        pass


class _Lent(PoolConnectionProxy):  # type: ignore[misc]
    """The connection as one block has it (see ``lending``), in the way in which asyncpg's own pool gives out connections.

    Statements, cursors and transactions that were made through it know by a number that it is over. What it is asked itself is
    judged when it is carried out, and not when it was called: a task may start when the block has ended.
    """

    __slots__ = ()
    _holder = _NoPool()

    def __init__(self, raw: "FencedConnection") -> None:
        self._con = raw  # type: ignore[misc]
        # Not taken away again: what listens is given it, also if news comes when the block has ended.
        raw._proxy = self  # noqa: SLF001


def _judged(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @wraps(method)
    async def carried_out(self: _Lent, *args: Any, **kwargs: Any) -> Any:
        if self._con is None:
            raise used_late()
        return await method(self._con, *args, **kwargs)

    return carried_out


async def _execute(self: _Lent, query: str, *args: Any, timeout: float | None = None) -> Any:  # noqa: ASYNC109
    raw = self._con
    if raw is None:
        raise used_late()
    if _IS_KNOWN and not args and not raw._query_loggers and not raw._aborted:  # noqa: SLF001
        return await raw._protocol.query(query, timeout)  # noqa: SLF001  (As asyncpg's would, by way of three others.)
    return await asyncpg.Connection.execute(raw, query, *args, timeout=timeout)


for _name, _method in inspect.getmembers(asyncpg.Connection, inspect.iscoroutinefunction):
    if not _name.startswith("_"):
        setattr(_Lent, _name, _judged(_method))
_Lent.execute = wraps(asyncpg.Connection.execute)(_execute)


class FencedConnection(asyncpg.Connection):  # type: ignore[misc]
    """The connection that a sink gives out. asyncpg knows of the transaction on it, so ``transaction()`` inside nests.

    BEGIN may go in one message with the first statement, which saves a third of what a small transaction says to the server and
    hears from it. Nothing may reach the server before it, or it would be committed by itself.
    """

    is_pooled = False
    _protocol: Any
    # If a schema has changed, asyncpg has its own pool forget it on every connection.
    _drop_global_statement_cache = asyncpg.Connection._drop_local_statement_cache  # noqa: SLF001
    _drop_global_type_cache = asyncpg.Connection._drop_local_type_cache  # noqa: SLF001

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._ear: select.poll | None = None

    def lend(self) -> Any:
        """Return what a block is given of it."""
        return _Lent(self)

    def end(self, lent: Any) -> bool:
        """Have that say nothing any more, nor what was made through it. Returns whether a transaction is open (``is_inside``)."""
        lent._con = None  # noqa: SLF001
        self._pool_release_ctr += 1
        return bool(self._aborted or self._protocol.is_in_transaction() or not self._protocol.is_connected())

    def enter(self) -> None:
        """Have asyncpg know of a transaction that it did not begin."""
        # All that asyncpg does with this attribute: what is started now is a savepoint, whenever it was made, and of the same level.
        self._top_xact = _OUTERMOST if _IS_KNOWN else self.transaction()

    def postpone(self, asks: list[Ask], idle_s: float) -> Any:
        """Lend it, and have that sent with the first statement which is asked of it. None: it cannot be, and nothing was changed."""
        if not _IS_KNOWN or self.is_pooled or self._aborted or self._top_xact is not None:
            return None
        protocol = self._protocol  # There is none any more, once it is aborted.
        if protocol.is_in_transaction() or not protocol.is_connected() or (idle_s > _AT_ONCE_S and self.has_unread()):
            return None
        self._top_xact, self._protocol = _OUTERMOST, _Unbegun(self, protocol, asks[0].sql)
        return _Lent(self)

    def committing(self, sql: str) -> Awaitable[Any]:
        """Return what commits by ``sql``. asyncpg knows of no transaction from here on: whatever comes of it, nothing more is nested in it."""
        self._top_xact = None
        if _IS_KNOWN and not self._query_loggers and not self._aborted and self._protocol.is_connected():
            answer: Awaitable[Any] = self._protocol.query(sql, None)  # As execute() would, by way of four others.
            return answer
        return self.execute(sql)  # type: ignore[no-any-return]

    def leave(self) -> bool:
        """Have asyncpg know of no transaction. Returns whether the server may have begun one."""
        self._top_xact, unbegun = None, self._protocol
        if not isinstance(unbegun, _Unbegun):
            return self.is_inside()
        self._protocol = unbegun.protocol
        return unbegun.was_sent

    def has_unread(self) -> bool:
        """Say whether the server has said something that nobody has asked for. Of a session that is idle it is mostly the end.

        The event loop may not have come to read it yet, or only the first half of it, and asyncpg knows of the end by the second.
        """
        connection = self._transport.get_extra_info("socket")
        # Over TLS there is none as soon as it is lost, which asyncpg is told in the next turn of the loop.
        if connection is None or connection.fileno() < 0:
            return True
        if self._ear is None:
            self._ear = select.poll()
            self._ear.register(connection, select.POLLIN)
        return bool(self._ear.poll(0))

    # Asked with every transaction, so both ask the protocol and not by way of asyncpg's own methods, which is twice as many calls.

    def is_left(self) -> bool:
        """Say whether no transaction is open here, nor one of asyncpg's about to be."""
        if self._aborted or self._top_xact is not None:  # There is no protocol any more, once it is aborted.
            return False
        return bool(self._protocol.is_connected() and not self._protocol.is_in_transaction())

    def is_inside(self) -> bool:
        """Say whether a transaction is open here, or may be: of a session that is gone nobody knows."""
        return bool(self._aborted or self._protocol.is_in_transaction() or not self._protocol.is_connected())
