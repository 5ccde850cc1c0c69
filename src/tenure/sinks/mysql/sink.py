"""Sinks in MySQL and MariaDB, one for each driver."""

from typing import Any

from tenure.sinks.base import Verify
from tenure.sinks.mysql.dialect import MySQLDialect
from tenure.sinks.sql.extras import needed
from tenure.sinks.sql.flow import CONNECTIONS_MAX, IDLE_S, WAIT_S, Limits
from tenure.sinks.sql.on_loop import LoopSink
from tenure.sinks.sql.on_thread import ThreadSink


class MySQLSink(LoopSink[Any]):
    """A MySQL or MariaDB database that refuses writes of a leader that was succeeded, by asyncmy.

    ``url`` is ``mysql://user:password@host:3306/database``, and ``settings`` are more arguments of ``asyncmy.connect``. The sink opens
    up to ``connections_max`` connections of its own. A seal waits for ``wait_s`` until older transactions that have checked their
    token end, and then has the server end their sessions. A transaction in which nothing is said for ``idle_s`` is ended by the
    server. With ``verify``, a token higher than any seen is confirmed by it first.

    Fences only what is written through it, through ``guard``, or to tables with triggers; and only tables of InnoDB. Does not
    promise to know a commit whose answer was lost: that raises OutcomeUnknown. Statements that commit by themselves, such as
    CREATE TABLE, commit unchecked what came before them.
    """

    def __init__(
        self,
        url: str,
        *,
        verify: Verify | None = None,
        connections_max: int = CONNECTIONS_MAX,
        wait_s: float = WAIT_S,
        idle_s: float = IDLE_S,
        **settings: Any,
    ) -> None:
        with needed("asyncmy", "tenure[mysql]"):
            from tenure.sinks.mysql.on_asyncmy import AsyncmyDriver  # noqa: PLC0415  (only if it is used)
        limits = Limits.of(connections_max, wait_s, idle_s)
        driver = AsyncmyDriver(url, settings)
        super().__init__(MySQLDialect(driver.database), driver, limits, connections_max, verify)


class PyMySQLSink(ThreadSink[Any]):
    """The same as MySQLSink, by PyMySQL and for threads: ``with sink.transaction(term) as connection``.

    ``settings`` are more arguments of ``pymysql.connect``.
    """

    def __init__(
        self,
        url: str,
        *,
        verify: Verify | None = None,
        connections_max: int = CONNECTIONS_MAX,
        wait_s: float = WAIT_S,
        idle_s: float = IDLE_S,
        **settings: Any,
    ) -> None:
        with needed("pymysql", "pymysql"):
            from tenure.sinks.mysql.on_pymysql import PyMySQLDriver  # noqa: PLC0415  (only if it is used)
        limits = Limits.of(connections_max, wait_s, idle_s)
        driver = PyMySQLDriver(url, settings)
        super().__init__(MySQLDialect(driver.database), driver, limits, connections_max, verify)
