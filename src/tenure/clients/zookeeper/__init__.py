"""A thin client of ZooKeeper: sessions on asyncio, with nothing to install.

``wire`` is the protocol, ``link`` one connection, ``session`` one session over many of them; ``settings`` reads a URL, and
``faults`` says what went wrong.
"""

from tenure.clients.zookeeper.faults import NotReached, SessionOver, told
from tenure.clients.zookeeper.link import LinkLost
from tenure.clients.zookeeper.session import Session
from tenure.clients.zookeeper.settings import Settings, settings_of
from tenure.clients.zookeeper.wire import Code, Event, Fault, Stat

__all__ = [
    "Code",
    "Event",
    "Fault",
    "LinkLost",
    "NotReached",
    "Session",
    "SessionOver",
    "Settings",
    "Stat",
    "settings_of",
    "told",
]
