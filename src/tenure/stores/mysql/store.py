"""The store: ``SqlStore`` over MySQL and MariaDB."""

from tenure.clock import Clock
from tenure.stores.examining import Finding
from tenure.stores.mysql.engine import MySqlEngine
from tenure.stores.mysql.examine import examine
from tenure.stores.mysql.schema import migration
from tenure.stores.mysql.settings import MySqlSettings
from tenure.stores.sql.store import SqlStore


class MySqlStore(SqlStore):
    """Elections in two tables of one database. Used on one event loop, between ``async with`` and its end."""

    def __init__(self, settings: MySqlSettings, *, clock: Clock | None = None) -> None:
        self.settings, self.engine = settings, MySqlEngine(settings)
        super().__init__(self.engine, settings.sql, clock)

    async def examine(self, ttl_ns: int) -> list[Finding]:
        return await examine(self, ttl_ns)

    def schema(self) -> str:
        """Return what makes the tables, and the rights that elections need, for the ``mysql`` command."""
        return migration(self.settings.prefix, self.settings.sql.database, self.settings.sql.user or "")
