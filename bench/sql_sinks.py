"""What a fence costs in PostgreSQL and MariaDB: a fenced commit beside the same commit unfenced, with 1, 8 and 32 writers.

The commit is the smallest there is, one row of a ledger in the driver's own transaction, on a connection that stays open. Each
kind has a table of its own. "By hand" are the statements of a fenced commit without this library: what the server's check costs. Blocks of commits take turns in an order that is drawn anew for every round, and medians of the
blocks are compared, so a checkpoint or a busy neighbour does not fall upon one side. Server and client share the machine.
"""

import asyncio
import random
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from statistics import median
from types import SimpleNamespace
from typing import Any

import asyncmy
import asyncpg

from tenure.model import Token
from tenure.sinks import MySQLSink, PostgresSink
from tenure.sinks.mysql import present_sql
from tenure.sinks.mysql.settings import arguments_of
from tenure.sinks.postgresql.dialect import setting_of
from tenure.testing.engines import MariaDbCluster, MissingEngine, PostgresCluster

WRITERS = (1, 8, 32)
ROUNDS, BLOCK = 40, 64  # commits in a block, by all writers together
KINDS = ("unfenced", "by_hand", "fenced", "trigger")
TERM = SimpleNamespace(fence="etcd://h1,h2,h3/billing/close", token=7)
_INSERT = "INSERT INTO ledger_{} (account, cents, note) VALUES ('savings', 1250, 'rent')"
_LEDGER = "(entry {} PRIMARY KEY, account text NOT NULL, cents int NOT NULL, note text)"

Commit = Callable[[], Awaitable[None]]
Figures = Iterator[tuple[str, float, float, str, bool]]


class OnPostgres:
    """asyncpg."""

    name = "PostgreSQL"
    cluster = PostgresCluster

    async def open(self, url: str, writers: int, stack: AsyncExitStack) -> dict[str, list[Commit]]:
        sink = await stack.enter_async_context(PostgresSink(url, connections_max=writers))
        commits: dict[str, list[Commit]] = {kind: [] for kind in KINDS}
        admin = await self._connection(url, stack)
        for kind in KINDS if writers == WRITERS[0] else ():
            await admin.execute(f"CREATE TABLE ledger_{kind} {_LEDGER.format('bigserial')}")
        await sink.install_triggers("ledger_trigger", fence=TERM.fence)
        await sink.seal(TERM.fence, Token(TERM.token))
        for _ in range(writers):
            plain, by_hand, presenting = [await self._connection(url, stack) for _ in range(3)]
            commits["by_hand"].append(lambda by_hand=by_hand: self._by_hand(by_hand))  # type: ignore[misc]
            await presenting.execute(f"SET {setting_of(TERM.fence)} = '{TERM.token}'")
            commits["unfenced"].append(lambda plain=plain: self._commit(plain, "unfenced"))  # type: ignore[misc]
            commits["trigger"].append(lambda shown=presenting: self._commit(shown, "trigger"))  # type: ignore[misc]
            commits["fenced"].append(lambda: self._fenced(sink))
        return commits

    async def _connection(self, url: str, stack: AsyncExitStack) -> Any:
        connection = await asyncpg.connect(url)
        stack.push_async_callback(connection.close)
        return connection

    async def _commit(self, connection: Any, kind: str) -> None:
        async with connection.transaction():
            await connection.execute(_INSERT.format(kind))

    async def _by_hand(self, connection: Any) -> None:
        await connection.execute(f"BEGIN; SET LOCAL {setting_of(TERM.fence)} = '{TERM.token}'")
        await connection.execute(_INSERT.format("by_hand"))
        await connection.execute(f"SELECT tenure_fence.guard('{TERM.fence}', {TERM.token}); COMMIT")

    async def _fenced(self, sink: PostgresSink) -> None:
        async with sink.transaction(TERM) as connection:
            await connection.execute(_INSERT.format("fenced"))


class OnMariaDb:
    """asyncmy."""

    name = "MariaDB"
    cluster = MariaDbCluster

    async def open(self, url: str, writers: int, stack: AsyncExitStack) -> dict[str, list[Commit]]:
        sink = await stack.enter_async_context(MySQLSink(url, connections_max=writers))
        commits: dict[str, list[Commit]] = {kind: [] for kind in KINDS}
        admin = await self._connection(url, stack)
        for kind in KINDS if writers == WRITERS[0] else ():
            await self._say(admin, f"CREATE TABLE ledger_{kind} {_LEDGER.format('int AUTO_INCREMENT')}")
        await sink.install_triggers("ledger_trigger", fence=TERM.fence)
        await sink.seal(TERM.fence, Token(TERM.token))
        for _ in range(writers):
            plain, by_hand, presenting = [await self._connection(url, stack) for _ in range(3)]
            commits["by_hand"].append(lambda by_hand=by_hand: self._by_hand(by_hand))  # type: ignore[misc]
            await self._say(presenting, present_sql(TERM))
            commits["unfenced"].append(lambda plain=plain: self._commit(plain, "unfenced"))  # type: ignore[misc]
            commits["trigger"].append(lambda shown=presenting: self._commit(shown, "trigger"))  # type: ignore[misc]
            commits["fenced"].append(lambda: self._fenced(sink))
        return commits

    async def _connection(self, url: str, stack: AsyncExitStack) -> Any:
        connection = await asyncmy.connect(**arguments_of(url))
        stack.push_async_callback(connection.ensure_closed)
        return connection

    async def _say(self, connection: Any, statement: str) -> None:
        async with connection.cursor() as cursor:
            await cursor.execute(statement)

    async def _commit(self, connection: Any, kind: str) -> None:
        await self._say(connection, _INSERT.format(kind))
        await connection.commit()

    async def _by_hand(self, connection: Any) -> None:
        await self._say(connection, _INSERT.format("by_hand"))
        check = f"SELECT highest INTO @highest FROM tenure_fence WHERE fence = '{TERM.fence}' LOCK IN SHARE MODE"  # noqa: S608
        await self._say(connection, f"BEGIN NOT ATOMIC {check}; IF @highest = {TERM.token} THEN COMMIT; END IF; END")

    async def _fenced(self, sink: MySQLSink) -> None:
        async with sink.transaction(TERM) as connection:
            await self._say(connection, _INSERT.format("fenced"))


async def _block_s(writers: list[Commit]) -> float:
    """Return how long a block of commits takes, shared by these writers."""

    async def write(commit: Commit) -> None:
        for _ in range(BLOCK // len(writers)):
            await commit()

    began = time.perf_counter()
    await asyncio.gather(*map(write, writers))
    return time.perf_counter() - began


async def _ratios(server: Any, url: str, writers: int) -> dict[str, float]:
    async with AsyncExitStack() as stack:
        commits = await server.open(url, writers, stack)
        took_s: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for kind in KINDS:
            await _block_s(commits[kind])  # What is made once is not what is compared.
        order = list(KINDS)
        for _ in range(ROUNDS):
            random.shuffle(order)
            for kind in order:
                took_s[kind].append(await _block_s(commits[kind]))
    return {kind: median(times_s) / median(took_s["unfenced"]) for kind, times_s in took_s.items()}


def figures() -> Figures:
    for server in (OnPostgres(), OnMariaDb()):
        try:
            cluster = server.cluster()
            with cluster:
                for writers in WRITERS:
                    ratios = asyncio.run(_ratios(server, cluster.url, writers))
                    what = f"{server.name}: {{}} / same commit, {writers} writers"
                    yield what.format("fenced commit"), ratios["fenced"], 1.10, "x", False
                    yield what.format("the check by hand"), ratios["by_hand"], 1.10, "x", False
                    yield what.format("commit with trigger"), ratios["trigger"], 1.25, "x", False
        except MissingEngine as missing:
            print(f"left out: {missing}", file=sys.stderr)
