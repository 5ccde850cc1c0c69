"""The SQLite sink keeps the contract in each of its shapes, on asyncio and trio."""

import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from functools import partial
from pathlib import Path

import pytest
from anyio import to_thread

from tenure.sinks import Bound, SQLiteSink, Verify, guard, install_triggers
from tenure.testing import SINK_CONTRACT, check_sink, check_sink_promise

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def quoted(fence: str) -> str:
    return '"' + fence.replace('"', '""') + '"'


def insert(connection: sqlite3.Connection, fence: str, value: str) -> None:
    connection.execute(f"INSERT INTO {quoted(fence)} (value) VALUES (?)", (value,))  # noqa: S608  (quoted)


# Dies with the write made and not yet committed.
CRASH = """
import os, signal, sys
from types import SimpleNamespace
from tenure.sinks import SQLiteSink

path, fence, token, table, value = sys.argv[1:]
with SQLiteSink(path).transaction(SimpleNamespace(fence=fence, token=int(token))) as connection:
    connection.execute(f"INSERT INTO {table} (value) VALUES (?)", (value,))
    os.kill(os.getpid(), signal.SIGKILL)
"""


class TransactionRig:
    """Shape (a), on a file in WAL mode. Every fence has a table of its name, and some of these are odd."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with closing(self.connect()) as connection:
            connection.execute("PRAGMA journal_mode = WAL")

    def connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=30)
        connection.execute("PRAGMA synchronous = OFF")  # No test takes the power away.
        return connection

    @asynccontextmanager
    async def open(self, verify: Verify | None = None) -> AsyncIterator[SQLiteSink]:
        with SQLiteSink(self.connect, verify=verify) as sink:
            yield sink

    def make_table(self, fence: str) -> None:
        with closing(self.connect()) as connection:
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {quoted(fence)} (entry INTEGER PRIMARY KEY AUTOINCREMENT, value TEXT)"
            )

    async def write(self, client: SQLiteSink, term: Bound, value: str) -> None:
        await to_thread.run_sync(self.make_table, term.fence)
        await client.run(term, partial(insert, fence=term.fence, value=value))

    async def read_all(self, fence: str) -> list[str]:
        self.make_table(fence)
        with closing(self.connect()) as connection:
            query = f"SELECT value FROM {quoted(fence)} ORDER BY entry"  # noqa: S608  (quoted)
            return [value for (value,) in connection.execute(query)]

    async def crash_between_check_and_write(self, term: Bound, value: str) -> None:
        words = (str(self.path), term.fence, str(term.token), quoted(term.fence), value)
        crash = partial(subprocess.run, [sys.executable, "-c", CRASH, *words], check=False)
        assert (await to_thread.run_sync(crash)).returncode == -9

    async def restart(self) -> None:
        pass  # There is no engine: closing the last connection is all that can be stopped.


class GuardRig(TransactionRig):
    """Shape (b): the caller's own transaction on a connection of its own, begun by Python or by hand."""

    async def write(self, client: SQLiteSink, term: Bound, value: str) -> None:
        await to_thread.run_sync(self.write_now, client, term, value)

    def write_now(self, client: SQLiteSink, term: Bound, value: str) -> None:
        self.make_table(term.fence)
        with closing(self.connect()) as connection:
            connection.isolation_level = "DEFERRED"
            with connection:
                with client.refused.counting(term.fence):
                    guard(connection, term, sealed_only=client.verify is not None)
                insert(connection, term.fence, value)


class TriggerRig(TransactionRig):
    """Shape (c) below (a): every table has triggers."""

    def make_table(self, fence: str) -> None:
        super().make_table(fence)
        with closing(self.connect()) as connection:
            install_triggers(connection, fence, fence=fence)


Make = Callable[[], AbstractAsyncContextManager[TransactionRig]]


@pytest.fixture(params=[TransactionRig, GuardRig, TriggerRig])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    @asynccontextmanager
    async def made() -> AsyncIterator[TransactionRig]:
        yield request.param(tmp_path / "sink.db")

    return made


@pytest.mark.parametrize("promise", SINK_CONTRACT)
async def test_the_sqlite_sink_keeps_each_promise(promise: str, make: Make) -> None:
    await check_sink_promise(promise, make)


async def test_the_sqlite_sink_keeps_the_contract_as_a_whole(make: Make) -> None:
    await check_sink(make)
