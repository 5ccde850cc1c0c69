"""Leases that places share: who gets which, how many are made, and what is left when the store is closed meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from tests.leaping import LeapingClock

from tenure.errors import StoreError, Unreachable
from tenure.model import Bid, Holder
from tenure.stores.consul.sessions import Place as ConsulPlace
from tenure.stores.consul.sessions import Session, Sessions
from tenure.stores.entry import entry_of
from tenure.stores.sharing.leases import Kind, SharedLease, SharedLeases, SharingPlace

if TYPE_CHECKING:
    from tenure.clients.consul.client import ConsulClient

TTL_NS = 60 * 10**9


@dataclass(slots=True, eq=False)
class Place(SharingPlace["Lease"]):
    @property
    def unsure(self) -> bool:
        return False

    def settle(self) -> None: ...


@dataclass(slots=True, eq=False)
class Lease(SharedLease[Place]):
    number: int


class Leases(SharedLeases[Place, Lease]):
    """Those of an engine that makes a lease when it is let."""

    def __init__(self, clock: LeapingClock) -> None:
        super().__init__("engine://here", clock, self._given_up)
        self.asked, self.let = asyncio.Event(), asyncio.Event()
        self.made_count = self.ended_count = self.waiting_count = self.most_waiting = 0
        self.fails = False

    @staticmethod
    async def _given_up(_: Place) -> None: ...

    def _kind_of(self, place: Place) -> Kind:
        return (place.bid.ttl_ns,)

    async def _make(self, kind: Kind, place: Place) -> Lease:  # noqa: ARG002
        sent_at = self._clock.now()
        self.waiting_count += 1
        self.most_waiting = max(self.most_waiting, self.waiting_count)
        self.asked.set()
        await self.let.wait()
        await asyncio.sleep(0)
        self.waiting_count -= 1
        if self.fails:
            raise Unreachable("engine://here", "make a lease", "no connection")
        self.made_count += 1
        return Lease(kind[0], sent_at, self.made_count)

    async def renew(self, lease: Lease, since: int) -> None: ...

    async def _settle(self, lease: Lease) -> None: ...

    async def _end(self, lease: Lease) -> None:  # noqa: ARG002
        self.ended_count += 1


def place_in(election: str, ttl_ns: int = TTL_NS) -> Place:
    return Place(Bid(election, Holder.fresh(), 1, ttl_ns))


def play(story: Callable[[Leases, LeapingClock], Awaitable[None]]) -> None:
    async def played() -> None:
        clock = LeapingClock()
        leases = Leases(clock)
        await story(leases, clock)
        await leases.close()
        assert not leases._keepers
        assert not leases._requests

    asyncio.run(played())


async def under_way(leases: Leases, elections: list[str]) -> "list[asyncio.Task[Lease]]":
    """Candidates of these elections that have all asked for a lease."""
    tasks = [asyncio.create_task(leases.take(place_in(election))) for election in elections]
    await leases.asked.wait()  # By then all have asked: a lease is made by a task that came after theirs.
    return tasks


def test_elections_that_begin_together_share_one_lease() -> None:
    async def story(leases: Leases, _: LeapingClock) -> None:
        tasks = await under_way(leases, [f"e{number}" for number in range(100)])
        leases.let.set()
        assert len(set(await asyncio.gather(*tasks))) == leases.made_count == 1

    play(story)


def test_elections_that_begin_together_share_one_failure() -> None:
    async def story(leases: Leases, _: LeapingClock) -> None:
        tasks = await under_way(leases, [f"e{number}" for number in range(100)])
        leases.fails = True
        leases.let.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(answer, StoreError) for answer in answers)
        assert leases.made_count == 0
        assert leases.most_waiting == 1

    play(story)


def test_candidates_of_one_election_have_a_lease_each_and_do_not_wait_for_one_another() -> None:
    async def story(leases: Leases, _: LeapingClock) -> None:
        tasks = await under_way(leases, ["same"] * 100)
        leases.let.set()
        assert len(set(await asyncio.gather(*tasks))) == leases.made_count == 100
        assert leases.most_waiting == 99  # All but the one that got the first were made at once.

    play(story)


def test_a_lease_that_took_long_to_be_made_is_used_and_not_made_again() -> None:
    async def story(leases: Leases, clock: LeapingClock) -> None:
        (task,) = await under_way(leases, ["a"])
        clock.ahead_ns += TTL_NS
        leases.let.set()
        await task
        assert leases.made_count == 1

    play(story)


def test_one_that_nobody_has_used_for_half_its_ttl_is_used_no_more() -> None:
    async def story(leases: Leases, clock: LeapingClock) -> None:
        leases.let.set()
        place = place_in("a")
        first = await leases.take(place)
        leases.detach(place, lingers=False)
        assert await leases.take(place) is first
        leases.detach(place, lingers=False)
        clock.ahead_ns += TTL_NS // 2
        assert await leases.take(place) is not first

    play(story)


def test_whoever_waits_for_a_lease_when_the_store_is_closed_is_told_and_the_lease_is_ended() -> None:
    async def story(leases: Leases, _: LeapingClock) -> None:
        tasks = await under_way(leases, ["a", "b", "c"])
        await leases.close()
        leases.let.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert [str(answer) for answer in answers] == [
            "engine://here: claim was not sent: the store was closed meanwhile"
        ] * 3
        assert (leases.made_count, leases.ended_count) == (1, 1)

    play(story)


def test_what_may_still_land_in_consul_is_settled_all_at_once() -> None:
    async def story() -> None:
        all_at_once = asyncio.Barrier(5)

        async def withdraw(_: ConsulPlace, __: Session) -> None:
            await asyncio.wait_for(all_at_once.wait(), 30)

        async def give_up(_: ConsulPlace) -> None: ...

        client = cast("ConsulClient", SimpleNamespace(address="consul://here"))  # Nothing is asked of it.
        sessions = Sessions(client, LeapingClock(), give_up, withdraw)
        session = Session(TTL_NS, 0, "a session")
        for number in range(5):
            bid = Bid(f"e{number}", Holder.fresh(), 1, TTL_NS)
            session.lingering[bid.election] = ConsulPlace(bid, bid.election, entry_of(bid), 0)
        await sessions._settle(session)
        assert session.lingering == {}

    asyncio.run(story())


@pytest.mark.parametrize("lingers", [False, True])
def test_a_key_of_which_something_may_land_is_given_to_nobody_on_that_lease(lingers: bool) -> None:
    async def story(leases: Leases, _: LeapingClock) -> None:
        leases.let.set()
        first, second = place_in("same"), place_in("same")
        lease = await leases.take(first)
        leases.detach(first, lingers=lingers)
        assert (await leases.take(second) is not lease) == lingers

    play(story)
