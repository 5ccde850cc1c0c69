"""MySQL and MariaDB by PyMySQL: a driver for ``ThreadSink``."""

import time
from threading import RLock
from typing import Any, Final

import pymysql
from pymysql.constants import SERVER_STATUS
from pymysql.cursors import Cursor

from tenure.sinks.mysql.fenced_pymysql import FencedConnection, Over, OverRows
from tenure.sinks.mysql.settings import arguments_of
from tenure.sinks.mysql.trouble import CLOSED, ODD, left_over, odd_answer, trouble_from
from tenure.sinks.sql.address import address_of
from tenure.sinks.sql.lending import end, lend
from tenure.sinks.sql.talk import Ask, Rows, Trouble, Unfinished

_OPEN_S: Final = 10
_LEAST_S: Final = 0.001  # 0 would mean not to wait at all.


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

    def end(self, raw: FencedConnection, lent: FencedConnection) -> bool:
        asking = lent.asking
        is_free = asking.acquire(blocking=False)
        end(raw, lent, Over)
        result = raw._result  # noqa: SLF001
        # Whoever waits may stop in the middle of its answer, and whose the rest is nobody could tell.
        raw.is_waited_on = not is_free
        if result is not None and result.unbuffered_active:
            raw.is_waited_on, result.__class__ = True, OverRows
            lent._result = None  # noqa: SLF001  (Or its cursor would read the rest of them when it is forgotten.)
        lent.asking = RLock()
        if is_free:
            asking.release()
        return self.is_inside(raw)

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
