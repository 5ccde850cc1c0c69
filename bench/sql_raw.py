"""What a claim and its release cost in SQL alone, and what a lock of the database's own costs, on the bare drivers.

A program of its own behind the commands and events of the peers. Arguments: postgresql or mysql, host, port, name.
"""

import asyncio
import sys
import time
from pathlib import Path
from typing import Any
from zlib import crc32

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.peers.lines import say
from tests.peers.serving import in_background, serve

_PG_TABLE = "CREATE TABLE IF NOT EXISTS raw (name text PRIMARY KEY, holder text, token bigint, expires timestamptz)"
_PG_TAKE = (
    "UPDATE raw SET holder = $2, token = token + 1, expires = clock_timestamp() + interval '60 s'"
    " WHERE name = $1 AND (holder IS NULL OR expires <= clock_timestamp()) RETURNING token"
)
_PG_LEAVE = "UPDATE raw SET holder = NULL WHERE name = $1 AND holder = $2 RETURNING token"
_MY_TABLE = "CREATE TABLE IF NOT EXISTS raw (name varbinary(64) PRIMARY KEY, holder varbinary(64), token bigint, expires datetime(6))"
_MY_TAKE = (
    "UPDATE raw SET holder = %s, token = token + 1, expires = SYSDATE(6) + INTERVAL 60 SECOND"
    " WHERE name = %s AND (holder IS NULL OR expires <= SYSDATE(6))"
)
_MY_LEAVE = "UPDATE raw SET holder = NULL WHERE name = %s AND holder = %s"


class PostgresRaw:
    def __init__(self, connection: Any, name: str) -> None:
        self.connection, self.name = connection, name
        self.number = crc32(name.encode())

    @classmethod
    async def open(cls, host: str, port: int, name: str) -> "PostgresRaw":
        import asyncpg  # noqa: PLC0415  (one of two)

        connection = await asyncpg.connect(host=host, port=port, user="postgres", database="postgres", ssl=False)
        await connection.execute("SELECT pg_advisory_lock(1)")
        await connection.execute(_PG_TABLE)
        await connection.execute("SELECT pg_advisory_unlock(1)")
        await connection.execute(f"INSERT INTO raw VALUES ('{name}', NULL, 0, NULL) ON CONFLICT DO NOTHING")  # noqa: S608
        return cls(connection, name)

    async def pair(self) -> None:
        assert await self.connection.fetchval(_PG_TAKE, self.name, "me") is not None
        assert await self.connection.fetchval(_PG_LEAVE, self.name, "me") is not None

    async def take(self) -> None:
        await self.connection.fetchval("SELECT pg_advisory_lock($1)", self.number)

    async def leave(self) -> None:
        await self.connection.fetchval("SELECT pg_advisory_unlock($1)", self.number)


class MySqlRaw:
    def __init__(self, connection: Any, name: str) -> None:
        self.connection, self.name = connection, name

    @classmethod
    async def open(cls, host: str, port: int, name: str) -> "MySqlRaw":
        import asyncmy  # noqa: PLC0415  (one of two)

        connection = await asyncmy.connect(host=host, port=port, user="root", db="test", autocommit=True)
        side = cls(connection, name)
        await side.run("SET SESSION sql_notes = 0")
        await side.run(_MY_TABLE)
        await side.run("INSERT INTO raw VALUES (%s, NULL, 0, NULL) ON DUPLICATE KEY UPDATE name = name", name.encode())
        return side

    async def run(self, statement: str, *arguments: object) -> int:
        async with self.connection.cursor() as cursor:
            return int(await cursor.execute(statement, arguments or None))

    async def pair(self) -> None:
        assert await self.run(_MY_TAKE, b"me", self.name.encode())
        assert await self.run(_MY_LEAVE, self.name.encode(), b"me")

    async def take(self) -> None:
        await self.run("SELECT GET_LOCK(%s, 60)", self.name)

    async def leave(self) -> None:
        await self.run("SELECT RELEASE_LOCK(%s)", self.name)


class RawSide:
    def __init__(self, database: PostgresRaw | MySqlRaw) -> None:
        self.database = database
        self.terms = 0

    async def time(self, count: str) -> None:
        """Take a row and leave it by guarded statements, and say how long each pair took."""
        took_ns = []
        for _ in range(int(count)):
            began_ns = time.monotonic_ns()
            await self.database.pair()
            took_ns.append(time.monotonic_ns() - began_ns)
        say("timed", took_ns=took_ns)

    async def campaign(self, _: str) -> None:
        """Wait for a lock of the session's own, as long as it takes."""
        in_background(self._stand())

    async def _stand(self) -> None:
        say("standing")
        await self.database.take()
        self.terms += 1
        say("leading", token=self.terms)

    async def resign(self, _: str) -> None:
        say("leaving")
        await self.database.leave()
        say("left")


async def main(kind: str, host: str, port: int, name: str) -> None:
    database = await (PostgresRaw if kind == "postgresql" else MySqlRaw).open(host, port, name)
    side = RawSide(database)
    await serve({"time": side.time, "campaign": side.campaign, "resign": side.resign})


if __name__ == "__main__":
    kind, host, port, name = sys.argv[1:]
    asyncio.run(main(kind, host, int(port), name))
