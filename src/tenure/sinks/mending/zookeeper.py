"""The fences of a ZooKeeper ensemble. Lowering is one multi, which compares the versions of the fence and of the record."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from tenure.clients.zookeeper import Code, Fault, Session, settings_of, told
from tenure.clients.zookeeper.asking import Asking
from tenure.clients.zookeeper.paths import one_name
from tenure.clients.zookeeper.wire import Request, create, delete, get_children, get_data, multi, set_data, sync
from tenure.clock import BootClock
from tenure.sinks.mending.over_keys import Found, KeyFences, Swap
from tenure.sinks.zookeeper import CAME_BETWEEN, FENCES, SESSION_MS

_ZERO: Final = b"%020d" % 0


class Mark(NamedTuple):
    """The version of a node, None if it is not there; and what is below it."""

    version: int | None
    children: tuple[str, ...]


class ZooKeeperFences(KeyFences[Session, Mark]):
    """See ``Mendable``."""

    def __init__(self, url: str, fences: str = FENCES) -> None:
        self._settings = settings_of(url)
        super().__init__(self._settings.address, self._settings.chroot + fences)
        self.repairs = f"{self.fences}-repairs"  # Beside the node of the fences, and not below it.

    @asynccontextmanager
    async def opened(self, operation: str) -> AsyncIterator[Session]:
        asking = Asking(self._settings, SESSION_MS, BootClock())
        try:
            with told(self._settings.address, operation):
                yield await asking.session()
        finally:
            await asking.close()

    def key_of(self, fence: str) -> str:
        return f"{self.fences}/{one_name(fence)}"

    async def values(self, client: Session) -> Mapping[str, bytes]:
        _, mark = await self.found(client, self.fences, "read")
        found = {name: await self.found(client, f"{self.fences}/{name}", "read") for name in mark.children}
        return {unquote(name): value for name, (value, mark) in found.items() if mark.version is not None}

    async def found(self, client: Session, key: str, operation: str) -> Found[Mark]:  # noqa: ARG002  (``opened`` knows)
        await client.ask(sync(key))
        try:
            value, stat = await client.ask(get_data(key))
            children, _ = await client.ask(get_children(key))
        except Fault as fault:
            if fault.code != Code.NO_NODE:
                raise
            return Found(b"", Mark(None, ()))
        return Found(value, Mark(stat.version, tuple(children)))

    async def swapped(self, client: Session, fence: Swap[Mark], record: Swap[Mark]) -> bool:
        acl, (version, children) = self._settings.acl, fence.found.mark
        assert version is not None, "a fence that is not there stands at 0, and cannot be lowered"
        parts: list[Request[Any]] = [set_data(fence.key, fence.value, version)]
        # Whoever writes checks the child of its own token. Below 0 there is none.
        parts += [delete(f"{fence.key}/{name}") for name in children]
        if fence.value != _ZERO:
            parts.append(create(f"{fence.key}/{fence.value.decode()}", b"", acl))
        if record.found.mark.version is None:
            parts.append(create(record.key, record.value, acl))
        else:
            parts.append(set_data(record.key, record.value, record.found.mark.version))
        try:
            await client.ask(multi(*parts))
        except Fault as fault:
            if fault.code not in CAME_BETWEEN:
                raise
            return False
        return True
