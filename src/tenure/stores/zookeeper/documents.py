"""Documents in ZooKeeper: one node each, compared by its version. Read behind a ``sync``, so never from a follower's memory.

They lie below ``/.tenure-documents`` in the chroot. ZooKeeper compares versions alone, which begin at 0 again when a node is deleted and made anew.
So each document has one child, with a name that does not come back, and a write checks that it is there: what was seen of a document that
somebody has deleted by hand fits no later one.
"""

from secrets import token_hex
from typing import Final

from tenure.clients.zookeeper import Code, Fault, Session, Settings
from tenure.clients.zookeeper.paths import make_path, one_name
from tenure.clients.zookeeper.wire import check, create, get_children, get_data, multi, set_data, sync
from tenure.model import Document, Version

_DOCUMENTS: Final = "/.tenure-documents"


def _path(settings: Settings, name: str) -> str:
    return f"{settings.chroot}{_DOCUMENTS}/{one_name(name)}"


async def fetch(session: Session, settings: Settings, name: str) -> Document | None:
    """Return a document."""
    path = _path(settings, name)
    await session.linked()
    caught_up, listed = session.send(sync(path)), session.send(get_children(path))
    asked = session.send(get_data(path))  # Last: data newer than the child fit no version, and older ones might.
    await session.result(caught_up)
    try:
        children, _ = await session.result(listed)
        value, stat = await session.result(asked)
    except Fault as fault:
        if fault.code != Code.NO_NODE:
            raise
        return None
    return Document(value, _version(min(children, default=""), stat.version))


async def write(
    session: Session, settings: Settings, name: str, value: bytes, version: Version | None
) -> Version | None:
    """Write a document at this version. None: it is at another one."""
    path = _path(settings, name)
    if not session.heard_within(session.timeout_ms * 10**6):
        # It may have ended. A question finds out, and leaves nobody in doubt whether something was written.
        await session.ask(sync(path))
    try:
        if version is None:
            return await _create(session, settings, path, value)
        child, _, number = version.partition(".")
        _, stat = await session.ask(multi(check(f"{path}/{child}"), set_data(path, value, int(number))))
        return _version(child, stat.version)
    except Fault as fault:
        if fault.code not in {Code.NO_NODE, Code.NODE_EXISTS, Code.BAD_VERSION}:
            raise
        return None


async def _create(session: Session, settings: Settings, path: str, value: bytes) -> Version:
    child, acl = token_hex(8), settings.acl
    made = multi(create(path, value, acl), create(f"{path}/{child}", b"", acl))
    try:
        await session.ask(made)
    except Fault as fault:
        if fault.code != Code.NO_NODE:
            raise
        await make_path(session, f"{settings.chroot}{_DOCUMENTS}", acl)
        await session.ask(made)
    return _version(child, 0)


def _version(child: str, number: int) -> Version:
    return Version(f"{child}.{number}")
