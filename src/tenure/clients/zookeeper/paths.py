"""Nodes that only lead to others."""

from typing import Final
from urllib.parse import quote

from tenure.clients.zookeeper.session import Session
from tenure.clients.zookeeper.wire import Acl, Code, Fault, create

_DEPTH_MAX: Final = 1000


def one_name(words: str) -> str:
    """Return one name of a node, whatever the words are: ZooKeeper forbids some characters, and a slash would make two of it."""
    return quote(words, safe="").replace(".", "%2E")


async def make_path(session: Session, path: str, acl: Acl) -> None:
    """Create a node that stays, and those above it, as far as they are not there."""
    missing = [path]
    while missing:
        try:
            await session.ask(create(missing[-1], b"", acl))
            missing.pop()
        except Fault as fault:
            if fault.code == Code.NODE_EXISTS:
                missing.pop()
            elif fault.code == Code.NO_NODE and len(missing) < _DEPTH_MAX:
                missing.append(missing[-1].rpartition("/")[0])
            else:
                raise
