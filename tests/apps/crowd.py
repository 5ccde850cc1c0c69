"""Members of one set of shards in one process, and who owns what."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

import tenure
from tenure.apps.shards import Shard, Shards
from tenure.office.opened import LoopStore

TTL_S = 2.0  # A shorter one ends on a busy machine, and whoever loses its seat moves its shards.
HEARTBEAT_S = TTL_S / 3


class Crowd:
    """Members of one set of shards, and who owns what. A shard that is owned twice fails the test at once."""

    def __init__(self, store: LoopStore, count: int, ttl_s: float = TTL_S) -> None:
        self.store, self.count, self.ttl_s = store, count, ttl_s
        self.owner: dict[int, str] = {}
        self.begun = 0
        self.changed = anyio.Event()
        self.tasks = anyio.create_task_group()

    def join(self, name: str, body: Callable[[Shard], Awaitable[object]] | None = None, **settings: Any) -> Shards:
        shards = Shards(self.store, "crawl", self.count, member=name, ttl=self.ttl_s, **settings)
        self.tasks.start_soon(self.run, shards, name, body)
        return shards

    async def run(
        self, shards: Shards, name: str, body: Callable[[Shard], Awaitable[object]] | None, **settings: Any
    ) -> None:
        async def own(shard: Shard) -> None:
            assert shard.number not in self.owner, "owned twice"
            self.owner[shard.number] = name
            self.begun += 1
            self.changed.set()
            try:
                await (anyio.sleep_forever() if body is None else body(shard))
            finally:
                del self.owner[shard.number]
                self.changed.set()

        await shards.run(own, **settings)

    async def until(self, condition: Callable[[], bool]) -> None:
        with anyio.fail_after(20):
            while not condition():
                self.changed = anyio.Event()
                with anyio.move_on_after(0.1):
                    await self.changed.wait()

    async def shared(self, **owned: int) -> int:
        """Wait until the shards are shared so, and return how many bodies have begun since the last time."""
        await self.until(lambda: Counter(self.owner.values()) == owned)
        begun, self.begun = self.begun, 0
        return begun

    def of(self, name: str) -> set[int]:
        return {number for number, owner in self.owner.items() if owner == name}


@asynccontextmanager
async def crowd_of(count: int, url: str = "memory://", ttl_s: float = TTL_S) -> AsyncIterator[Crowd]:
    async with tenure.open_store(url, accept_best_effort=True) as store:
        crowd = Crowd(store, count, ttl_s)
        async with crowd.tasks:
            yield crowd
            crowd.tasks.cancel_scope.cancel()


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        with anyio.fail_after(30):
            await test()

    anyio.run(bounded)
