"""A candidate for the test of zombies: leads, writes all the time, and never listens to anybody who tells it to stop.

Its writer is a task of its own, which no loss cancels: it writes under the token that it has until it is told of another,
as a leader does that was frozen between its check and its write. Every write goes to both sinks, or, with ``unfenced``,
to the same places without a fence. When the writer finds that it has slept, it says at once whether it still believes.

Speaks in lines of JSON on stdout. Ends when its stdin does.
"""

import asyncio
import json
import sqlite3
import sys
import threading
import time
from contextlib import AsyncExitStack, closing
from typing import Any

import tenure
from tenure.errors import StaleToken, StoreError, TenureError
from tenure.sinks import SQLiteSink

WRITE_EVERY_S = 0.02
SLEPT_S = 1.0


def say(**words: Any) -> None:
    print(json.dumps({**words, "at_s": time.monotonic()}), flush=True)


class Writer:
    """Writes under the last token that it was given, to the engine and to the database."""

    def __init__(self, name: str, engine: Any, database: str, fenced: bool) -> None:
        self.name, self.engine, self.database, self.fenced = name, engine, database, fenced
        self.ledger = SQLiteSink(database)
        self.term: tenure.Tenure | None = None

    async def run(self) -> None:
        before, wrote = time.monotonic(), set[tuple[int, str]]()
        while True:
            await asyncio.sleep(WRITE_EVERY_S)
            now = time.monotonic()
            slept, before = now - before > SLEPT_S, now
            term = self.term
            if term is None:
                continue
            if slept:
                say(event="woke", token=term.token, valid=term.valid)
            for sink, write in (("engine", self.to_engine), ("database", self.to_database)):
                try:
                    await write(term)
                except StaleToken:
                    say(event="refused", token=term.token, sink=sink)
                except (StoreError, TenureError) as error:
                    say(event="failed", token=term.token, sink=sink, error=str(error))
                else:
                    if slept:
                        say(event="accepted", token=term.token, sink=sink)
                    if (term.token, sink) not in wrote:
                        wrote.add((term.token, sink))
                        say(event="wrote", token=term.token, sink=sink)

    async def to_engine(self, term: tenure.Tenure) -> None:
        await self.engine.write(term, self.name, self.fenced)

    async def to_database(self, term: tenure.Tenure) -> None:
        def insert(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO written (token) VALUES (?)", (term.token,))

        if self.fenced:
            await self.ledger.run(term, insert)
        else:
            with closing(sqlite3.connect(self.database, isolation_level=None, timeout=10)) as connection:
                insert(connection)


class EtcdTarget:
    """Every write is a key, so that what was accepted, and in which order, can be read afterwards."""

    def __init__(self, url: str) -> None:
        from tenure.sinks import EtcdSink

        self.sink, self.count = EtcdSink(url), 0

    async def write(self, term: tenure.Tenure, name: str, fenced: bool) -> None:
        from tenure.clients.etcd.messages import Put, Txn

        self.count += 1
        put = Put(f"written/{name}/{term.token}/{self.count}".encode(), str(term.token).encode())
        if fenced:
            await self.sink.bind(term).txn(success=[put])
        else:
            await self.sink._client.txn(Txn((), (put,)), operation="write")


class ZooKeeperTarget:
    """The same with nodes, whose numbers are their order."""

    def __init__(self, url: str) -> None:
        from tenure.sinks import ZooKeeperSink

        self.sink = ZooKeeperSink(url)

    async def write(self, term: tenure.Tenure, name: str, fenced: bool) -> None:
        from tenure.clients.zookeeper.wire import ANYBODY, create

        path, token = f"/written-{name}/n-", str(term.token).encode()
        if fenced:
            await self.sink.bind(term).create(path, token, sequential=True)
        else:
            await (await self.sink._open()).ask(create(path, token, ANYBODY, sequential=True))


class ConsulTarget:
    """The same with keys, whose indexes are their order."""

    def __init__(self, url: str) -> None:
        from tenure.sinks import ConsulSink

        self.sink, self.count = ConsulSink(url), 0

    async def write(self, term: tenure.Tenure, name: str, fenced: bool) -> None:
        from tenure.clients.consul.messages import put

        self.count += 1
        op = put(f"written/{name}/{term.token}/{self.count}", str(term.token).encode())
        if fenced:
            await self.sink.bind(term).txn([op])
        else:
            await self.sink._client.txn([op], operation="write")


class KubernetesTarget:
    """Every write appends its token to the list in one ConfigMap, whose versions are their order."""

    def __init__(self, url: str) -> None:
        from tenure.sinks import KubernetesSink

        self.object = "configmaps/written-{fence}"
        self.sink = KubernetesSink(url, self.object)

    async def write(self, term: tenure.Tenure, name: str, fenced: bool) -> None:
        def append(written: dict[str, Any]) -> None:
            data = written.setdefault("data", {"election": name, "tokens": ""})
            data["tokens"] += f"{term.token} "

        if fenced:
            await self.sink.bind(term).update(self.object, append)
        else:
            await self._unfenced(f"unfenced-{name}", append)

    async def _unfenced(self, name: str, append: Any) -> None:
        from tenure.clients.kubernetes import Conflict, NotThere

        client, path = self.sink._client, "/api/v1/namespaces/default/configmaps"
        while True:
            try:
                found = await client.get(f"{path}/{name}", operation="write")
                append(found)
                await client.replace(f"{path}/{name}", found, operation="write")
            except NotThere:
                new = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
                await client.create(path, new, operation="write")
            except Conflict:
                continue
            else:
                return


TARGETS: dict[str, type[EtcdTarget] | type[ZooKeeperTarget] | type[ConsulTarget] | type[KubernetesTarget]] = {
    "etcd": EtcdTarget,
    "zookeeper": ZooKeeperTarget,
    "consul": ConsulTarget,
    "kubernetes": KubernetesTarget,
}


async def main(url: str, name: str, database: str, fenced: bool) -> None:
    target = TARGETS[url.partition(":")[0]](url)
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def until_stdin_ends() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(done.set)

    threading.Thread(target=until_stdin_ends, daemon=True).start()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(target.sink)
        writer = Writer(name, target, database, fenced)
        stack.enter_context(writer.ledger)
        store = await stack.enter_async_context(tenure.open_store(url))

        async def body(term: tenure.Tenure) -> None:
            writer.term = term
            say(event="leads", token=term.token)
            try:
                await asyncio.Event().wait()
            finally:
                say(event="ended", token=term.token)

        sinks = [target.sink, writer.ledger] if fenced else []
        lead = asyncio.create_task(tenure.Election(store, name, ttl=4).lead(body, sinks=sinks))
        write = asyncio.create_task(writer.run())
        await done.wait()
        for task in (lead, write):
            task.cancel()
        await asyncio.gather(lead, write, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], fenced=sys.argv[4] == "fenced"))
