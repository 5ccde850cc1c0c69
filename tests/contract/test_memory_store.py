"""The model store keeps the contract: with and without a queue, on asyncio and trio, in virtual and in real time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TypeVar

import anyio
import pytest
from anyio.lowlevel import checkpoint

from tenure.clock import BootClock
from tenure.model import Bid, Ended, Grant, Holder, Wait
from tenure.stores.base import Store, Traits
from tenure.stores.memory import MemoryEngine, MemoryStore
from tenure.testing import CONTRACT, MemoryRig, Rig, check_promise, check_store
from tenure.testing.store_contract import Make

Answer = TypeVar("Answer", Grant | Wait, Grant | Ended)

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class RealTimeRig:
    """A MemoryEngine on the machine's own clock, as users of ``MemoryStore()`` have it."""

    ttl_ns = 1_500_000_000  # Half of it is what a busy machine may be late by.

    def __init__(self, engine: MemoryEngine) -> None:
        self.engine, self.clock = engine, BootClock()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Store]:
        yield MemoryStore(self.engine, self.clock)

    async def delete_record(self, election: str) -> None:
        self.engine.delete(election)

    async def restart(self) -> None:
        pass

    async def pass_time(self, ns: int) -> None:
        await self.clock.sleep_until(self.clock.now() + ns)


class SlowExpiryEngine(MemoryEngine):
    """Waits for twice the ttl before it lets go, as Consul does."""

    def claim(self, bid: Bid, now: int) -> Grant | Wait:
        return self._linger(super().claim(bid, now), now)

    def renew(self, grant: Grant, now: int) -> Grant | Ended:
        return self._linger(super().renew(grant, now), now)

    def _linger(self, answer: Answer, now: int) -> Answer:
        if isinstance(answer, Grant):
            self._records[answer.bid.election].expires_at = now + 2 * answer.bid.ttl_ns
        return answer


class SlowExpiryStore(MemoryStore):
    @property
    def traits(self) -> Traits:
        return replace(super().traits, expiry_slack_ns=MemoryRig.ttl_ns)


class PollingStore(MemoryStore):
    """Looks every tenth of a ttl, and now and then wakes for nothing."""

    async def changed(self, wait: Wait) -> None:
        for _ in range(3):
            if self._engine.may_help(wait, self._clock.now()):
                return
            await self._clock.sleep_until(self._clock.now() + wait.bid.ttl_ns // 10)


@asynccontextmanager
async def real(*, queue: bool) -> AsyncIterator[Rig]:
    yield RealTimeRig(MemoryEngine(queue=queue))


@pytest.mark.parametrize("queue", [False, True], ids=["no-queue", "queue"])
@pytest.mark.parametrize("promise", CONTRACT)
async def test_the_model_store_keeps_each_promise(promise: str, queue: bool) -> None:
    await check_promise(promise, MemoryRig.maker(queue=queue))


@pytest.mark.parametrize("queue", [False, True], ids=["no-queue", "queue"])
async def test_the_model_store_keeps_the_contract_as_a_whole(queue: bool) -> None:
    await check_store(MemoryRig.maker(queue=queue))


@pytest.mark.parametrize(
    "make",
    [
        MemoryRig.maker(SlowExpiryEngine, SlowExpiryStore),
        MemoryRig.maker(SlowExpiryEngine, SlowExpiryStore, queue=True),
        MemoryRig.maker(store=PollingStore),
    ],
    ids=["slow-expiry", "slow-expiry-queue", "polling"],
)
async def test_an_honest_store_of_another_kind_keeps_the_contract(make: Make) -> None:
    await check_store(make)


@pytest.mark.parametrize("queue", [False, True], ids=["no-queue", "queue"])
async def test_the_model_store_keeps_the_contract_in_real_time(queue: bool) -> None:
    kept: set[str] = set()

    async def keep(promise: str) -> None:
        await check_promise(promise, partial(real, queue=queue))
        kept.add(promise)

    # All at once, so that the leases of thirty-odd checks lapse at the same time.
    async with anyio.create_task_group() as tasks:
        for promise in CONTRACT:
            tasks.start_soon(keep, promise)
    assert kept == set(CONTRACT)


@pytest.mark.parametrize("queue", [False, True], ids=["no-queue", "queue"])
async def test_a_cancelled_watch_leaves_no_listener_no_sleeper_and_no_hold_on_its_place(queue: bool) -> None:
    rig = MemoryRig(MemoryEngine(queue=queue))
    async with rig.open() as store:
        leader, waiter = (Bid("e", Holder("h", 1, nonce), 1, rig.ttl_ns) for nonce in "ab")
        await store.claim(leader)
        wait = await store.claim(waiter)
        assert isinstance(wait, Wait)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(store.changed, wait)
            for _ in range(5):
                await checkpoint()
            assert rig.engine._listeners
            assert rig.clock._sleepers
            tasks.cancel_scope.cancel()
    assert not rig.engine._listeners
    assert not rig.clock._sleepers
    assert [place.watch_count for place in rig.engine._records["e"].queue] == [0] * queue
