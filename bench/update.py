"""What ``store.update`` costs beside raw compare-and-swap: one read and one conditional write by the same client, without a thread between.

The function runs where the user called and the store on the office's thread, so an update crosses over twice, there and back. Both
sides write the same value, and are made durable alike.
"""

import asyncio
import os
import secrets
import sqlite3
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import asyncpg
from rows import Figures, NotMeasured, told

import tenure
from tenure.clients.etcd.messages import Put, Range, Txn, modified
from tenure.clients.etcd.opening import client_of
from tenure.stores.sqlite.file import tune
from tenure.testing.engines import EtcdCluster, MissingEngine, PostgresCluster

ROUNDS, PER_ROUND = 12, 40
GOAL = 1.3
KEY = "bench"
VALUE = b"x" * 600  # as long as a small document and its trail are

Once = Callable[[], Awaitable[object]]


def grown(old: bytes | None) -> bytes:
    return b"%08d" % (int(old or b"0") + 1)


async def beside(*sides: Once) -> tuple[float, ...]:
    """Return what one of each takes: medians of single calls, in rounds that take turns, so that noise strikes all.

    In rounds and not call by call: a journal of Linux makes whoever syncs wait a little if another thread has just synced.
    """
    took_s: dict[Once, list[float]] = {once: [] for once in sides}
    for number in range(1 + ROUNDS):
        for once in sides:
            for _ in range(PER_ROUND):
                began_s = time.perf_counter()
                await once()
                if number:  # The first round is for connections, plans and trails that are not full yet.
                    took_s[once].append(time.perf_counter() - began_s)
    return tuple(median(took_s[once]) for once in sides)


async def on_sqlite(folder: Path) -> tuple[float, ...]:
    connection = sqlite3.connect(folder / "raw.db", isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    tune(connection)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE document (key TEXT PRIMARY KEY, version TEXT, value BLOB)")
    connection.execute("INSERT INTO document VALUES (?, '0', ?)", (KEY, VALUE))

    def swap() -> None:
        (version,) = connection.execute("SELECT version FROM document WHERE key = ?", (KEY,)).fetchone()
        what = (VALUE, secrets.token_hex(8), KEY, version)
        connection.execute("BEGIN IMMEDIATE")
        done = connection.execute("UPDATE document SET value = ?, version = ? WHERE key = ? AND version = ?", what)
        connection.execute("COMMIT")
        assert done.rowcount == 1

    async def raw() -> None:
        swap()

    with ThreadPoolExecutor(1) as thread:
        loop = asyncio.get_running_loop()
        async with tenure.open_store(f"sqlite://{folder}/ours.db") as store:
            return await beside(raw, lambda: store.update(KEY, grown), lambda: loop.run_in_executor(thread, swap))


async def on_etcd(url: str) -> tuple[float, ...]:
    async with client_of(url) as client, tenure.open_store(url) as store:
        key = KEY.encode()

        async def raw() -> None:
            found = (await client.range(Range(key), operation="bench")).kvs
            guard = modified(key, found[0].mod_revision if found else 0)
            assert (await client.txn(Txn((guard,), (Put(key, VALUE),), (Range(key),)), operation="bench")).succeeded

        return await beside(raw, lambda: store.update(KEY, grown))


async def on_postgresql(url: str) -> tuple[float, ...]:
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE TABLE raw (key text PRIMARY KEY, version text, value bytea)")
    await connection.execute("INSERT INTO raw VALUES ($1, '0', $2)", KEY, VALUE)
    read = await connection.prepare("SELECT version, value FROM raw WHERE key = $1")
    write = await connection.prepare(
        "UPDATE raw SET value = $2, version = $3 WHERE key = $1 AND version = $4 RETURNING version"
    )

    async def raw() -> None:
        found = await read.fetchrow(KEY)
        assert found is not None
        assert await write.fetch(KEY, VALUE, secrets.token_hex(8), found["version"])

    try:
        async with tenure.open_store(url) as store:
            return await beside(raw, lambda: store.update(KEY, grown))
    finally:
        await connection.close()


def figures() -> Figures:
    with ExitStack() as stack:
        # On a disk, where a commit is one: in memory there is nothing that a document would wait for.
        folder = stack.enter_context(TemporaryDirectory(dir=os.environ.get("TENURE_BENCH_FOLDER")))
        yield from _figures("sqlite", lambda: asyncio.run(on_sqlite(Path(folder))))
    for name, cluster, measure in (("etcd", EtcdCluster, on_etcd), ("postgresql", PostgresCluster, on_postgresql)):
        try:
            with cluster() as running:
                yield from _figures(name, lambda running=running, measure=measure: asyncio.run(measure(running.url)))  # type: ignore[misc]
        except MissingEngine as error:
            yield NotMeasured(f"update: {name}", str(error))


def _figures(name: str, measure: Callable[[], tuple[float, ...]]) -> Figures:
    raw_s, ours_s, *on_thread_s = measure()
    yield f"update: {name}, store.update / raw compare-and-swap", ours_s / raw_s, GOAL, "x", False
    for threaded_s in on_thread_s:
        note = "Raw, it keeps the event loop waiting for the disk. This is the least for a program whose loop goes on meanwhile."
        yield told(f"update: {name}, the same raw on a thread / raw compare-and-swap", threaded_s / raw_s, "x", note)
    yield told(f"update: {name}, one store.update", ours_s * 1e3, "ms")


if __name__ == "__main__":
    for row in figures():
        print(row)
