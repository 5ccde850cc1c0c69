"""Where the promise is kept: a sink accepts a write iff its token is not older than one it has seen.

Names are imported when they are first used: the rule itself (``Fence``) needs no database.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenure.sinks.base import Bound as Bound
    from tenure.sinks.base import Sink as Sink
    from tenure.sinks.base import Verify as Verify
    from tenure.sinks.consul import BoundConsul as BoundConsul
    from tenure.sinks.consul import ConsulSink as ConsulSink
    from tenure.sinks.etcd import BoundEtcd as BoundEtcd
    from tenure.sinks.etcd import EtcdSink as EtcdSink
    from tenure.sinks.fence import Fence as Fence
    from tenure.sinks.files import BlockingFiles as BlockingFiles
    from tenure.sinks.files import BoundFiles as BoundFiles
    from tenure.sinks.files import FileMark as FileMark
    from tenure.sinks.files import FileSink as FileSink
    from tenure.sinks.http import BoundHttp as BoundHttp
    from tenure.sinks.http import HttpSink as HttpSink
    from tenure.sinks.kubernetes import BoundKubernetes as BoundKubernetes
    from tenure.sinks.kubernetes import KubernetesSink as KubernetesSink
    from tenure.sinks.marks import AsyncMark as AsyncMark
    from tenure.sinks.marks import Mark as Mark
    from tenure.sinks.marks import MemoryMark as MemoryMark
    from tenure.sinks.marks import SQLiteMark as SQLiteMark
    from tenure.sinks.mysql import MySQLSink as MySQLSink
    from tenure.sinks.mysql import PyMySQLSink as PyMySQLSink
    from tenure.sinks.postgresql import AsyncPsycopgSink as AsyncPsycopgSink
    from tenure.sinks.postgresql import PostgresSink as PostgresSink
    from tenure.sinks.postgresql import PsycopgSink as PsycopgSink
    from tenure.sinks.redis import BoundRedis as BoundRedis
    from tenure.sinks.redis import RedisSink as RedisSink
    from tenure.sinks.refusals import Refusals as Refusals
    from tenure.sinks.repair import fences_of as fences_of
    from tenure.sinks.repair import lower_fence as lower_fence
    from tenure.sinks.repairing import Repair as Repair
    from tenure.sinks.s3 import BoundS3 as BoundS3
    from tenure.sinks.s3 import S3Sink as S3Sink
    from tenure.sinks.sql.on_sqlalchemy import fenced_engine as fenced_engine
    from tenure.sinks.sqlite import BoundSQLite as BoundSQLite
    from tenure.sinks.sqlite import SQLiteSink as SQLiteSink
    from tenure.sinks.sqlite import fenced_tables as fenced_tables
    from tenure.sinks.sqlite import guard as guard
    from tenure.sinks.sqlite import install_triggers as install_triggers
    from tenure.sinks.sqlite import present as present
    from tenure.sinks.sqlite import remove_triggers as remove_triggers
    from tenure.sinks.sqlite import withdraw as withdraw
    from tenure.sinks.worker import Orders as Orders
    from tenure.sinks.zookeeper import BoundZooKeeper as BoundZooKeeper
    from tenure.sinks.zookeeper import ZooKeeperSink as ZooKeeperSink

# Name → module of this package that it comes from.
EXPORTS = {
    "Bound": "base",
    "Sink": "base",
    "Verify": "base",
    "BoundConsul": "consul",
    "ConsulSink": "consul",
    "BoundEtcd": "etcd",
    "EtcdSink": "etcd",
    "Fence": "fence",
    "BlockingFiles": "files",
    "BoundFiles": "files",
    "FileMark": "files",
    "FileSink": "files",
    "BoundHttp": "http",
    "HttpSink": "http",
    "BoundKubernetes": "kubernetes",
    "KubernetesSink": "kubernetes",
    "AsyncMark": "marks",
    "Mark": "marks",
    "MemoryMark": "marks",
    "SQLiteMark": "marks",
    "MySQLSink": "mysql",
    "PyMySQLSink": "mysql",
    "AsyncPsycopgSink": "postgresql",
    "PostgresSink": "postgresql",
    "PsycopgSink": "postgresql",
    "BoundRedis": "redis",
    "RedisSink": "redis",
    "Refusals": "refusals",
    "fences_of": "repair",
    "lower_fence": "repair",
    "Repair": "repairing",
    "BoundS3": "s3",
    "S3Sink": "s3",
    "fenced_engine": "sql.on_sqlalchemy",
    "BoundSQLite": "sqlite",
    "fenced_tables": "sqlite",
    "guard": "sqlite",
    "install_triggers": "sqlite",
    "present": "sqlite",
    "remove_triggers": "sqlite",
    "SQLiteSink": "sqlite",
    "withdraw": "sqlite",
    "Orders": "worker",
    "BoundZooKeeper": "zookeeper",
    "ZooKeeperSink": "zookeeper",
}


def __getattr__(name: str) -> Any:
    home = EXPORTS.get(name)
    if home is None:
        raise AttributeError(f"module 'tenure.sinks' has no attribute {name!r}")
    value = getattr(import_module(f"tenure.sinks.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *EXPORTS})
