"""Looking at the fences of a place, and lowering one that was raised by mistake.

This is for the hands of somebody who knows: whoever holds a token between the old and the new value is let in again. The
record of it, who, when and why, is written in the same step.
"""

import asyncio
import os
import re
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

from tenure.errors import ConfigError, redact
from tenure.sinks.repairing import Fences, Mendable, Repair, repair_of
from tenure.sinks.sql.extras import needed

__all__ = ["Fences", "fences_of", "lower_fence"]

_URL: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://")


class _Kind(NamedTuple):
    module: str
    name: str
    client: str = "tenure"  # what must be installed
    package: str = ""
    has_prefix: bool = False  # whether its sinks take ``fences=``


_POSTGRESQL: Final = _Kind("postgresql", "PostgresFences", "asyncpg", "tenure[postgresql]")
_MYSQL: Final = _Kind("mysql", "MySQLFences", "asyncmy", "tenure[mysql]")
_REDIS: Final = _Kind("redis", "RedisFences", has_prefix=True)
_ETCD: Final = _Kind("etcd", "EtcdFences", "hpack", "tenure[etcd]", has_prefix=True)
_ZOOKEEPER: Final = _Kind("zookeeper", "ZooKeeperFences", has_prefix=True)
_CONSUL: Final = _Kind("consul", "ConsulFences", has_prefix=True)
_KINDS: Final = {
    "postgresql": _POSTGRESQL,
    "postgres": _POSTGRESQL,
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
    "redis": _REDIS,
    "rediss": _REDIS,
    "redis+sentinel": _REDIS,
    "rediss+sentinel": _REDIS,
    "etcd": _ETCD,
    "etcds": _ETCD,
    "zookeeper": _ZOOKEEPER,
    "zookeepers": _ZOOKEEPER,
    "consul": _CONSUL,
    "consuls": _CONSUL,
    "s3": _Kind("s3", "S3Fences", "boto3", "tenure[s3]"),
}


def fences_of(target: str | os.PathLike[str], *, fences: str | None = None) -> Fences:
    """Return the fences of a place that a sink writes to, and who lowered one. Blocks.

    ``target`` is a folder (``FileSink``, ``FileMark``), the file of a SQLite database (``SQLiteSink``, ``SQLiteMark``), the URL of a
    server, such as ``postgresql://…``, as its sink has it, or ``s3://bucket/prefix/``. ``fences`` is what the sink was given by
    that name, if it was given one. Raises ConfigError if there are no fences, and StoreError if they cannot be read.
    """
    return _place_of(target, fences).look()


def lower_fence(  # noqa: PLR0913  (each has to be said, by name)
    target: str | os.PathLike[str],
    fence: str,
    *,
    was: int,
    to: int,
    why: str,
    who: str | None = None,
    fences: str | None = None,
) -> Repair:
    """Lower a fence of ``target`` (see ``fences_of``) from exactly ``was`` to ``to``, and record who did it when and why. Blocks.

    Raises ConfigError, and changes nothing, if the fence stands anywhere else; and StoreError, of which only OutcomeUnknown leaves
    open whether it was lowered. Stop whoever has a token between the two first: nothing refuses it afterwards. ``who`` is by
    default the user and the host.
    """
    repair = repair_of(fence, was=was, to=to, why=why, who=who)
    _place_of(target, fences).lower(repair)
    return repair


def _place_of(target: str | os.PathLike[str], fences: str | None) -> Mendable:
    path = os.fspath(target)
    url = _URL.match(path)
    kind = None if url is None else _KINDS.get(url["scheme"].lower())
    if fences is not None and (kind is None or not kind.has_prefix):
        raise ConfigError("fences", fences, "is for places whose sinks take it, such as redis://")
    if url is None:
        name, where = ("folder", "FolderFences") if Path(path).is_dir() else ("sqlite", "SQLiteFences")
        return _made(_Kind(name, where), path)
    if kind is None:
        known = ", ".join(f"{scheme}://" for scheme in _KINDS)
        raise ConfigError("target", redact(path), f"must be a folder, the file of a database, or one of {known}")
    if _on_a_loop():
        raise ConfigError("target", redact(path), "must be asked in a thread: await asyncio.to_thread(lower_fence, …)")
    return _made(kind, path, *([] if fences is None else [fences]))


def _made(kind: _Kind, *arguments: str) -> Mendable:
    with needed(kind.client, kind.package):
        place: Mendable = getattr(import_module(f"tenure.sinks.mending.{kind.module}"), kind.name)(*arguments)
    return place


def _on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
