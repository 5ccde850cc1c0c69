"""The connection that a sink over asyncmy gives out.

Rules of this file
1. Nobody asks while another waits for an answer: asyncmy has no order among those who ask at the same time, and each takes whichever
   answer comes first.
2. Nobody asks after an answer that was left half read: the rest could be taken for the next one. So that ends the connection.
3. Nothing that a block has made, or was given, reaches the server when the block has ended (see ``lending``).
"""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Final

from asyncmy.connection import Connection, PreparedStatement
from asyncmy.errors import InterfaceError, MySQLError

from tenure.errors import ConfigError
from tenure.sinks.mysql.trouble import BUSY, was_said
from tenure.sinks.sql.lending import used_late

_RULE: Final = "must not be used inside: what came before would not be fenced"
# What asks; and what reads on, as cursors do that have results left to read.
_ASK: Final = ("query", "prepare", "ping", "kill", "select_db", "set_charset", "show_warnings")
_READ: Final = ("next_result",)
_ASK_PREPARED: Final = ("execute", "execute_bulk")


class FencedConnection(Connection):
    """The connection that a sink gives out. ``commit``, ``rollback``, ``begin`` and ``autocommit`` are refused; savepoints are not.

    asyncmy has no order among those who ask at the same time: each takes whichever answer comes first. So nobody asks while another
    waits: a task that outlives its block would have the commit succeed by what its own statement was answered.
    """

    is_given_out = False
    is_waited_on = False
    has_said = False  # since it was last asked to ask
    _result: Any
    _stmt_cache: dict[str, Any]
    _connected: bool

    async def commit(self) -> None:
        """Refuse, once it is given out: a sink commits, together with the check. Before, ``init_command`` is committed."""
        if self.is_given_out:
            raise ConfigError("transaction", "commit", _RULE)
        await super().commit()

    async def rollback(self) -> None:
        """Refuse: an error rolls back."""
        raise ConfigError("transaction", "rollback", _RULE)

    async def begin(self) -> None:
        """Refuse: it would commit what came before."""
        raise ConfigError("transaction", "begin", _RULE)

    async def autocommit(self, value: bool) -> None:
        """Refuse, once it is given out."""
        if self.is_given_out:
            raise ConfigError("transaction", "autocommit", _RULE)
        await super().autocommit(value)  # type: ignore[no-untyped-call]

    async def _execute_command(self, *asked: Any) -> None:
        if self.is_waited_on:
            raise InterfaceError(0, BUSY)
        self.has_said = True
        await super()._execute_command(*asked)  # type: ignore[misc]

    async def prepare(self, query: str) -> Any:
        """Return a prepared statement, of which the same holds."""
        statement = await super().prepare(query)  # type: ignore[no-untyped-call]
        statement.__class__ = FencedStatement
        return statement

    async def _fill_buffer(self, count: int) -> None:
        """Wait for an answer, or for the rest of it: it is by this that asyncmy does so."""
        if self.is_waited_on:
            raise InterfaceError(0, BUSY)
        self.is_waited_on = True
        try:
            await super()._fill_buffer(count)  # type: ignore[misc]
        finally:
            self.is_waited_on = False

    def hang_up(self) -> None:
        """Close, and know of it: some versions leave that to the next who asks."""
        self.close()
        self._connected = False

    def has_statements(self) -> None:
        """Have the statements that asyncmy keeps speak through this very object: they were prepared through another."""
        for statement in getattr(self, "_stmt_cache", {}).values():  # Later versions have it.
            statement._connection = self  # noqa: SLF001


class FencedStatement(PreparedStatement):
    """A prepared statement of such a connection."""

    _connection: Any


def _whole(method: Callable[..., Awaitable[Any]], *, reads: bool = False) -> Callable[..., Awaitable[Any]]:
    """Return it so that an answer which it has left half read ends the connection: whose would the rest be?"""

    @wraps(method)
    async def asked_whole(self: Any, *args: Any, **settings: Any) -> Any:
        connection = self._connection if isinstance(self, FencedStatement) else self
        if connection is None:  # It says so.
            return await method(self, *args, **settings)
        if connection.is_waited_on:
            raise InterfaceError(0, BUSY)
        connection.has_said = reads
        is_whole = False
        try:
            answer = await method(self, *args, **settings)
            is_whole = True
        except MySQLError as error:
            is_whole = was_said(error)
            raise
        finally:
            if not is_whole and connection.has_said:
                connection.hang_up()
        return answer

    return asked_whole


for _kind, _names in ((FencedConnection, (*_ASK, *_READ)), (FencedStatement, _ASK_PREPARED)):
    for _name in _names:
        setattr(_kind, _name, _whole(getattr(_kind, _name), reads=_name in _READ))


class Over(FencedConnection):
    """See ``lending``. All that asyncmy says and hears goes through these, but for what closes."""

    def _write_bytes(self, *_: Any) -> None:
        raise used_late()

    async def _fill_buffer(self, *_: Any) -> Any:
        raise used_late()

    _read_bytes = read_packet = connect = _fill_buffer

    def close(self) -> None:
        pass  # It is not its own any more.

    async def ensure_closed(self) -> None:
        pass

    hang_up = close
