"""MySQL and MariaDB by asyncmy: a driver for ``LoopSink``."""

from typing import Any, Final

from asyncmy.connection import Connection
from asyncmy.cursors import Cursor
from asyncmy.errors import MySQLError

from tenure.sinks.mysql.fenced_asyncmy import FencedConnection, Over
from tenure.sinks.mysql.settings import arguments_of
from tenure.sinks.mysql.trouble import CLOSED, ODD, left_over, odd_answer, trouble_from
from tenure.sinks.sql.address import address_of
from tenure.sinks.sql.lending import end, lend
from tenure.sinks.sql.talk import Ask, Rows, Trouble, Unfinished

_OPEN_S: Final = 10


class AsyncmyDriver:
    """See ``LoopDriver``."""

    def __init__(self, url: str, settings: dict[str, Any]) -> None:
        self.address = address_of("mysql", url)
        self._arguments = {"connect_timeout": _OPEN_S, "charset": "utf8mb4", **arguments_of(url), **settings}
        self.database = str(self._arguments.get("db") or self._arguments["database"])

    async def open(self) -> FencedConnection:
        raw = FencedConnection(**self._arguments, autocommit=False)  # type: ignore[no-untyped-call]
        try:
            await raw.connect()
        except (MySQLError, OSError, RuntimeError) as error:  # The last one: no thread was left to look up the name.
            raise trouble_from(error, was_sent=False) from error
        except ODD as error:
            raise odd_answer(error) from error
        raw.is_given_out = True
        return raw

    async def ask(self, raw: FencedConnection, ask: Ask) -> Rows:
        if not raw.connected:
            raise Trouble("", CLOSED, was_sent=False)
        if raw.is_waited_on:
            raise Unfinished
        try:
            while raw._result is not None and raw._result.has_next:  # noqa: SLF001
                await raw.next_result()  # type: ignore[no-untyped-call]
        except (MySQLError, OSError) as error:
            raise left_over(error) from error
        return await said(raw, ask)

    def lend(self, raw: FencedConnection) -> FencedConnection:
        lent = lend(raw)
        lent.has_statements()
        return lent

    def end(self, raw: FencedConnection, lent: FencedConnection) -> bool:
        end(raw, lent, Over)
        raw.has_statements()
        # Or a cursor of that block would find those that speak through another.
        lent._stmt_cache = {}  # noqa: SLF001
        result = raw._result  # noqa: SLF001
        raw.is_waited_on |= result is not None and bool(result.unbuffered_active)
        return self.is_inside(raw)

    def postpone(self, raw: FencedConnection, asks: list[Ask], idle_s: float) -> FencedConnection | None:  # noqa: ARG002
        # What there is to say is no BEGIN: that comes with the first statement by itself.
        return self.lend(raw) if not asks and self.is_usable(raw) else None

    def is_own(self, raw: FencedConnection) -> bool:  # noqa: ARG002
        return True  # Poolers of this protocol give a session away only with what was set in it.

    def is_inside(self, raw: FencedConnection) -> bool:  # noqa: ARG002
        return True  # Every statement begins a transaction, if there is none.

    def is_usable(self, raw: FencedConnection) -> bool:
        # What it says of transactions is not to be relied on: see ``Kept``. Autocommit may have been set by text.
        return bool(raw.connected and not raw.get_autocommit())

    def trouble(self, error: BaseException) -> Trouble | None:
        return trouble_from(error) if isinstance(error, MySQLError) else None

    async def close(self, raw: FencedConnection) -> None:
        await raw.ensure_closed()

    def drop(self, raw: FencedConnection) -> None:
        raw.close()

    async def settle(self) -> None:
        pass  # Nothing is left to be done.


async def said(raw: Connection, ask: Ask) -> Rows:
    """Ask the server, on any connection of asyncmy."""
    try:
        if ask.turn == "end":  # which returns nothing: a cursor would cost as much as the question
            await raw.query(ask.sql)  # type: ignore[no-untyped-call]
            return []
        async with Cursor(raw) as cursor:
            await cursor.execute(ask.sql, ask.parameters or None)
            return [tuple(row) for row in await cursor.fetchall()] if cursor.description else []
    except (MySQLError, OSError) as error:
        raise trouble_from(error) from error
