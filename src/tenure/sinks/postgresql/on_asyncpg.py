"""PostgreSQL by asyncpg: a driver for ``LoopSink``."""

import asyncio
from typing import Any, Final

import asyncpg

from tenure.sinks.postgresql.fenced_asyncpg import FencedConnection
from tenure.sinks.postgresql.sqlstate import by_server
from tenure.sinks.sql.address import UNREADABLE, address_of
from tenure.sinks.sql.talk import Ask, Rows, Trouble, Unfinished

_OPEN_S: Final = 10
_CLOSE_S: Final = 2
# Asked without a parameter, so that nothing is prepared for it. What it did says what it found: "SELECT 1" or "SELECT 0".
_IS_DIRECT: Final = "SELECT 1 WHERE pg_backend_pid() = {}"
# The third is what asyncpg says if the server ends the session at the very moment at which it is asked something.
_ERRORS: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
_IN_PROGRESS: Final = "another operation is in progress"
# RuntimeError: no thread was left to look up the name. The last two: a server that is not quite one, without a version, say.
_ON_OPENING: Final = (TimeoutError, RuntimeError, AttributeError, LookupError)


class AsyncpgDriver:
    """See ``LoopDriver``.

    A pooler in transaction mode gives every transaction another session, and a session knows what was prepared under a name in it,
    and no other. asyncpg prepares whatever has parameters. So behind a pooler, which is recognised by a process number that is not
    the server's, it is told to give no names, and what it prepares and executes is made one transaction.
    """

    def __init__(self, dsn: str, settings: dict[str, Any]) -> None:
        self.address = address_of("postgresql", dsn)
        self._dsn, self._settings = dsn, {"timeout": _OPEN_S, **settings}
        self._closing: set[asyncio.Future[None]] = set()
        self._is_pooled = False

    async def open(self) -> FencedConnection:
        # Before it connects: another one that does so at the same time may find it out first.
        nameless = self._is_pooled
        raw = await self._connected(nameless=nameless)
        if raw.is_pooled and not nameless:
            self._is_pooled = True
            self.drop(raw)
            raw = await self._connected(nameless=True)
        return raw

    async def _connected(self, *, nameless: bool) -> FencedConnection:
        settings = {"statement_cache_size": 0, **self._settings} if nameless else self._settings
        raw: FencedConnection | None = None
        known = False
        try:
            raw = await asyncpg.connect(self._dsn, connection_class=FencedConnection, **settings)
            raw.is_pooled = await raw.execute(_IS_DIRECT.format(raw.get_server_pid())) != "SELECT 1"
            known = True
        except ValueError:  # What it says may be a part of the password.
            raise Trouble("", UNREADABLE, was_sent=False) from None
        except (*_ERRORS, *_ON_OPENING) as error:
            code = getattr(error, "sqlstate", None) or ""
            raise Trouble(code, str(error) or "no answer in time", was_sent=False) from error
        finally:
            if raw is not None and not known:
                self.drop(raw)
        return raw

    async def ask(self, raw: FencedConnection, ask: Ask) -> Rows:
        try:
            if ask.turn == "begin":
                if not raw.is_left():
                    raise Trouble(
                        "", "the connection is closed, or something was begun on it from outside", was_sent=False
                    )
                raw.enter()
                await raw.execute(ask.sql)
            elif ask.turn == "end":
                if ask.sql != "ROLLBACK":
                    await raw.committing(ask.sql)
                elif raw.leave():
                    await raw.execute(ask.sql)
            elif ask.parameters:
                return await self._rows(raw, ask)
            else:
                await raw.execute(ask.sql)
        except _ERRORS as error:
            raise _trouble(error) from error
        return []

    # As they are: each function more that is called with every transaction is paid for, above all by a single writer.
    lend, end = staticmethod(FencedConnection.lend), staticmethod(FencedConnection.end)
    postpone, is_inside = staticmethod(FencedConnection.postpone), staticmethod(FencedConnection.is_inside)
    is_usable = staticmethod(FencedConnection.is_left)

    async def _rows(self, raw: FencedConnection, ask: Ask) -> Rows:
        if not raw.is_pooled or raw.is_in_transaction():
            return [tuple(row.values()) for row in await raw.fetch(ask.sql, *ask.parameters)]
        async with raw.transaction():
            return [tuple(row.values()) for row in await raw.fetch(ask.sql, *ask.parameters)]

    def is_own(self, raw: FencedConnection) -> bool:
        return not raw.is_pooled

    def trouble(self, error: BaseException) -> Trouble | None:
        return _trouble(error) if isinstance(error, _ERRORS) else None

    async def close(self, raw: FencedConnection) -> None:
        try:
            await raw.close(timeout=_CLOSE_S)
        except (*_ERRORS, TimeoutError):
            raw.terminate()

    def drop(self, raw: FencedConnection) -> None:
        # Not terminate(): a statement that was cancelled is still being cancelled by asyncpg, which complains if it cannot.
        closing = asyncio.ensure_future(self.close(raw))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def settle(self) -> None:
        await asyncio.gather(*self._closing)


def _trouble(error: BaseException) -> Trouble:
    if isinstance(error, asyncpg.InterfaceError):  # The driver itself says no, for instance of a closed connection.
        return Unfinished() if _IN_PROGRESS in str(error) else Trouble("", str(error), was_sent=False)
    return Trouble(by_server(getattr(error, "sqlstate", None)), getattr(error, "message", None) or str(error))
