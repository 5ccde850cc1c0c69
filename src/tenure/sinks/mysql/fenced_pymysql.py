"""The connection that a sink over PyMySQL gives out: by the rules of ``fenced_asyncmy``, for threads."""

from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Any, Final

import pymysql
from pymysql.connections import MySQLResult

from tenure.errors import ConfigError
from tenure.sinks.mysql.trouble import BUSY, was_said
from tenure.sinks.sql.lending import used_late

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


class Over(FencedConnection):
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


class OverRows(MySQLResult):  # type: ignore[misc]
    """Rows that a block has left unread. Nobody reads them away when they are forgotten."""

    def __del__(self) -> None:
        pass
