"""MySQL and MariaDB by PyMySQL: a driver for ``ThreadSink``."""

import time
from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Any, Final

import pymysql
from pymysql.connections import MySQLResult
from pymysql.constants import SERVER_STATUS
from pymysql.cursors import Cursor

from tenure.errors import ConfigError
from tenure.sinks.mysql.settings import arguments_of
from tenure.sinks.mysql.trouble import BUSY, CLOSED, ODD, left_over, odd_answer, trouble_from, was_said
from tenure.sinks.sql.address import address_of
from tenure.sinks.sql.lending import end, lend, used_late
from tenure.sinks.sql.talk import Ask, Rows, Trouble, Unfinished

_OPEN_S: Final = 10
_LEAST_S: Final = 0.001  # 0 would mean not to wait at all.
_RULE: Final = "must not be used inside: what came before would not be fenced"


# What asks; and what reads on, as cursors do that have results or rows left to read.
_ASK: Final = ("query", "ping", "kill", "select_db", "set_character_set", "show_warnings")
_READ: Final = ("next_result", "_read_packet")


class FencedConnection(pymysql.Connection):  # type: ignore[misc]
    """The connection that a sink gives out. ``commit``, ``rollback``, ``begin`` and ``autocommit`` are refused; savepoints are not.

    PyMySQL has no order among threads that ask at the same time: each takes whichever answer comes first. So nobody asks while another
    waits: a thread that outlives its block would have the commit succeed by what its own statement was answered.
    """

    is_given_out = False
    is_waited_on = False  # by a thread of a block that is over
    has_said = False  # since it was last asked to ask
    until_s: float | None = None

    def __init__(self, *args: Any, **settings: Any) -> None:
        self.asking = RLock()  # By one thread more than once: to ask is to say something and to read the answer.
        super().__init__(*args, **settings)

    def _write_bytes(self, data: bytes) -> None:
        self.has_said = True
        super()._write_bytes(data)

    def commit(self) -> None:
        """Refuse, once it is given out: a sink commits, together with the check. Before, ``init_command`` is committed."""
        if self.is_given_out:
            raise ConfigError("transaction", "commit", _RULE)
        super().commit()

    def rollback(self) -> None:
        """Refuse: an error rolls back."""
        raise ConfigError("transaction", "rollback", _RULE)

    def begin(self) -> None:
        """Refuse: it would commit what came before."""
        raise ConfigError("transaction", "begin", _RULE)

    def autocommit(self, value: bool) -> None:
        """Refuse, once it is given out."""
        if self.is_given_out:
            raise ConfigError("transaction", "autocommit", _RULE)
        super().autocommit(value)


def _alone(method: Callable[..., Any], *, reads: bool) -> Callable[..., Any]:
    """Return it as it asks while no other thread does. An answer that it has left half read ends the connection: whose would the rest be?"""

    @wraps(method)
    def asked_alone(self: FencedConnection, *args: Any, **settings: Any) -> Any:
        asking = self.asking  # That of a block is another as soon as it is over.
        if not asking.acquire(blocking=False):
            raise pymysql.InterfaceError(0, BUSY)
        self.has_said = reads
        is_whole = False
        try:
            answer = method(self, *args, **settings)
            is_whole = True
        except pymysql.MySQLError as error:
            is_whole = was_said(error)
            raise
        finally:
            if not is_whole and (reads or self.has_said):
                self._force_close()
            asking.release()
        return answer

    return asked_alone


for _name in (*_ASK, *_READ):
    setattr(FencedConnection, _name, _alone(getattr(pymysql.Connection, _name), reads=_name in _READ))


class _Over(FencedConnection):
    """See ``lending``. All that PyMySQL says and hears goes through these, but for what closes."""

    def _write_bytes(self, *_: Any) -> None:
        raise used_late()

    def _read_bytes(self, *_: Any) -> bytes:
        raise used_late()

    def connect(self, *_: Any) -> None:
        raise used_late()

    def close(self) -> None:
        pass  # It is not its own any more.

    _force_close = __del__ = close


class _OverRows(MySQLResult):  # type: ignore[misc]
    """Rows that a block has left unread. Nobody reads them away when they are forgotten."""

    def __del__(self) -> None:
        pass


class PyMySQLDriver:
    """See ``ThreadDriver``."""

    def __init__(self, url: str, settings: dict[str, Any]) -> None:
        self.address = address_of("mysql", url)
        self._arguments = {"connect_timeout": _OPEN_S, "charset": "utf8mb4", **arguments_of(url), **settings}
        self.database = str(self._arguments.get("db") or self._arguments["database"])

    def open(self) -> FencedConnection:
        try:
            # By itself it would wait for ever for what a server says that has let it connect.
            raw = FencedConnection(**{"read_timeout": _OPEN_S, **self._arguments}, autocommit=False)
        except (pymysql.MySQLError, OSError) as error:
            raise trouble_from(error, was_sent=False) from error
        except ODD as error:
            raise odd_answer(error) from error
        raw.is_given_out = True
        self.limit(raw, None)
        return raw

    def ask(self, raw: FencedConnection, ask: Ask) -> Rows:
        if not raw.open:
            raise Trouble("", CLOSED, was_sent=False)
        if raw.is_waited_on:
            raise Unfinished
        if raw.until_s is not None:
            raw._read_timeout = max(raw.until_s - time.monotonic(), _LEAST_S)  # noqa: SLF001  (it has no other way)
        try:
            while raw._result is not None and raw._result.has_next:  # noqa: SLF001
                raw.next_result()
        except (pymysql.MySQLError, OSError) as error:
            raise left_over(error) from error
        return said(raw, ask)

    def lend(self, raw: FencedConnection) -> FencedConnection:
        return lend(raw)

    def end(self, raw: FencedConnection, lent: FencedConnection) -> None:
        asking = lent.asking
        is_free = asking.acquire(blocking=False)
        end(raw, lent, _Over)
        result = raw._result  # noqa: SLF001
        # Whoever waits may stop in the middle of its answer, and whose the rest is nobody could tell.
        raw.is_waited_on = not is_free
        if result is not None and result.unbuffered_active:
            raw.is_waited_on, result.__class__ = True, _OverRows
            lent._result = None  # noqa: SLF001  (Or its cursor would read the rest of them when it is forgotten.)
        lent.asking = RLock()
        if is_free:
            asking.release()

    def limit(self, raw: FencedConnection, until_s: float | None) -> None:
        raw.until_s = until_s
        if until_s is None:
            raw._read_timeout = self._arguments.get("read_timeout")  # noqa: SLF001

    def is_own(self, raw: FencedConnection) -> bool:  # noqa: ARG002
        return True  # Poolers of this protocol give a session away only with what was set in it.

    def is_inside(self, raw: FencedConnection) -> bool:  # noqa: ARG002
        return True  # Every statement begins a transaction, if there is none.

    def is_usable(self, raw: FencedConnection) -> bool:
        # Autocommit may have been set by text.
        open_or_on = SERVER_STATUS.SERVER_STATUS_IN_TRANS | SERVER_STATUS.SERVER_STATUS_AUTOCOMMIT
        return bool(raw.open and not raw.server_status & open_or_on)

    def trouble(self, error: BaseException) -> Trouble | None:
        return trouble_from(error) if isinstance(error, pymysql.MySQLError) else None

    def close(self, raw: FencedConnection) -> None:
        self.drop(raw)

    def drop(self, raw: FencedConnection) -> None:
        raw._force_close()  # noqa: SLF001  (close() raises if it was closed before)


def said(raw: pymysql.Connection, ask: Ask) -> Rows:
    """Ask the server, on any connection of PyMySQL."""
    try:
        with Cursor(raw) as cursor:
            cursor.execute(ask.sql, ask.parameters or None)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []
    except (pymysql.MySQLError, OSError) as error:
        raise trouble_from(error) from error
