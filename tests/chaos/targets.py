"""Where a zombie writes: one class for each kind of sink, with the write that is fenced and the same without a fence.

Every write can be read afterwards, and in which order it landed (``places.py``). Nothing here is read from.
"""

import sqlite3
from contextlib import closing
from typing import Any, Protocol

import tenure
from tenure.sinks import Sink


class Target(Protocol):
    """One sink, as a candidate uses it. ``sink`` is what it seals, and is opened and closed as a context manager."""

    sink: Any

    async def write(self, term: tenure.Tenure, name: str) -> None:
        """Write the token of ``term`` for the election ``name``, in one step with the check."""

    async def write_unfenced(self, term: tenure.Tenure, name: str) -> None:
        """Write it to the same place without a check."""


class SQLiteTarget:
    """Every write is a row."""

    def __init__(self, database: str) -> None:
        from tenure.sinks import SQLiteSink

        self.database, self.sink = database, SQLiteSink(database)

    async def write(self, term: tenure.Tenure, name: str) -> None:
        await self.sink.run(term, lambda connection: self._insert(connection, term, name))

    async def write_unfenced(self, term: tenure.Tenure, name: str) -> None:
        with closing(sqlite3.connect(self.database, isolation_level=None, timeout=10)) as connection:
            self._insert(connection, term, name)

    @staticmethod
    def _insert(connection: sqlite3.Connection, term: tenure.Tenure, name: str) -> None:
        connection.execute("INSERT INTO written (election, token) VALUES (?, ?)", (name, term.token))


class EtcdTarget:
    """Every write is a key."""

    def __init__(self, url: str) -> None:
        from tenure.sinks import EtcdSink

        self.sink, self.count = EtcdSink(url), 0

    def _put(self, term: tenure.Tenure, name: str) -> Any:
        from tenure.clients.etcd.messages import Put

        self.count += 1
        return Put(f"written/{name}/{term.token}/{self.count}".encode(), str(term.token).encode())

    async def write(self, term: tenure.Tenure, name: str) -> None:
        await self.sink.bind(term).txn(success=[self._put(term, name)])

    async def write_unfenced(self, term: tenure.Tenure, name: str) -> None:
        from tenure.clients.etcd.messages import Txn

        await self.sink._client.txn(Txn((), (self._put(term, name),)), operation="write")


class ZooKeeperTarget:
    """Every write is a node."""

    def __init__(self, url: str) -> None:
        from tenure.sinks import ZooKeeperSink

        self.sink = ZooKeeperSink(url)

    async def write(self, term: tenure.Tenure, name: str) -> None:
        await self.sink.bind(term).create(f"/written-{name}/n-", str(term.token).encode(), sequential=True)

    async def write_unfenced(self, term: tenure.Tenure, name: str) -> None:
        from tenure.clients.zookeeper.wire import ANYBODY, create

        made = create(f"/written-{name}/n-", str(term.token).encode(), ANYBODY, sequential=True)
        await (await self.sink._open()).ask(made)


class ConsulTarget:
    """Every write is a key."""

    def __init__(self, url: str) -> None:
        from tenure.sinks import ConsulSink

        self.sink, self.count = ConsulSink(url), 0

    def _put(self, term: tenure.Tenure, name: str) -> Any:
        from tenure.clients.consul.messages import put

        self.count += 1
        return put(f"written/{name}/{term.token}/{self.count}", str(term.token).encode())

    async def write(self, term: tenure.Tenure, name: str) -> None:
        await self.sink.bind(term).txn([self._put(term, name)])

    async def write_unfenced(self, term: tenure.Tenure, name: str) -> None:
        await self.sink._client.txn([self._put(term, name)], operation="write")


class KubernetesTarget:
    """Every write appends its token to the list in one ConfigMap."""

    def __init__(self, url: str) -> None:
        from tenure.sinks import KubernetesSink

        self.object = "configmaps/written-{fence}"
        self.sink = KubernetesSink(url, self.object)

    async def write(self, term: tenure.Tenure, name: str) -> None:
        await self.sink.bind(term).update(self.object, lambda written: self._append(written, term, name))

    async def write_unfenced(self, term: tenure.Tenure, name: str) -> None:
        from tenure.clients.kubernetes import Conflict, NotThere

        client, path = self.sink._client, "/api/v1/namespaces/default/configmaps"
        while True:
            try:
                found = await client.get(f"{path}/unfenced-{name}", operation="write")
                self._append(found, term, name)
                await client.replace(f"{path}/unfenced-{name}", found, operation="write")
            except NotThere:
                new = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"unfenced-{name}"}}
                await client.create(path, new, operation="write")
            except Conflict:
                continue
            else:
                return

    @staticmethod
    def _append(written: dict[str, Any], term: tenure.Tenure, name: str) -> None:
        data = written.setdefault("data", {"election": name, "tokens": ""})
        data["tokens"] += f"{term.token} "


TARGETS: dict[str, Any] = {
    "sqlite": SQLiteTarget,
    "etcd": EtcdTarget,
    "zookeeper": ZooKeeperTarget,
    "consul": ConsulTarget,
    "kubernetes": KubernetesTarget,
}


def target(kind: str, place: str) -> Target:
    made: Target = TARGETS[kind](place)
    return made


def sinks_of(targets: dict[str, Target]) -> list[Sink]:
    return [each.sink for each in targets.values()]
