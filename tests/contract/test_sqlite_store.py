"""The SQLite store keeps the contract: in virtual time, in real time, and across reboots of its machine."""

import os
import secrets
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import pytest
from anyio.lowlevel import checkpoint

from tenure.clock import BootClock, Clock, VirtualClock
from tenure.errors import Unreachable
from tenure.model import Bid, Holder, Wait
from tenure.stores.base import Store
from tenure.stores.sqlite import Host, SQLiteStore
from tenure.testing import CONTRACT, Rig, check_promise

pytestmark = pytest.mark.anyio

# What a wake-up goes through: the look, the event loop, the claim of who was woken, and its answer. Twice, because
# one who takes office and leaves it wakes the next one.
_ROUNDS = 4
_BARRIER = Wait(Bid("barrier", Holder("h", 1, "n"), 1, 10**9), None)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class SQLiteRig:
    """One file in real time."""

    ttl_ns = 3_000_000_000  # A third of it is what a busy machine, and its disk, may be late by.

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path, self.clock = path, clock
        self.stores: list[SQLiteStore] = []
        self.host = Host("first-boot", "time")

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Store]:
        async with SQLiteStore(self.path, clock=self.clock, host=lambda: self.host) as store:
            self.stores.append(store)
            try:
                yield store
            finally:
                self.stores.remove(store)

    async def delete_record(self, election: str) -> None:
        with closing(sqlite3.connect(self.path, timeout=10, isolation_level=None)) as connection:
            connection.execute("DELETE FROM office WHERE election = ?", (election,))

    async def restart(self) -> None:
        """The engine is the file and the machine, so this is a reboot, after which everyone has to connect again."""
        self.host = Host(secrets.token_hex(4), "time")
        for store in self.stores:
            store._desk.close()
            store._looking_desk.close()

    async def pass_time(self, ns: int) -> None:
        assert isinstance(self.clock, BootClock)
        await self.clock.sleep_until(self.clock.now() + ns)


class VirtualRig(SQLiteRig):
    """The same in virtual time: what passes really is only what the threads need to notice it."""

    async def pass_time(self, ns: int) -> None:
        assert isinstance(self.clock, VirtualClock)
        self.clock.advance(ns)
        for _ in range(_ROUNDS):
            for store in tuple(self.stores):
                with suppress(Unreachable):  # It may be closed meanwhile: then there is nothing to wait for.
                    await store.changed(_BARRIER)  # Nobody ever claims it, so it ends with the look that begins now.
                    await store.read("barrier")  # Comes back after whatever was sent before it.
            for _ in range(5):
                await checkpoint()


Maker = Callable[[], AbstractAsyncContextManager[Rig]]


@pytest.fixture
def virtual(tmp_path: Path) -> Maker:
    @asynccontextmanager
    async def make() -> AsyncIterator[Rig]:
        yield VirtualRig(tmp_path / "elections.db", VirtualClock(10**9))

    return make


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Maker]:
    # In memory if there is such a folder: a disk that many share stalls for seconds, and then leases lapse by right.
    memory = Path("/dev/shm")  # noqa: S108
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as folder:

        @asynccontextmanager
        async def make() -> AsyncIterator[Rig]:
            yield SQLiteRig(Path(folder, f"{secrets.token_hex(4)}.db"), BootClock())

        yield make


@pytest.mark.parametrize("promise", CONTRACT)
async def test_the_sqlite_store_keeps_each_promise(promise: str, virtual: Maker) -> None:
    await check_promise(promise, virtual)


@pytest.mark.parametrize("part", range(3))
async def test_the_sqlite_store_keeps_the_contract_in_real_time(part: int, real: Maker) -> None:
    promises, kept = list(CONTRACT)[part::3], set[str]()

    async def keep(promise: str) -> None:
        await check_promise(promise, real)
        kept.add(promise)

    # A dozen at once: most of the time goes into leases that lapse, and two cores can run two dozen stores.
    async with anyio.create_task_group() as tasks:
        for promise in promises:
            tasks.start_soon(keep, promise)
    assert kept == set(promises)
