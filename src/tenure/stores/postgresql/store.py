"""The store: ``SqlStore`` over PostgreSQL."""

from tenure.clock import Clock
from tenure.stores.examining import Finding
from tenure.stores.postgresql.engine import PostgresEngine
from tenure.stores.postgresql.examine import examine
from tenure.stores.postgresql.schema import migration
from tenure.stores.postgresql.settings import PostgresSettings
from tenure.stores.sql.store import SqlStore


class PostgresStore(SqlStore):
    """Elections in one schema of one database. Used on one event loop, between ``async with`` and its end."""

    def __init__(self, settings: PostgresSettings, *, clock: Clock | None = None) -> None:
        self.settings, self.engine = settings, PostgresEngine(settings)
        super().__init__(self.engine, settings.sql, clock)

    async def examine(self, ttl_ns: int) -> list[Finding]:
        return await examine(self, ttl_ns)

    def schema(self) -> str:
        """Return what makes the tables, and the rights that elections need, for ``psql``."""
        return migration(self.settings.schema, self.settings.sql.user or "")
