"""Where a zombie writes: one class for each kind of sink, with the write that is fenced and the same without a fence.

Every write can be read afterwards, and in which order it landed (``places.py``). Nothing here is read from.
"""

import sqlite3
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol
from urllib.parse import urlsplit

import tenure
from tenure.sinks import Sink
from tests.chaos.more_triggers import MySQLTriggerTarget, SQLiteTriggerTarget
from tests.chaos.triggers import TriggerTarget
from tests.chaos.worker import WorkerTarget


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
        from tenure.clients.zookeeper.faults import told
        from tenure.clients.zookeeper.wire import ANYBODY, create

        made = create(f"/written-{name}/n-", str(term.token).encode(), ANYBODY, sequential=True)
        with told(self.sink.settings.address, "write"):  # After a long sleep its session is over; the next one is not.
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


class PostgresTarget:
    """Every write is a row."""

    insert = "INSERT INTO written (election, token) VALUES ($1, $2)"

    def __init__(self, url: str) -> None:
        from tenure.sinks import PostgresSink

        self.url, self.sink = url, PostgresSink(url)

    async def write(self, term: tenure.Tenure, name: str) -> None:
        async with self.sink.transaction(term) as connection:
            await connection.execute(self.insert, name, term.token)

    async def write_unfenced(self, term: tenure.Tenure, name: str) -> None:
        import asyncpg

        connection = await asyncpg.connect(self.url)
        await connection.execute(self.insert, name, term.token)
        await connection.close()


class MySQLTarget:
    """Every write is a row."""

    insert = "INSERT INTO written (election, token) VALUES (%s, %s)"

    def __init__(self, url: str) -> None:
        from tenure.sinks import MySQLSink

        self.url, self.sink = url, MySQLSink(url)

    async def write(self, term: tenure.Tenure, name: str) -> None:
        async with self.sink.transaction(term) as connection, connection.cursor() as cursor:
            await cursor.execute(self.insert, (name, term.token))

    async def write_unfenced(self, term: tenure.Tenure, name: str) -> None:
        import pymysql

        where = urlsplit(self.url)
        with closing(pymysql.connect(host=where.hostname, port=where.port, user="root", database="test")) as connection:
            connection.cursor().execute(self.insert, (name, term.token))
            connection.commit()


class RedisTarget:
    """Every write is an entry of a list."""

    def __init__(self, url: str) -> None:
        from tenure.sinks import RedisSink

        self.sink = RedisSink(url)

    async def write(self, term: tenure.Tenure, name: str) -> None:
        await self.sink.bind(term).txn([("RPUSH", f"written-{name}", str(term.token))])

    async def write_unfenced(self, term: tenure.Tenure, name: str) -> None:
        await self.sink._client.call("RPUSH", f"written-{name}", str(term.token), operation="write")


class FileTarget:
    """Every write appends to a file."""

    def __init__(self, folder: str) -> None:
        from tenure.sinks import FileSink

        self.folder, self.sink = folder, FileSink(folder)

    async def write(self, term: tenure.Tenure, name: str) -> None:
        await self.sink.bind(term).update(name, lambda written: (written or b"") + f"{term.token} ".encode())

    async def write_unfenced(self, term: tenure.Tenure, name: str) -> None:
        with (Path(self.folder) / name).open("a") as file:
            file.write(f"{term.token} ")


class S3Target:
    """Every write appends to an object."""

    def __init__(self, url: str) -> None:
        from tenure.sinks import S3Sink
        from tests.s3.conftest import connect

        self.client = connect(url)
        self.sink = S3Sink("written", client=self.client)

    async def write(self, term: tenure.Tenure, name: str) -> None:
        await self.sink.bind(term).update(name, lambda written: (written or b"") + f"{term.token} ".encode())

    async def write_unfenced(self, term: tenure.Tenure, name: str) -> None:
        from botocore.exceptions import ClientError

        # Compared and swapped, or the other's next write could take this one away before anybody has read it.
        while True:
            try:
                found = self.client.get_object(Bucket="written", Key=name)
                written, condition = found["Body"].read(), {"IfMatch": found["ETag"]}
            except self.client.exceptions.NoSuchKey:
                written, condition = b"", {"IfNoneMatch": "*"}
            body = written + f"{term.token} ".encode()
            try:
                self.client.put_object(Bucket="written", Key=name, Body=body, **condition)
            except ClientError as error:
                if error.response["Error"]["Code"] not in {"PreconditionFailed", "ConditionalRequestConflict"}:
                    raise
            else:
                return


class HttpTarget:
    """Every write is a request to a service, which has a way in that is guarded and one that is not."""

    def __init__(self, url: str) -> None:
        from tenure.sinks import HttpSink

        self.url, self.sink = url, HttpSink(url)

    async def write(self, term: tenure.Tenure, name: str) -> None:
        # Of a tenure it would first ask whether that is over, and send nothing: here it is the service that is to refuse.
        unwitting = SimpleNamespace(fence=term.fence, token=term.token)
        await self.sink.bind(unwitting).request("POST", f"/fenced/{name}/{term.token}")

    async def write_unfenced(self, term: tenure.Tenure, name: str) -> None:
        where = urlsplit(self.url)
        with closing(HTTPConnection(f"{where.hostname}:{where.port}", timeout=10)) as connection:
            connection.request("POST", f"/unfenced/{name}/{term.token}")
            connection.getresponse().read()


TARGETS: dict[str, Any] = {
    "sqlite": SQLiteTarget,
    "etcd": EtcdTarget,
    "zookeeper": ZooKeeperTarget,
    "consul": ConsulTarget,
    "kubernetes": KubernetesTarget,
    "postgresql": PostgresTarget,
    "pg-trigger": TriggerTarget,
    "mysql": MySQLTarget,
    "mysql-trigger": MySQLTriggerTarget,
    "sqlite-trigger": SQLiteTriggerTarget,
    "redis": RedisTarget,
    "files": FileTarget,
    "s3": S3Target,
    "http": HttpTarget,
    "worker": WorkerTarget,
}


def target(kind: str, place: str) -> Target:
    made: Target = TARGETS[kind](place)
    return made


def sinks_of(targets: dict[str, Target]) -> list[Sink]:
    return [each.sink for each in targets.values()]
