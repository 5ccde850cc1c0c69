"""Engines and stores that break one promise to those who wait each, and must be told which."""

import anyio
import pytest
from anyio.lowlevel import checkpoint

from tenure.clock import Clock
from tenure.model import Bid, Ended, Grant, Incumbent, Wait
from tenure.stores.memory import MemoryEngine, MemoryStore, _Record
from tenure.testing import ContractBroken, MemoryRig, check_store
from tenure.testing.store_contract import Make
from tenure.testing.waiting_contract import WAITING


class SilentRelease(MemoryEngine):
    def release(self, bid: Bid, now: int) -> None:
        listeners, self._listeners = self._listeners, {}
        super().release(bid, now)
        self._listeners = listeners


class SilentExpiry(MemoryEngine):
    def next_expiry(self, election: str, now: int) -> None:
        del election, now


class SilentDeletion(MemoryEngine):
    def delete(self, election: str) -> None:
        listeners, self._listeners = self._listeners, {}
        super().delete(election)
        self._listeners = listeners


class WaitsForAnEdge(MemoryStore):
    async def changed(self, wait: Wait) -> None:
        await self._news(wait.bid.election, self._engine.next_expiry(wait.bid.election, self._clock.now()))
        await super().changed(wait)


class Spins(MemoryStore):
    async def changed(self, wait: Wait) -> None:
        del wait
        await checkpoint()


class JumpsTheQueue(MemoryEngine):
    def _first_in_line(self, record: _Record, bid: Bid, now: int) -> bool:
        return super()._first_in_line(record, bid, now) or True


class KeepsWithdrawnPlaces(MemoryEngine):
    def release(self, bid: Bid, now: int) -> None:
        queue = self._records.setdefault(bid.election, _Record()).queue
        super().release(bid, now)
        self._records[bid.election].queue = queue


class KeepsDeadPlaces(MemoryEngine):
    def _first_in_line(self, record: _Record, bid: Bid, now: int) -> bool:
        for place in record.queue:
            place.heard_at = now
        return super()._first_in_line(record, bid, now)


class KeepsWokenPlaces(MemoryEngine):
    def watching(self, bid: Bid, change: int, now: int) -> None:
        super().watching(bid, max(0, change), now)


class ForgetsWhoWaitsBehind(MemoryEngine):
    def watching(self, bid: Bid, change: int, now: int) -> None:
        listeners, self._listeners = self._listeners, {}
        super().watching(bid, change, now)
        self._listeners = listeners


class _Slots(MemoryStore):
    """Calls in flight, by what they are for. A slot is given back after the call, but not if that was cancelled."""

    def __init__(self, engine: MemoryEngine | None = None, clock: Clock | None = None) -> None:
        super().__init__(engine, clock)
        self.taken: set[object] = set()


class WakesOnce(_Slots):
    async def changed(self, wait: Wait) -> None:
        if wait.bid in self.taken:
            await anyio.sleep_forever()
        self.taken.add(wait.bid)
        await super().changed(wait)


class ReleasesOnlyWhatItSaw(_Slots):
    async def claim(self, bid: Bid) -> Grant | Wait:
        answer = await super().claim(bid)
        await checkpoint()
        self.taken.add(bid)
        return answer

    async def release(self, bid: Bid) -> None:
        if bid in self.taken:
            await super().release(bid)


class LeaksRenewals(_Slots):
    async def renew(self, grant: Grant) -> Grant | Ended:
        if self.taken:
            return Ended(grant.bid, grant.token)
        self.taken.add("renew")
        await checkpoint()
        self.taken.clear()
        return await super().renew(grant)


class LeaksReleases(_Slots):
    async def release(self, bid: Bid) -> None:
        if not self.taken:
            self.taken.add("release")
            await checkpoint()
            self.taken.clear()
            await super().release(bid)


class LeaksReads(_Slots):
    async def read(self, election: str) -> Incumbent | None:
        if self.taken:
            return None
        self.taken.add("read")
        await checkpoint()
        self.taken.clear()
        return await super().read(election)


class LeaksWatches(_Slots):
    async def changed(self, wait: Wait) -> None:
        if self.taken:
            await anyio.sleep_forever()
        self.taken.add("changed")
        await super().changed(wait)
        self.taken.clear()


BROKEN: list[tuple[str, Make]] = [
    ("wakes-on-release", MemoryRig.maker(SilentRelease)),
    ("wakes-on-expiry", MemoryRig.maker(SilentExpiry)),
    ("wakes-on-deletion", MemoryRig.maker(SilentDeletion)),
    ("no-gap-before-the-wait", MemoryRig.maker(store=WaitsForAnEdge)),
    ("waits-without-spinning", MemoryRig.maker(store=Spins)),
    ("queue-order", MemoryRig.maker(JumpsTheQueue, queue=True)),
    ("withdrawal-lets-the-next-one-pass", MemoryRig.maker(KeepsWithdrawnPlaces, queue=True)),
    ("dead-waiter-blocks-nobody", MemoryRig.maker(KeepsDeadPlaces, queue=True)),
    ("waiter-that-dies-awake-blocks-nobody", MemoryRig.maker(KeepsWokenPlaces, queue=True)),
    ("everyone-gets-a-turn", MemoryRig.maker(store=WakesOnce)),
    ("cancelled-claim-leaves-nothing", MemoryRig.maker(store=ReleasesOnlyWhatItSaw)),
    ("cancelled-renewal-leaves-nothing", MemoryRig.maker(store=LeaksRenewals)),
    ("cancelled-release-leaves-nothing", MemoryRig.maker(store=LeaksReleases)),
    ("cancelled-read-leaves-nothing", MemoryRig.maker(store=LeaksReads)),
    ("cancelled-watch-leaves-nothing", MemoryRig.maker(store=LeaksWatches)),
]


def test_every_promise_to_those_who_wait_can_fail() -> None:
    assert {promise for promise, _ in BROKEN} == set(WAITING)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(("promise", "make"), BROKEN, ids=[promise for promise, _ in BROKEN])
def test_a_broken_store_is_told_which_promise_it_breaks(promise: str, make: Make, backend: str) -> None:
    with pytest.raises(ContractBroken) as caught:
        anyio.run(check_store, make, backend=backend)
    assert caught.value.promise == promise


def test_one_who_looked_before_the_one_ahead_died_is_not_forgotten() -> None:
    # Only on asyncio, which runs tasks in the order in which they were woken: on trio this is found every other time.
    with pytest.raises(ContractBroken, match="waiter-that-dies-awake-blocks-nobody"):
        anyio.run(check_store, MemoryRig.maker(ForgetsWhoWaitsBehind, queue=True), backend="asyncio")
