"""What tests of sinks in PostgreSQL share: a rig for the contract, one per driver, and a program that dies inside."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from anyio import to_thread

from tenure.sinks import Bound, Verify
from tenure.sinks.postgresql import AsyncPsycopgSink, PostgresSink, PsycopgSink, guard
from tenure.sinks.postgresql.schema import literal, quoted
from tenure.testing.engines import PostgresCluster

# Dies with the check passed and the write made, and not yet committed.
CRASH = """
import asyncio, os, signal, sys
from types import SimpleNamespace
from tenure.sinks.postgresql import PostgresSink

url, fence, token, statement = sys.argv[1:]

async def main():
    async with PostgresSink(url).transaction(SimpleNamespace(fence=fence, token=int(token))) as connection:
        await connection.execute(statement)
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def insert(table: str, fence: str, value: str) -> str:
    return f"INSERT INTO {table} (fence, value) VALUES ({literal(fence)}, {literal(value)})"  # noqa: S608


class AsyncpgRig:
    """One table for all fences."""

    def __init__(self, cluster: PostgresCluster) -> None:
        self.cluster = cluster
        self.made: set[str] = set()
        self.making = asyncio.Lock()

    @asynccontextmanager
    async def open(self, verify: Verify | None = None) -> AsyncIterator[Any]:
        async with PostgresSink(self.cluster.url, verify=verify) as sink:
            yield sink

    async def write(self, client: Any, term: Bound, value: str) -> None:
        await self.make_table(term.fence)
        async with client.bind(term).transaction() as connection:
            await connection.execute(insert(self.table_of(term.fence), term.fence, value))

    def table_of(self, fence: str) -> str:  # noqa: ARG002
        return "contract_writes"

    async def make_table(self, fence: str) -> None:
        table = self.table_of(fence)
        async with self.making:
            if table not in self.made:
                await self.sql(
                    f"CREATE TABLE IF NOT EXISTS {table} (entry bigserial PRIMARY KEY, fence text, value text)"
                )
                await self.fence_off(fence)
                self.made.add(table)

    async def fence_off(self, fence: str) -> None:
        """Leave the table as it is."""

    async def sql(self, statement: str) -> list[Any]:
        connection = await asyncpg.connect(self.cluster.url)
        try:
            return list(await connection.fetch(statement))
        finally:
            await connection.close()

    async def read_all(self, fence: str) -> list[str]:
        await self.make_table(fence)
        table = self.table_of(fence)
        query = f"SELECT value FROM {table} WHERE fence = {literal(fence)} ORDER BY entry"  # noqa: S608
        return [row["value"] for row in await self.sql(query)]

    async def crash_between_check_and_write(self, term: Bound, value: str) -> None:
        words = (self.cluster.url, term.fence, str(term.token), insert(self.table_of(term.fence), term.fence, value))
        crash = await asyncio.create_subprocess_exec(sys.executable, "-c", CRASH, *words, stderr=subprocess.PIPE)
        _, told = await crash.communicate()
        assert crash.returncode == -9, told.decode()

    async def restart(self) -> None:
        await to_thread.run_sync(self.cluster.restart)


class AsyncPsycopgRig(AsyncpgRig):
    @asynccontextmanager
    async def open(self, verify: Verify | None = None) -> AsyncIterator[Any]:
        async with AsyncPsycopgSink(self.cluster.url, verify=verify) as sink:
            yield sink


class GuardRig(AsyncpgRig):
    """The caller's own transactions, on connections of its own."""

    async def fence_off(self, fence: str) -> None:  # noqa: ARG002
        async with PostgresSink(self.cluster.url) as sink:
            await sink.set_up()

    async def write(self, client: Any, term: Bound, value: str) -> None:
        await self.make_table(term.fence)
        connection = await asyncpg.connect(self.cluster.url)
        try:
            async with connection.transaction():
                # First, since the contract wants the order of the commits, and numbers are drawn when rows are inserted.
                with client.refused.counting(term.fence):
                    await guard(connection, term, sealed_only=client.verify is not None)
                await connection.execute(insert(self.table_of(term.fence), term.fence, value))
        finally:
            await connection.close()


class TriggerRig(AsyncpgRig):
    """Every fence has a table with triggers, and some of their names are odd."""

    def table_of(self, fence: str) -> str:
        return quoted(fence[-60:])

    async def fence_off(self, fence: str) -> None:
        async with PostgresSink(self.cluster.url) as sink:
            await sink.install_triggers(self.table_of(fence), fence=fence)


class PsycopgRig(AsyncpgRig):
    @asynccontextmanager
    async def open(self, verify: Verify | None = None) -> AsyncIterator[Any]:
        with PsycopgSink(self.cluster.url, verify=at_once(verify)) as sink:
            yield sink

    async def write(self, client: Any, term: Bound, value: str) -> None:
        await self.make_table(term.fence)
        await to_thread.run_sync(self.write_now, client, term, value)

    def write_now(self, client: PsycopgSink, term: Bound, value: str) -> None:
        with client.transaction(term) as connection:
            connection.execute(insert(self.table_of(term.fence), term.fence, value))


def at_once(verify: Verify | None) -> Verify | None:
    """Threads cannot await: for them, make a function of the contract's ``async`` one."""
    if verify is None:
        return None

    def asked(fence: str, token: Any) -> bool:
        answer: Any = verify(fence, token)
        return bool(asyncio.run(answer))

    return asked
