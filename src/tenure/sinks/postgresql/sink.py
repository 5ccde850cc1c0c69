"""Sinks in PostgreSQL, one for each driver."""

from typing import Any

from tenure.sinks.base import Verify
from tenure.sinks.postgresql.dialect import PostgresDialect
from tenure.sinks.sql.extras import needed
from tenure.sinks.sql.flow import CONNECTIONS_MAX, IDLE_S, WAIT_S, Limits
from tenure.sinks.sql.on_loop import LoopSink
from tenure.sinks.sql.on_thread import ThreadSink


class PostgresSink(LoopSink[Any]):
    """A PostgreSQL database that refuses writes of a leader that was succeeded, by asyncpg.

    ``dsn`` and ``settings`` are those of ``asyncpg.connect``. The sink opens up to ``connections_max`` connections of its own. A
    seal waits for ``wait_s`` until older transactions that have checked their token end, and then has the server end their
    sessions. A transaction in which nothing is said for ``idle_s`` is ended by the server. With ``verify``, a token higher than
    any seen is confirmed by it first.

    Fences only what is written through it, through ``guard``, or to tables with triggers. Does not promise to know a commit
    whose answer was lost: that raises OutcomeUnknown.
    """

    def __init__(
        self,
        dsn: str,
        *,
        verify: Verify | None = None,
        connections_max: int = CONNECTIONS_MAX,
        wait_s: float = WAIT_S,
        idle_s: float = IDLE_S,
        **settings: Any,
    ) -> None:
        with needed("asyncpg", "tenure[postgresql]"):
            from tenure.sinks.postgresql.on_asyncpg import AsyncpgDriver  # noqa: PLC0415  (only if it is used)
        limits = Limits.of(connections_max, wait_s, idle_s)
        super().__init__(PostgresDialect(), AsyncpgDriver(dsn, settings), limits, connections_max, verify)


class PsycopgSink(ThreadSink[Any]):
    """The same as PostgresSink, by psycopg 3 and for threads: ``with sink.transaction(term) as connection``.

    ``dsn`` and ``settings`` are those of ``psycopg.connect``.
    """

    def __init__(
        self,
        dsn: str,
        *,
        verify: Verify | None = None,
        connections_max: int = CONNECTIONS_MAX,
        wait_s: float = WAIT_S,
        idle_s: float = IDLE_S,
        **settings: Any,
    ) -> None:
        with needed("psycopg", "psycopg[binary]"):
            from tenure.sinks.postgresql.on_psycopg import PsycopgDriver  # noqa: PLC0415  (only if it is used)
        limits = Limits.of(connections_max, wait_s, idle_s)
        super().__init__(PostgresDialect(), PsycopgDriver(dsn, settings), limits, connections_max, verify)


class AsyncPsycopgSink(LoopSink[Any]):
    """The same as PostgresSink, by psycopg 3 and for asyncio.

    ``dsn`` and ``settings`` are those of ``psycopg.connect``.
    """

    def __init__(
        self,
        dsn: str,
        *,
        verify: Verify | None = None,
        connections_max: int = CONNECTIONS_MAX,
        wait_s: float = WAIT_S,
        idle_s: float = IDLE_S,
        **settings: Any,
    ) -> None:
        with needed("psycopg", "psycopg[binary]"):
            from tenure.sinks.postgresql.on_psycopg import AsyncPsycopgDriver  # noqa: PLC0415  (only if it is used)
        limits = Limits.of(connections_max, wait_s, idle_s)
        super().__init__(PostgresDialect(), AsyncPsycopgDriver(dsn, settings), limits, connections_max, verify)
