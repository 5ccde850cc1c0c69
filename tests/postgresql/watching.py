"""Who of the tests is which session of the server: each store that is watched has a role of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from secrets import token_hex

from tenure.stores.postgresql import PostgresStore, from_url
from tenure.testing.engines import PostgresCluster
from tests.sql_rig import sql, until


@dataclass(frozen=True)
class Watched:
    """A store, and what the server says of its sessions."""

    cluster: PostgresCluster
    role: str
    store: PostgresStore

    async def sessions(self, which: str = "true") -> int:
        asked = f"SELECT count(*) FROM pg_stat_activity WHERE usename = '{self.role}' AND {which}"
        return int(await sql(self.cluster, asked))

    async def listens(self, *, except_pid: int = 0) -> int:
        """Wait until it has a session that listens, and return its number."""
        listening = f"usename = '{self.role}' AND query LIKE 'LISTEN%' AND pid <> {except_pid}"
        pids: list[str] = []

        async def found() -> bool:
            pids[:] = (await sql(self.cluster, f"SELECT pid FROM pg_stat_activity WHERE {listening}")).split()
            return len(pids) == 1

        await until(found)
        return int(pids[0])


async def stands_by(store: PostgresStore, election: str) -> None:
    """Wait until it has looked at the election in vain, and waits to be told or to look again."""
    lookout = store._lookout

    async def pauses() -> bool:
        return election in lookout._waiting and not lookout._news.is_set() and bool(lookout._news._waiters)

    await until(pauses)


@asynccontextmanager
async def watched(cluster: PostgresCluster, options: str = "", url: str = "") -> AsyncIterator[Watched]:
    """Open a store under a name of its own, on the cluster itself or by the ``url`` of a pooler."""
    role = f"watched_{token_hex(4)}"
    await sql(cluster, f"CREATE ROLE {role} SUPERUSER LOGIN")
    async with from_url((url or cluster.url).replace("postgres@", f"{role}@") + options) as store:
        yield Watched(cluster, role, store)
