"""Real engines as local processes, for tests, benchmarks and demos: three etcd servers in a second, gone after the block.

``with EtcdCluster() as cluster:`` starts one; ``cluster.url`` is what ``open_store`` takes. Its nodes can be killed, paused
and, with ``isolated=True``, cut off from each other and from their clients. Nothing survives the block, and nothing survives
the process that started it, however that ends.
"""

from tenure.testing.engines.binaries import Binary, MissingEngine, installed
from tenure.testing.engines.certificates import KeyPair, Tls
from tenure.testing.engines.cluster import EngineFailed, Node
from tenure.testing.engines.consul import ConsulCluster
from tenure.testing.engines.etcd import EtcdCluster
from tenure.testing.engines.kubernetes import KubernetesCluster
from tenure.testing.engines.mariadb import MariaDbCluster
from tenure.testing.engines.pgbouncer import PgBouncer
from tenure.testing.engines.postgresql import PostgresCluster
from tenure.testing.engines.redis import RedisCluster, RedisSentinels
from tenure.testing.engines.versitygw import VersityGateway
from tenure.testing.engines.zookeeper import ZooKeeperEnsemble

__all__ = [
    "Binary",
    "ConsulCluster",
    "EngineFailed",
    "EtcdCluster",
    "KeyPair",
    "KubernetesCluster",
    "MariaDbCluster",
    "MissingEngine",
    "Node",
    "PgBouncer",
    "PostgresCluster",
    "RedisCluster",
    "RedisSentinels",
    "Tls",
    "VersityGateway",
    "ZooKeeperEnsemble",
    "installed",
]
