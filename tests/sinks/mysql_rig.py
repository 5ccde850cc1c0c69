"""What tests of sinks in MySQL share: a rig for the contract, one per driver, and a program that dies inside."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from hashlib import md5
from typing import Any

import asyncmy
import pymysql
from anyio import to_thread

from tenure.sinks import Bound, Verify
from tenure.sinks.mysql import MySQLSink, PyMySQLSink, guard, guard_sync
from tenure.sinks.mysql.settings import arguments_of
from tenure.testing.engines import MariaDbCluster
from tests.sinks.postgresql_rig import at_once

# Dies with the check passed and the write made, and not yet committed.
CRASH = """
import os, signal, sys
from types import SimpleNamespace
from tenure.sinks.mysql import PyMySQLSink

url, fence, token, statement, value = sys.argv[1:]
with PyMySQLSink(url).transaction(SimpleNamespace(fence=fence, token=int(token))) as connection:
    connection.cursor().execute(statement, (fence.encode(), value))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def insert(table: str) -> str:
    return f"INSERT INTO {table} (fence, value) VALUES (%s, %s)"  # noqa: S608


def connected(url: str, **more: Any) -> Any:
    return pymysql.connect(**arguments_of(url), **more)


def lock_waits(cluster: MariaDbCluster) -> int:
    # Not innodb_lock_waits, which shows the same again to whoever looks more often than every 0.1 s.
    return int(cluster.sql("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'").split()[-1])


class AsyncmyRig:
    """One table for all fences."""

    def __init__(self, cluster: MariaDbCluster) -> None:
        self.cluster = cluster
        self.made: set[str] = set()
        self.making = asyncio.Lock()

    @asynccontextmanager
    async def open(self, verify: Verify | None = None) -> AsyncIterator[Any]:
        async with MySQLSink(self.cluster.url, verify=verify) as sink:
            yield sink

    async def write(self, client: Any, term: Bound, value: str) -> None:
        await self.make_table(term.fence)
        async with client.bind(term).transaction() as connection, connection.cursor() as cursor:
            await cursor.execute(insert(self.table_of(term.fence)), (term.fence.encode(), value))

    def table_of(self, fence: str) -> str:  # noqa: ARG002
        return "contract_writes"

    async def make_table(self, fence: str) -> None:
        table = self.table_of(fence)
        columns = "entry BIGINT AUTO_INCREMENT PRIMARY KEY, fence VARBINARY(1000), value TEXT CHARACTER SET utf8mb4"
        async with self.making:
            if table not in self.made:
                await to_thread.run_sync(self.sql, f"CREATE TABLE IF NOT EXISTS {table} ({columns})")
                await self.fence_off(fence)
                self.made.add(table)

    async def fence_off(self, fence: str) -> None:
        """Leave the table as it is."""

    def sql(self, statement: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        with closing(connected(self.cluster.url, autocommit=True)) as connection, connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            return list(cursor.fetchall())

    async def read_all(self, fence: str) -> list[str]:
        await self.make_table(fence)
        query = f"SELECT value FROM {self.table_of(fence)} WHERE fence = %s ORDER BY entry"  # noqa: S608
        return [value for (value,) in await to_thread.run_sync(self.sql, query, (fence.encode(),))]

    async def crash_between_check_and_write(self, term: Bound, value: str) -> None:
        words = (self.cluster.url, term.fence, str(term.token), insert(self.table_of(term.fence)), value)
        crash = await asyncio.create_subprocess_exec(sys.executable, "-c", CRASH, *words, stderr=subprocess.PIPE)
        _, told = await crash.communicate()
        assert crash.returncode == -9, told.decode()

    async def restart(self) -> None:
        await to_thread.run_sync(self.cluster.restart)


def as_mysql_does(sink: MySQLSink) -> MySQLSink:
    """Let a sink check and commit in two statements, also where the server could do both in one."""
    vars(sink._flow.dialect)["_is_mariadb"] = False
    return sink


class StepsRig(AsyncmyRig):
    @asynccontextmanager
    async def open(self, verify: Verify | None = None) -> AsyncIterator[Any]:
        async with as_mysql_does(MySQLSink(self.cluster.url, verify=verify)) as sink:
            yield sink


class PyMySQLRig(AsyncmyRig):
    @asynccontextmanager
    async def open(self, verify: Verify | None = None) -> AsyncIterator[Any]:
        with PyMySQLSink(self.cluster.url, verify=at_once(verify)) as sink:
            yield sink

    async def write(self, client: Any, term: Bound, value: str) -> None:
        await self.make_table(term.fence)
        await to_thread.run_sync(self.write_now, client, term, value)

    def write_now(self, client: PyMySQLSink, term: Bound, value: str) -> None:
        with client.transaction(term) as connection:
            connection.cursor().execute(insert(self.table_of(term.fence)), (term.fence.encode(), value))


class GuardRig(PyMySQLRig):
    """The caller's own transactions, on connections of its own."""

    async def fence_off(self, fence: str) -> None:  # noqa: ARG002
        with PyMySQLSink(self.cluster.url) as sink:
            sink.set_up()

    def write_now(self, client: PyMySQLSink, term: Bound, value: str) -> None:
        with closing(connected(self.cluster.url)) as connection:
            # First, since the contract wants the order of the commits, and numbers are drawn when rows are inserted.
            while True:
                try:
                    with client.refused.counting(term.fence):
                        guard_sync(connection, term, sealed_only=client.verify is not None)
                except pymysql.OperationalError as error:
                    assert error.args[0] == 1213  # noqa: PT017  (the first one in: who loses begins anew)
                    continue
                break
            connection.cursor().execute(insert(self.table_of(term.fence)), (term.fence.encode(), value))
            connection.commit()


class AsyncGuardRig(AsyncmyRig):
    """The same by asyncmy."""

    async def fence_off(self, fence: str) -> None:  # noqa: ARG002
        async with MySQLSink(self.cluster.url) as sink:
            await sink.set_up()

    async def write(self, client: Any, term: Bound, value: str) -> None:
        await self.make_table(term.fence)
        async with asyncmy_connected(self.cluster.url) as connection:
            while True:
                try:
                    with client.refused.counting(term.fence):
                        await guard(connection, term, sealed_only=client.verify is not None)
                except asyncmy.errors.OperationalError as error:
                    assert error.args[0] == 1213  # noqa: PT017  (the first one in: who loses begins anew)
                    continue
                break
            async with connection.cursor() as cursor:
                await cursor.execute(insert(self.table_of(term.fence)), (term.fence.encode(), value))
            await connection.commit()


@asynccontextmanager
async def asyncmy_connected(url: str, **more: Any) -> AsyncIterator[Any]:
    connection = await asyncmy.connect(**arguments_of(url), **more)
    try:
        yield connection
    finally:
        connection.close()


class TriggerRig(AsyncmyRig):
    """Every fence has a table with triggers."""

    def table_of(self, fence: str) -> str:
        # Not the name of the fence: drivers would take a % in it for the place of a value.
        return f"t_{md5(fence.encode(), usedforsecurity=False).hexdigest()}"

    async def fence_off(self, fence: str) -> None:
        async with MySQLSink(self.cluster.url) as sink:
            await sink.install_triggers(self.table_of(fence), fence=fence)
