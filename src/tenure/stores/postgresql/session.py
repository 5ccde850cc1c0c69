"""One connection to one server: direct, or through a pooler that gives every transaction another one.

Rules of this file
1. A pooler in transaction mode must find everything of an operation in one transaction: settings, statement and plan. Directly,
   a statement is a transaction of its own and its plan is kept: one round trip.
2. What a role, a database or a server is set to must not weaken what is promised: the isolation level is ours, and an answer is
   not given before what it says is durable.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import asyncpg

from tenure.errors import Refused
from tenure.stores.postgresql.faults import FAULTS, READ_ONLY, STANDBY, FaultTeller
from tenure.stores.postgresql.settings import PostgresSettings
from tenure.stores.postgresql.statements import TIMELINE
from tenure.stores.sql.link import Connector, Fault

_ABOUT: Final = (
    "SELECT pg_backend_pid() AS pid, pg_is_in_recovery() AS recovers, current_setting('transaction_read_only') AS ro"
)
_KEEPALIVE: Final = {"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3"}


def limits_of(timeout_s: float) -> dict[str, str]:
    """Return how a session is set up, so that nothing of ours lives on at the server for long after we gave it up."""
    return {
        "statement_timeout": f"{timeout_s * 1000:.0f}",
        "lock_timeout": f"{timeout_s * 500:.0f}",
        "idle_in_transaction_session_timeout": f"{timeout_s * 1000:.0f}",
    }


class PostgresSession:
    """A connection. ``pooled``: somebody stands between us and the server."""

    def __init__(self, connection: "asyncpg.Connection[Any]", limits: dict[str, str]) -> None:
        self.connection, self._limits = connection, limits
        self.pooled = False
        self.timeline = 0
        self._plans: dict[str, Any] = {}

    async def set_up(self) -> None:
        """Find out what this is, and see to it that it behaves. Raises Refused for a server that takes no writes."""
        connection = self.connection
        await connection.execute("BEGIN")
        about = await connection.fetchrow(_ABOUT)
        assert about is not None
        self.pooled = about["pid"] != connection.get_server_pid()
        if about["recovers"] or about["ro"] == "on":
            raise Refused("", "", STANDBY if about["recovers"] else READ_ONLY)
        self.timeline = await connection.fetchval(f"SELECT {TIMELINE}")
        await connection.execute("COMMIT")
        if not self.pooled:
            settings = {**self._limits, **_KEEPALIVE, "default_transaction_isolation": "read committed"}
            await connection.execute("; ".join(f"SET {name} = '{value}'" for name, value in settings.items()))
            await connection.execute(_durable(local=False))

    async def fetch(self, statement: str, arguments: Sequence[Any]) -> list[Any]:
        """Run one statement, in a transaction of its own."""
        if self.pooled:
            limits = "; ".join(f"SET LOCAL {name} = '{value}'" for name, value in self._limits.items())
            await self.connection.execute(f"BEGIN ISOLATION LEVEL READ COMMITTED; {limits}; {_durable(local=True)}")
            try:
                rows = await self.connection.fetch(statement, *arguments)
            except asyncpg.PostgresError:
                await self.connection.execute("ROLLBACK")
                raise
            await self.connection.execute("COMMIT")
            return list(rows)
        plan = self._plans.get(statement)
        if plan is None:
            # By a name: without a cache of its own, which a pooler forbids, asyncpg has any other planned anew each time.
            name = f"tenure_{len(self._plans)}"
            plan = self._plans[statement] = await self.connection.prepare(statement, name=name)
        return list(await plan.fetch(*arguments))

    async def run_script(self, script: str) -> None:
        """Run several statements as one transaction."""
        await self.connection.execute(f"BEGIN; {script}; COMMIT")

    @property
    def broken(self) -> bool:
        return bool(self.connection.is_closed())

    def abort(self) -> None:
        self.connection.terminate()

    async def close(self) -> None:
        await self.connection.close()


def _durable(*, local: bool) -> str:
    """Return what turns a commit that is not waited for, which a role may be set to, into one that is."""
    name = "current_setting('synchronous_commit')"
    return f"SELECT set_config('synchronous_commit', CASE {name} WHEN 'off' THEN 'on' ELSE {name} END, {str(local).lower()})"


class PostgresConnector(Connector[PostgresSession]):
    """How to reach one server. Remembers the latest timeline: a primary that was replaced, and still runs, is not gone back to."""

    product = "a PostgreSQL"
    faults = FAULTS

    def __init__(self, settings: PostgresSettings) -> None:
        self._settings = settings
        self._teller = FaultTeller(settings.schema, settings.sql.user or "our role")
        self._latest_timeline = 0

    async def connect(self, endpoint: str) -> PostgresSession:
        session = PostgresSession(await self.raw(endpoint), limits_of(self._settings.sql.timeout_s))
        set_up = False
        try:
            await session.set_up()
            if session.timeline < self._latest_timeline:
                told = f"is on timeline {session.timeline}, and another server was on {self._latest_timeline} already"
                raise Refused("", "", f"{told}: it was replaced as the primary, and must be stopped")
            self._latest_timeline = session.timeline
            set_up = True
        finally:
            if not set_up:
                session.abort()
        return session

    async def raw(self, endpoint: str) -> "asyncpg.Connection[Any]":
        """Connect, and no more."""
        host, _, port = endpoint.rpartition(":")
        sql = self._settings.sql
        return await asyncpg.connect(
            self._settings.dsn,
            host=host.strip("[]"),
            port=int(port),
            user=sql.user,
            password=sql.password,
            database=sql.database or None,
            passfile=self._settings.passfile,
            timeout=sql.timeout_s,
            statement_cache_size=0,
            server_settings={"application_name": "tenure"},
            loop=asyncio.get_running_loop(),
        )

    def fault_of(self, error: Exception, *, sent: bool) -> Fault:
        return self._teller.tell(error, sent=sent)
