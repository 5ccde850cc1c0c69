"""One connection to one server, set up so that nothing of what is promised depends on how the server is."""

from collections.abc import Sequence
from typing import Any, Final

import asyncmy
from asyncmy.cursors import DictCursor

from tenure.errors import Refused
from tenure.stores.mysql.faults import FAULTS, READ_ONLY, FaultTeller
from tenure.stores.mysql.settings import MySqlSettings
from tenure.stores.sql.link import Connector, Fault

# The driver writes values into the statement, with a backslash before what must not end them.
_SET_UP: Final = (
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION time_zone = '+00:00', SESSION sql_mode = 'STRICT_ALL_TABLES', SESSION innodb_lock_wait_timeout = {lock_s}",
    "SET SESSION sql_notes = 0",
)
_MARIADB: Final = "SET SESSION max_statement_time = {timeout_s:.3f}"
_MYSQL: Final = "SET SESSION max_execution_time = {timeout_ms:.0f}"


class MySqlSession:
    """A connection."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self._aborted = False

    async def set_up(self, timeout_s: float) -> None:
        """See to it that statements end, and what they see. Raises Refused for a server that takes no writes."""
        lock_s = max(1, round(timeout_s / 2))  # in whole seconds
        limit = _MARIADB if "mariadb" in self.connection.get_server_info().lower() else _MYSQL
        for statement in (*_SET_UP, limit):
            await self.run(statement.format(lock_s=lock_s, timeout_s=timeout_s, timeout_ms=timeout_s * 1000))
        [about] = await self.fetch("SELECT @@global.read_only AS read_only")
        if about["read_only"]:
            raise Refused("", "", READ_ONLY)

    async def fetch(self, statement: str, arguments: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """Run a question."""
        async with self.connection.cursor(DictCursor) as cursor:
            await cursor.execute(statement, tuple(arguments) or None)
            return list(await cursor.fetchall())

    async def run(self, statement: str, arguments: Sequence[Any] = ()) -> tuple[int, int]:
        """Run a write, and return how many rows it changed and what LAST_INSERT_ID was set to."""
        async with self.connection.cursor() as cursor:
            changed = await cursor.execute(statement, tuple(arguments) or None)
            return int(changed), int(cursor.lastrowid or 0)

    @property
    def broken(self) -> bool:
        if self._aborted or not self.connection.connected:
            return True
        return bool(self.connection._stream_broken)  # noqa: SLF001  (no other name)

    def abort(self) -> None:
        self._aborted = True
        self.connection.close()

    async def close(self) -> None:
        await self.connection.ensure_closed()


class MySqlConnector(Connector[MySqlSession]):
    """How to reach one server."""

    product = "a MySQL or MariaDB"
    faults = FAULTS

    def __init__(self, settings: MySqlSettings) -> None:
        self._settings = settings
        sql = settings.sql
        self._teller = FaultTeller(settings.prefix, sql.database, sql.user or "")

    async def connect(self, endpoint: str) -> MySqlSession:
        host, _, port = endpoint.rpartition(":")
        sql = self._settings.sql
        connection = await asyncmy.connect(
            host=host.strip("[]"),
            port=int(port),
            user=sql.user,
            password=sql.password or "",
            db=sql.database,
            charset="utf8mb4",
            autocommit=True,
            ssl=self._settings.tls,
            connect_timeout=sql.timeout_s,
            program_name="tenure",
        )
        session = MySqlSession(connection)
        set_up = False
        try:
            await session.set_up(sql.timeout_s)
            set_up = True
        finally:
            if not set_up:
                session.abort()
        return session

    def fault_of(self, error: Exception, *, sent: bool) -> Fault:
        return self._teller.tell(error, sent=sent)
