"""What a fence costs in PostgreSQL and MariaDB: a fenced commit beside the same commit unfenced, with 1, 8 and 32 writers.

The commit is the smallest there is, one row of a ledger in the driver's own transaction, on a connection that stays open. Each
kind has a table of its own, and connections of its own: sessions that had the work of two kinds would find their caches warmer.

- "By hand" is the least that can be a check, without this library: a shared lock and a read of the fence, sent with the commit; and
  the least that can be a trigger is one that takes the lock and reads, and compares nothing.
- "One message less" is the commit unfenced whose BEGIN goes with the first statement, as the sink's does.
- "The messages of a fenced commit" are what the sink sends, and nothing else that it does.

The goals are about the connection that stays open. The sink is a pool as well, so beside them is what the same commit takes by
the pool of asyncpg, which is what programs use that have no connection of their own for every writer.

Blocks of commits take turns in an order that is drawn anew for every round, and medians of the blocks are compared, so a
checkpoint or a busy neighbour does not fall upon one side. All connections are opened anew several times: where the memory of a session's process comes
to lie is luck, and stays with it. A block is long enough that what a session finds cold, after all others had
their turn, is a small part of it, and that the system has settled on where client and server run: users' sessions do one kind of work.
With blocks of 64 commits, most of which client and server spend on one processor, a single writer's fenced commit read 1.10 to 1.12 where it reads
1.01 to 1.02 with these (ADR 0027). Server and client share the machine, so beside how
long it takes is told how much processor time both spend, which neither other work on the machine nor its disk changes much: the goals are
about a machine that has nothing else to do. How much a commit writes is
counted in bytes of the server's log, in further blocks, one after the other: medians again, for the log has entries now and then
that belong to no commit, such as whole pages after a checkpoint.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any, NamedTuple

import asyncmy
import asyncpg
from rows import Figures, NotMeasured, told

from tenure.model import Token
from tenure.sinks import MySQLSink, PostgresSink
from tenure.sinks.mysql import present_sql
from tenure.sinks.mysql.settings import arguments_of
from tenure.sinks.postgresql.dialect import PostgresDialect
from tenure.sinks.postgresql.schema import setting_of
from tenure.sinks.sql.dialect import Opening
from tenure.testing.engines import MariaDbCluster, MissingEngine, PostgresCluster
from tenure.testing.engines.cluster import Cluster

WRITERS = (1, 8, 32)
OPENINGS = 4
ROUNDS = 6  # with the connections of each opening
BLOCK = 1024  # commits, shared by all writers
CONNECTIONS_MAX = 400  # of the servers: more than all kinds have together
LOG_BLOCKS = 3  # likewise
LOG_RATIO_MAX = 1.01  # Equal, but for entries of pages that fill up: those fall into one block or the next.
BARE = "bare_trigger"
KINDS = ("unfenced", "by_hand", "fenced", "trigger", BARE)
POOLED, LESS, SHOWN, MESSAGES = "pooled", "one_message_less", "presented", "messages"
TERM = SimpleNamespace(fence="etcd://h1,h2,h3/billing/close", token=7)
[BEGIN] = PostgresDialect().begin(Opening("", TERM.fence, TERM.token, ("", 0), 0, is_own=True))
END = PostgresDialect().end(TERM.fence, TERM.token)
_INSERT = "INSERT INTO ledger_{} (account, cents, note) VALUES ('savings', 1250, 'rent')"
_LEDGER = "(entry {} PRIMARY KEY, account text NOT NULL, cents int NOT NULL, note text)"

_BARE_ON_POSTGRES = f"""
CREATE FUNCTION bare() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE seen bigint; BEGIN
  IF pg_advisory_xact_lock_shared(42) IS NULL THEN RETURN NULL; END IF;
  SELECT highest INTO seen FROM tenure_fence.fences WHERE fence = '{TERM.fence}';
  RETURN NULL;
END $$;
CREATE TRIGGER bare BEFORE INSERT ON ledger_{BARE} FOR EACH STATEMENT EXECUTE FUNCTION bare();
"""  # noqa: S608  (names of ours)
_READ_ON_MARIADB = f"(SELECT highest FROM tenure_fence WHERE fence = '{TERM.fence}' LOCK IN SHARE MODE)"  # noqa: S608
_BARE_ON_MARIADB = f"CREATE TRIGGER bare BEFORE INSERT ON ledger_{BARE} FOR EACH ROW SET @seen = {_READ_ON_MARIADB}"

Commit = Callable[[], Awaitable[None]]


class Opened(NamedTuple):
    """What is measured on one server with so many writers, by kind, and how far the server's log has come, in bytes."""

    commits: dict[str, list[Commit]]
    logged: Callable[[], Awaitable[int]]


class Measured(NamedTuple):
    """By kind, for each block of commits: how long it took, how much processor time, and how many bytes of the server's log a commit was."""

    took_s: dict[str, list[float]]
    busy_s: dict[str, list[float]]
    log_bytes: dict[str, list[float]]


class OnPostgres:
    """asyncpg."""

    name = "PostgreSQL"
    cluster = PostgresCluster
    room = f"max_connections={CONNECTIONS_MAX}"
    kinds = (*KINDS, POOLED, LESS, SHOWN, MESSAGES)

    async def open(self, url: str, writers: int, stack: AsyncExitStack, *, is_first: bool) -> Opened:
        sink = await stack.enter_async_context(PostgresSink(url, connections_max=writers))
        pool = await stack.enter_async_context(asyncpg.create_pool(url, min_size=writers, max_size=writers))
        commits: dict[str, list[Commit]] = {kind: [] for kind in self.kinds}
        admin = await self._connection(url, stack)
        for kind in self.kinds if is_first else ():
            await admin.execute(f"CREATE TABLE ledger_{kind} {_LEDGER.format('bigserial')}")
        for kind in ("trigger", SHOWN):
            await sink.install_triggers(f"ledger_{kind}", fence=TERM.fence)
        await sink.seal(TERM.fence, Token(TERM.token))
        if is_first:
            await admin.execute(_BARE_ON_POSTGRES)
        by_kind = {"unfenced": self._plain, "trigger": self._plain, BARE: self._plain, SHOWN: self._shown}
        by_kind |= {"by_hand": self._by_hand, LESS: self._less, MESSAGES: self._messages}
        for kind, commit in by_kind.items():
            for _ in range(writers):
                connection = await self._connection(url, stack)
                if kind == "trigger":
                    await connection.execute(f"SET {setting_of(TERM.fence)} = '{TERM.token}'")
                commits[kind].append(partial(commit, connection, kind))
        commits["fenced"] = [partial(self._fenced, sink)] * writers
        commits[POOLED] = [partial(self._pooled, pool)] * writers

        async def logged() -> int:
            return int(await admin.fetchval("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"))

        return Opened(commits, logged)

    async def _connection(self, url: str, stack: AsyncExitStack) -> Any:
        connection = await asyncpg.connect(url)
        stack.push_async_callback(connection.close)
        return connection

    async def _plain(self, connection: Any, kind: str) -> None:
        async with connection.transaction():
            await connection.execute(_INSERT.format(kind))

    async def _pooled(self, pool: Any) -> None:
        async with pool.acquire() as connection:
            await self._plain(connection, POOLED)

    async def _less(self, connection: Any, kind: str) -> None:
        await connection.execute(f"BEGIN; {_INSERT.format(kind)}")
        await connection.execute("COMMIT")

    async def _messages(self, connection: Any, kind: str) -> None:
        """Say to the server what the sink says, and do nothing else that it does."""
        await connection.execute(f"{BEGIN.sql}; {_INSERT.format(kind)}")
        await connection.execute(END.sql)

    async def _shown(self, connection: Any, kind: str) -> None:
        """As users are told to: a token that is presented is gone with its transaction."""
        async with connection.transaction():
            await connection.execute(f"SELECT tenure_fence.present('{TERM.fence}', {TERM.token})")
            await connection.execute(_INSERT.format(kind))

    async def _by_hand(self, connection: Any, kind: str) -> None:
        await connection.execute("BEGIN")
        await connection.execute(_INSERT.format(kind))
        check = f"SELECT highest FROM tenure_fence.fences WHERE fence = '{TERM.fence}'"  # noqa: S608
        await connection.execute(f"SELECT pg_advisory_xact_lock_shared(42); {check}; COMMIT")

    async def _fenced(self, sink: PostgresSink) -> None:
        async with sink.transaction(TERM) as connection:
            await connection.execute(_INSERT.format("fenced"))


class OnMariaDb:
    """asyncmy."""

    name = "MariaDB"
    cluster = MariaDbCluster
    room = f"--max-connections={CONNECTIONS_MAX}"
    kinds = KINDS

    async def open(self, url: str, writers: int, stack: AsyncExitStack, *, is_first: bool) -> Opened:
        sink = await stack.enter_async_context(MySQLSink(url, connections_max=writers))
        commits: dict[str, list[Commit]] = {kind: [] for kind in KINDS}
        admin = await self._connection(url, stack)
        for kind in KINDS if is_first else ():
            await self._say(admin, f"CREATE TABLE ledger_{kind} {_LEDGER.format('int AUTO_INCREMENT')}")
        await sink.install_triggers("ledger_trigger", fence=TERM.fence)
        await sink.seal(TERM.fence, Token(TERM.token))
        if is_first:
            await self._say(admin, _BARE_ON_MARIADB)
        by_kind = {"unfenced": self._plain, "trigger": self._plain, BARE: self._plain, "by_hand": self._by_hand}
        for kind, commit in by_kind.items():
            for _ in range(writers):
                connection = await self._connection(url, stack)
                if kind == "trigger":
                    await self._say(connection, present_sql(TERM))
                commits[kind].append(partial(commit, connection, kind))
        commits["fenced"] = [partial(self._fenced, sink)] * writers

        async def logged() -> int:
            async with admin.cursor() as cursor:
                # What is cleaned up after a commit is written down, too, a while later: it is waited for.
                await cursor.execute("SET GLOBAL innodb_max_purge_lag_wait = 0")
                await cursor.execute("SHOW GLOBAL STATUS LIKE 'Innodb_lsn_current'")
                return int((await cursor.fetchone())[1])

        return Opened(commits, logged)

    async def _connection(self, url: str, stack: AsyncExitStack) -> Any:
        connection = await asyncmy.connect(**arguments_of(url))
        stack.push_async_callback(connection.ensure_closed)
        return connection

    async def _say(self, connection: Any, statement: str) -> None:
        async with connection.cursor() as cursor:
            await cursor.execute(statement)

    async def _plain(self, connection: Any, kind: str) -> None:
        await self._say(connection, _INSERT.format(kind))
        await connection.commit()

    async def _by_hand(self, connection: Any, kind: str) -> None:
        await self._say(connection, _INSERT.format(kind))
        await self._say(connection, f"BEGIN NOT ATOMIC IF {_READ_ON_MARIADB} = {TERM.token} THEN COMMIT; END IF; END")

    async def _fenced(self, sink: MySQLSink) -> None:
        async with sink.transaction(TERM) as connection:
            await self._say(connection, _INSERT.format("fenced"))


async def _block_s(writers: list[Commit]) -> float:
    """Return how long a block of commits takes, shared by these writers."""
    each = BLOCK // len(writers)

    async def write(commit: Commit) -> None:
        for _ in range(each):
            await commit()

    began = time.perf_counter()
    await asyncio.gather(*map(write, writers))
    return time.perf_counter() - began


def _server_s(pid: int) -> float:
    """Return how much processor time the server has had, in all its processes and threads that are there."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    taken_ns = 0
    for task in [task for one in (str(pid), *children) for task in Path(f"/proc/{one}/task").glob("*/schedstat")]:
        with suppress(OSError):  # It has ended.
            taken_ns += int(task.read_text(encoding="ascii").split()[0])
    return taken_ns / 1e9


async def _measured(server: OnPostgres | OnMariaDb, cluster: Cluster, writers: int) -> Measured:
    took_s: dict[str, list[float]] = {kind: [] for kind in server.kinds}
    busy_s: dict[str, list[float]] = {kind: [] for kind in server.kinds}
    log_bytes: dict[str, list[float]] = {kind: [] for kind in server.kinds}
    pid, order = cluster.nodes[0].pid, list(server.kinds)
    for opening in range(OPENINGS):
        async with AsyncExitStack() as stack:
            is_first = writers == WRITERS[0] and not opening
            commits, logged = await server.open(cluster.url, writers, stack, is_first=is_first)
            for kind in server.kinds:
                await _block_s(commits[kind])  # What is made once is not what is compared.
            for _ in range(ROUNDS):
                random.shuffle(order)
                for kind in order:
                    before_s = _server_s(pid) + time.process_time()
                    took_s[kind].append(await _block_s(commits[kind]))
                    busy_s[kind].append(time.process_time() + _server_s(pid) - before_s)
            for kind in [kind for _ in range(LOG_BLOCKS) for kind in server.kinds]:
                before = await logged()
                await _block_s(commits[kind])
                log_bytes[kind].append((await logged() - before) / BLOCK)
    return Measured(took_s, busy_s, log_bytes)


def _figures_of(server: OnPostgres | OnMariaDb, writers: int, measured: Measured) -> Figures:
    took_s, busy_s, log_bytes = ({kind: median(blocks) for kind, blocks in of.items()} for of in measured)
    what = f"{server.name}: {{}} / same commit, {writers} writers"
    yield what.format("fenced commit"), took_s["fenced"] / took_s["unfenced"], 1.10, "x", False
    yield told(what.format("a lock and a read by hand"), took_s["by_hand"] / took_s["unfenced"], "x")
    # The trigger alone: the session has presented its token, as in MySQL it does.
    yield what.format("commit with trigger"), took_s["trigger"] / took_s["unfenced"], 1.25, "x", False
    yield told(what.format("trigger that locks and reads by hand"), took_s[BARE] / took_s["unfenced"], "x")
    for kind, name in (
        ("fenced", "fenced commit"),
        ("by_hand", "a lock and a read by hand"),
        ("trigger", "commit with trigger"),
        (BARE, "trigger that locks and reads by hand"),
    ):
        yield told(what.format(f"processor time, {name}"), busy_s[kind] / busy_s["unfenced"], "x")
    if POOLED in server.kinds:
        pooled = f"{server.name}: {{}} by asyncpg's pool, {writers} writers"
        yield told(pooled.format("fenced commit / same commit"), took_s["fenced"] / took_s[POOLED], "x")
    if MESSAGES in server.kinds:
        name = "the messages of a fenced commit by hand"
        yield told(what.format(name), took_s[MESSAGES] / took_s["unfenced"], "x")
    if SHOWN in server.kinds:
        name = "commit with trigger that presents its token"
        yield told(what.format(name), took_s[SHOWN] / took_s["unfenced"], "x")
        yield told(what.format(f"processor time, {name}"), busy_s[SHOWN] / busy_s["unfenced"], "x")
    if LESS in server.kinds:
        yield told(what.format("unfenced commit with one message less"), took_s[LESS] / took_s["unfenced"], "x")
    for kind, name in (("fenced", "fenced commit"), ("trigger", "commit with trigger")):
        yield what.format(f"bytes of log, {name}"), log_bytes[kind] / log_bytes["unfenced"], LOG_RATIO_MAX, "x", False
    yield told(f"{server.name}: bytes of log, unfenced commit, {writers} writers", log_bytes["unfenced"], "B")


def figures() -> Figures:
    for server in (OnPostgres(), OnMariaDb()):
        try:
            with server.cluster(options=[server.room]) as cluster:
                for writers in WRITERS:
                    yield from _figures_of(server, writers, asyncio.run(_measured(server, cluster, writers)))
        except MissingEngine as missing:
            yield NotMeasured(f"{server.name}: every figure of fenced commits", str(missing))
