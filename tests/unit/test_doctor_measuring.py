"""What every engine is examined by alike: trouble is a finding, and nothing is left behind."""

import asyncio
import re
from collections.abc import Awaitable

import pytest

from tenure.errors import OutcomeUnknown, Refused, StoreError, Unreachable
from tenure.model import Bid, Ended, Grant, Incumbent, Wait
from tenure.stores.base import Traits
from tenure.stores.examining import Finding, Level, bad, good
from tenure.stores.measuring import median_ns, part, trial_name, try_election
from tenure.stores.memory import MemoryStore

TTL_NS = 8 * 10**9


class Troubled:
    """A store that fails in some of its operations, the first few times that each is asked for."""

    def __init__(self, errors: dict[str, StoreError], times: int = 100) -> None:
        self._store, self._errors, self._left = MemoryStore(), errors, dict.fromkeys(errors, times)
        self.loses = False
        self.held: set[str] = set()

    @property
    def traits(self) -> Traits:
        return self._store.traits

    @property
    def address(self) -> str:
        return self._store.address

    @property
    def identity(self) -> str:
        return self._store.identity

    async def claim(self, bid: Bid) -> Grant | Wait:
        self._fail("claim")
        self.held.add(bid.election)
        return await self._store.claim(bid)

    async def renew(self, grant: Grant) -> Grant | Ended:
        self._fail("renew")
        return Ended(grant.bid, grant.token) if self.loses else await self._store.renew(grant)

    async def release(self, bid: Bid) -> None:
        self.held.discard(bid.election)
        await self._store.release(bid)

    async def changed(self, wait: Wait) -> None:
        await self._store.changed(wait)

    async def read(self, election: str) -> Incumbent | None:
        self._fail("read")
        return await self._store.read(election)

    def _fail(self, operation: str) -> None:
        if self._left.get(operation, 0) > 0:
            self._left[operation] -= 1
            raise self._errors[operation]


def tried(store: Troubled) -> list[Finding]:
    return asyncio.run(try_election(store, trial_name(), TTL_NS))


def test_an_election_is_held_and_left() -> None:
    store = Troubled({})
    found = tried(store)
    assert [(finding.level, finding.subject) for finding in found] == [
        (Level.GOOD, "latency"),
        (Level.GOOD, "latency"),
        (Level.GOOD, "office"),
    ]
    assert re.fullmatch(r"claimed and released in \d+\.\d ms, with token 1", found[-1].detail)
    assert store.held == set()


def test_what_is_not_permitted_is_told_with_where_else_it_may_be() -> None:
    latency, office = tried(Troubled({"claim": Refused("memory://", "claim", "permission denied")}))
    assert latency.level is Level.GOOD
    assert (office.level, office.detail) == (Level.BAD, "claim was refused: permission denied")
    assert "put what they begin with into the URL" in office.advice


def test_a_lease_that_the_store_does_not_give_is_not_asked_for() -> None:
    store = Troubled({"claim": Refused("memory://", "claim", "nobody should ask")})
    *_, lease = asyncio.run(try_election(store, trial_name(), store.traits.ttl_max_ns + 1))
    assert (lease.level, lease.subject) == (Level.BAD, "lease")


@pytest.mark.parametrize(
    "error", [Unreachable("memory://", "read", "gone"), OutcomeUnknown("memory://", "read", "gone")]
)
def test_an_engine_that_decides_nothing_is_told_apart_from_one_that_refuses(error: StoreError) -> None:
    (quorum,) = tried(Troubled({"read": error}))
    assert (quorum.level, quorum.subject, quorum.detail) == (Level.BAD, "quorum", "nothing is decided: gone")


def test_an_engine_that_is_between_two_leaders_is_asked_again() -> None:
    found = tried(Troubled({"read": OutcomeUnknown("memory://", "read", "leader changed")}, times=2))
    assert [finding.level for finding in found] == [Level.GOOD] * 3


def test_an_office_that_is_lost_at_once_is_bad() -> None:
    store = Troubled({})
    store.loses = True
    assert (tried(store)[-1].level, tried(store)[-1].subject) == (Level.BAD, "office")


def test_trials_never_meet() -> None:
    assert len({trial_name() for _ in range(100)}) == 100


def test_a_part_that_fails_is_a_finding_without_the_name_of_the_store() -> None:
    async def refused() -> list[Finding]:
        raise Refused("etcd://h1", "list alarms", "permission denied")

    async def fine() -> list[Finding]:
        return [good("alarms", "none")]

    def found_by(examination: Awaitable[list[Finding]]) -> list[Finding]:
        async def examined() -> list[Finding]:
            return await part("alarms", examination)

        return asyncio.run(examined())

    assert found_by(refused()) == [bad("alarms", "list alarms was refused: permission denied")]
    assert found_by(fine()) == [good("alarms", "none")]


def test_a_request_is_measured_five_times_after_one_that_may_find_a_cold_connection() -> None:
    asked: list[str] = []

    async def request() -> None:
        asked.append("once more")

    assert asyncio.run(median_ns(request)) > 0
    assert len(asked) == 1 + 5
