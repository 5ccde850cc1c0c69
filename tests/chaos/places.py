"""The engines that zombies contend in and write to, and what can be read there afterwards, with tools that are not ours."""

import json
import sqlite3
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from operator import itemgetter
from pathlib import Path

from kazoo.client import KazooClient

from tenure.testing.engines import (
    ConsulCluster,
    EtcdCluster,
    KubernetesCluster,
    MariaDbCluster,
    PostgresCluster,
    RedisCluster,
    RedisSentinels,
    ZooKeeperEnsemble,
)
from tests.chaos.outside import files, http, objects
from tests.chaos.place import Place
from tests.chaos.worker import worker
from tests.processes import is_locked

_ROWS = "SELECT token FROM written WHERE election = '{}' ORDER BY entry"


class InSQLite:
    def __init__(self, folder: Path) -> None:
        self.database, self.elections = folder / "written.db", folder / "elections.db"
        self.store, self.target = f"sqlite://{self.elections}", str(self.database)
        with closing(sqlite3.connect(self.database, isolation_level=None)) as connection:
            connection.execute(
                "CREATE TABLE written (entry INTEGER PRIMARY KEY AUTOINCREMENT, election, token INTEGER)"
            )

    def prepare(self, election: str) -> None:
        pass

    def blocked(self) -> bool:
        return is_locked(self.database) or is_locked(self.elections)

    def written(self, election: str) -> list[int]:
        with closing(sqlite3.connect(self.database)) as connection:
            rows = connection.execute("SELECT token FROM written WHERE election = ? ORDER BY entry", [election])
            return [token for (token,) in rows]


class InEtcd:
    def __init__(self, cluster: EtcdCluster) -> None:
        self.cluster, self.store, self.target = cluster, cluster.url, cluster.url

    def prepare(self, election: str) -> None:
        pass

    def blocked(self) -> bool:
        return False

    def written(self, election: str) -> list[int]:
        query = ["get", "--prefix", f"written/{election}/", "--sort-by=CREATE", "--order=ASCEND", "--print-value-only"]
        return [int(line) for line in self.cluster.ctl(*query).split()]


class InZooKeeper:
    def __init__(self, ensemble: ZooKeeperEnsemble, client: KazooClient) -> None:
        self.store, self.target, self.client = ensemble.url, ensemble.url, client

    def prepare(self, election: str) -> None:
        self.client.create(f"/written-{election}")

    def blocked(self) -> bool:
        return False

    def written(self, election: str) -> list[int]:
        path = f"/written-{election}"
        return [int(self.client.get(f"{path}/{name}")[0]) for name in sorted(self.client.get_children(path))]


class InConsul:
    def __init__(self, cluster: ConsulCluster) -> None:
        self.cluster, self.store, self.target = cluster, cluster.url, cluster.url

    def prepare(self, election: str) -> None:
        pass

    def blocked(self) -> bool:
        return False

    def written(self, election: str) -> list[int]:
        pairs = json.loads(self.cluster.api("GET", f"/v1/kv/written/{election}/?recurse&consistent"))
        return [int(b64decode(pair["Value"])) for pair in sorted(pairs, key=itemgetter("ModifyIndex"))]


class InKubernetes:
    def __init__(self, cluster: KubernetesCluster) -> None:
        self.cluster, self.store, self.target = cluster, cluster.url, cluster.url

    def prepare(self, election: str) -> None:
        pass

    def blocked(self) -> bool:
        return False

    def written(self, election: str) -> list[int]:
        objects = json.loads(self.cluster.kubectl("get", "configmaps", "--output=json"))["items"]
        (data,) = (one["data"] for one in objects if one.get("data", {}).get("election") == election)
        return [int(token) for token in data["tokens"].split()]


class InPostgres:
    def __init__(self, cluster: PostgresCluster) -> None:
        self.cluster, self.store, self.target = cluster, cluster.url, cluster.url
        cluster.sql("CREATE TABLE written (entry bigserial PRIMARY KEY, election text, token bigint)")

    def prepare(self, election: str) -> None:
        pass

    def blocked(self) -> bool:
        return False

    def written(self, election: str) -> list[int]:
        rows = self.cluster.sql(_ROWS.format(election))
        return [int(row) for row in rows.split()]


class InMariaDb:
    def __init__(self, cluster: MariaDbCluster) -> None:
        self.cluster, self.store, self.target = cluster, cluster.url, cluster.url
        made = "CREATE TABLE written (entry bigint AUTO_INCREMENT PRIMARY KEY, election text, token bigint)"
        cluster.sql(made, database="test")

    def prepare(self, election: str) -> None:
        pass

    def blocked(self) -> bool:
        return False

    def written(self, election: str) -> list[int]:
        return [int(row) for row in self.cluster.sql(_ROWS.format(election), database="test").split()]


class InRedis:
    def __init__(self, cluster: RedisCluster, store: str = "") -> None:
        self.cluster, self.store = cluster, store or cluster.url
        self.target = "" if store or cluster.independent else cluster.url

    def prepare(self, election: str) -> None:
        pass

    def blocked(self) -> bool:
        return False

    def written(self, election: str) -> list[int]:
        return [int(line) for line in self.cluster.ctl("LRANGE", f"written-{election}", "0", "-1").split()]


@contextmanager
def sqlite(folder: Path, _: int) -> Iterator[InSQLite]:
    yield InSQLite(folder)


@contextmanager
def etcd(_: Path, size: int) -> Iterator[InEtcd]:
    with EtcdCluster(size) as cluster:
        yield InEtcd(cluster)


@contextmanager
def zookeeper(_: Path, size: int) -> Iterator[InZooKeeper]:
    with ZooKeeperEnsemble(size, tick_ms=500) as ensemble:  # With 200 a busy machine costs it its leader.
        client = KazooClient(",".join(ensemble.endpoints))
        client.start()
        try:
            yield InZooKeeper(ensemble, client)
        finally:
            client.stop()
            client.close()


@contextmanager
def consul(_: Path, size: int) -> Iterator[InConsul]:
    with ConsulCluster(size, session_ttl_min_s=1) as cluster:
        yield InConsul(cluster)


@contextmanager
def kubernetes(_: Path, size: int) -> Iterator[InKubernetes]:
    with KubernetesCluster(etcd_size=size) as cluster:
        yield InKubernetes(cluster)


@contextmanager
def postgresql(_: Path, __: int) -> Iterator[InPostgres]:
    with PostgresCluster() as cluster:
        yield InPostgres(cluster)


@contextmanager
def mysql(_: Path, __: int) -> Iterator[InMariaDb]:
    with MariaDbCluster() as cluster:
        yield InMariaDb(cluster)


@contextmanager
def redis(_: Path, __: int) -> Iterator[InRedis]:
    with RedisCluster() as cluster:
        yield InRedis(cluster)


@contextmanager
def sentinel(_: Path, __: int) -> Iterator[InRedis]:
    with RedisCluster() as cluster, RedisSentinels(cluster, 1) as sentinels:
        yield InRedis(cluster, sentinels.url)


@contextmanager
def redlock(_: Path, __: int) -> Iterator[InRedis]:
    with RedisCluster(5, independent=True) as cluster:
        yield InRedis(cluster)


# How each is started: in a folder, with so many nodes.
PLACES: dict[str, Callable[[Path, int], AbstractContextManager[Place]]] = {
    "sqlite": sqlite,
    "etcd": etcd,
    "zookeeper": zookeeper,
    "consul": consul,
    "kubernetes": kubernetes,
    "postgresql": postgresql,
    "mysql": mysql,
    "redis": redis,
    "sentinel": sentinel,
    "redlock": redlock,
    "files": files,
    "s3": objects,
    "http": http,
    "worker": worker,
}
STORES = [kind for kind in PLACES if kind not in {"files", "s3", "http", "worker"}]
