"""The model store on the contract's rig: an example of a Rig, and a ground for engines that are broken on purpose."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from anyio.lowlevel import checkpoint

from tenure.clock import VirtualClock
from tenure.stores.base import Store
from tenure.stores.memory import MemoryEngine, MemoryStore

# A wake-up goes through a handful of tasks (the sleeper, the watch, the standby), each of which takes a turn or two of
# the event loop. More turns cost microseconds; too few only delay what the next passing of time lets happen.
_TURNS = 25


class MemoryRig:
    """A MemoryEngine in virtual time. ``engine`` is what survives a restart, so restarting has nothing to do."""

    ttl_ns = 1_000_000_000

    def __init__(self, engine: MemoryEngine, store: type[MemoryStore] = MemoryStore) -> None:
        self.engine, self.clock = engine, VirtualClock()
        self._store = store

    @classmethod
    def maker(
        cls, engine: type[MemoryEngine] = MemoryEngine, store: type[MemoryStore] = MemoryStore, *, queue: bool = False
    ) -> Callable[[], AbstractAsyncContextManager["MemoryRig"]]:
        """Return what ``check_store`` takes. Give it a subclass that is broken to see what the contract says of it."""

        @asynccontextmanager
        async def make() -> AsyncIterator[MemoryRig]:
            yield cls(engine(queue=queue), store)

        return make

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Store]:
        yield self._store(self.engine, self.clock)

    async def delete_record(self, election: str) -> None:
        self.engine.delete(election)

    async def restart(self) -> None:
        pass

    async def pass_time(self, ns: int) -> None:
        self.clock.advance(ns)
        for _ in range(_TURNS):
            await checkpoint()
