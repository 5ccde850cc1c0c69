"""Tables of PostgreSQL with triggers, to which zombies write by plain SQL: the database refuses them, and no sink of ours is asked."""

import asyncpg

import tenure
from tenure.errors import StaleToken
from tenure.sinks import PostgresSink
from tenure.testing.engines import PostgresCluster

STALE = "TN001"


def table_of(election: str) -> str:
    return f'"triggered-{election}"'


class InTriggers:
    store = ""

    def __init__(self, cluster: PostgresCluster) -> None:
        self.cluster, self.target = cluster, cluster.url

    def prepare(self, election: str) -> None:
        self.cluster.sql(f"CREATE TABLE {table_of(election)} (entry bigserial PRIMARY KEY, token bigint)")

    def blocked(self) -> bool:
        return False

    def written(self, election: str) -> list[int]:
        return [int(row) for row in self.cluster.sql(f"SELECT token FROM {table_of(election)} ORDER BY entry").split()]  # noqa: S608


class TriggerTarget:
    """Every write is a row. Whoever leads first has the table fenced; it stays as it is where nobody asks for a fence."""

    def __init__(self, url: str) -> None:
        self.url, self.sink = url, PostgresSink(url)
        self.fenced = ""
        self.connection: asyncpg.Connection[asyncpg.Record] | None = None  # It ends with the process.

    async def write(self, term: tenure.Tenure, name: str) -> None:
        if self.fenced != term.fence:
            await self.sink.install_triggers(table_of(name), fence=term.fence)
            self.fenced = term.fence
        present = f"SELECT tenure_fence.present('{term.fence}', {term.token}); "
        try:
            await self._insert(term, name, present)
        except asyncpg.PostgresError as error:
            if error.sqlstate != STALE:
                raise
            raise StaleToken(term.token, term.token + 1) from error  # That, or more.

    async def write_unfenced(self, term: tenure.Tenure, name: str) -> None:
        await self._insert(term, name)

    async def _insert(self, term: tenure.Tenure, name: str, before: str = "") -> None:
        if self.connection is None or self.connection.is_closed():
            self.connection = await asyncpg.connect(self.url)
        # Several statements in one text are one transaction.
        await self.connection.execute(f"{before}INSERT INTO {table_of(name)} (token) VALUES ({term.token})")  # noqa: S608
