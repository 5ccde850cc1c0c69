"""What happens to tenures when API servers, and the etcd below them, are killed, frozen and lost."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from typing import Self

import pytest

import tenure
from tenure.election import Election
from tenure.errors import Reason
from tenure.office.opened import OpenStore
from tenure.office.tenure import Tenure
from tenure.stores.kubernetes import KubernetesStore
from tenure.testing.engines import KubernetesCluster
from tests.hearing import Hearing

PATIENCE_S = 60.0
LOOK_S = 0.02
TTL_S = 8.0

pytestmark = pytest.mark.anyio


class Candidate:
    """Stands in an election, with a body that never ends, for as long as its block runs."""

    def __init__(self, store: OpenStore, name: str, ttl_s: float = TTL_S) -> None:
        self.election = Election(store, name, ttl=ttl_s)
        self._heard = Hearing(self.election)
        self.term: Tenure | None = None
        self.stopped_at = 0  # when the body was last cancelled,
        self.believed_until = 0  # and up to when it would have been in office: the term itself forgets that

    async def __aenter__(self) -> Self:
        self._heard.__enter__()
        self._task = asyncio.create_task(self.election.lead(self._body))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        self._heard.__exit__()

    async def _body(self, term: Tenure) -> None:
        self.term = term
        try:
            await asyncio.Event().wait()
        finally:
            self.term, self.stopped_at, self.believed_until = None, now_ns(), term._term.valid_until

    @property
    def left(self) -> list[Reason]:
        return [left.reason for left in self._heard.left]

    @property
    def tokens(self) -> list[int]:
        return self._heard.tokens

    async def leads(self) -> Tenure:
        await until(lambda: self.term is not None or self._task.done())
        assert self.term is not None, f"it ended: {self._task}"
        return self.term

    async def renews(self, since: int) -> None:
        """Wait for a renewal that was sent later than ``since``, and see that the tenure is still the same."""
        term = self.term
        assert term is not None
        valid_for_ns = self.election.timing.valid_for_ns
        await until(lambda: term._term.valid_until - valid_for_ns > since or bool(self.left))
        assert self.left == []
        assert self.term is term


async def stands_by(opened: OpenStore, candidate: Candidate) -> None:
    """Wait until a candidate was told that another leads, and waits for news of that."""
    store = opened.store
    assert isinstance(store, KubernetesStore)

    def waits() -> bool:
        sighting = store._seen.find(candidate.election.name)
        return sighting is not None and sighting._news is not None

    await until(waits)


async def until(holds: Callable[[], bool], within_s: float = PATIENCE_S) -> None:
    async with asyncio.timeout(within_s):
        while not holds():  # noqa: ASYNC110  (what happens in the office's thread sets no event)
            await asyncio.sleep(LOOK_S)


def now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


@pytest.fixture(scope="module")
def own() -> Iterator[KubernetesCluster]:
    """Two API servers over one etcd, for this module alone."""
    with KubernetesCluster(2) as cluster:
        yield cluster


@pytest.fixture
def broken(own: KubernetesCluster) -> Iterator[KubernetesCluster]:
    yield own
    own.mend()


@pytest.mark.parametrize("how", ["killed", "frozen"])
async def test_a_tenure_outlives_the_leader_of_the_etcd_below(broken: KubernetesCluster, how: str) -> None:
    async with tenure.open_store(broken.url) as store, Candidate(store, f"etcd-leader-{how}", ttl_s=20) as ada:
        term = await ada.leads()
        leader = await asyncio.to_thread(broken.etcd.leader)
        await asyncio.to_thread(leader.kill if how == "killed" else leader.pause)
        await ada.renews(now_ns())
        assert ada.tokens == [term.token]


async def test_standbys_ask_once_in_two_ttl_at_most_while_their_leaders_live(broken: KubernetesCluster) -> None:
    ttl_s, names = 8, [f"asking-{number}" for number in range(10)]
    async with (
        tenure.open_store(broken.url) as leading,
        tenure.open_store(broken.url) as waiting,
        AsyncExitStack() as leave,
    ):
        leaders = [await leave.enter_async_context(Candidate(leading, name, ttl_s)) for name in names]
        terms = [await leader.leads() for leader in leaders]
        began_at = now_ns()
        standbys = [await leave.enter_async_context(Candidate(waiting, name, ttl_s)) for name in names]
        for standby in standbys:
            await stands_by(waiting, standby)
        store = waiting.store
        assert isinstance(store, KubernetesStore)
        counted = store.client.request_count
        # More requests than there are standbys: one of them has asked a second time since it was told to wait. There is no
        # lower bound to how busy a machine is, and so none to how few requests there are.
        await until(lambda: store.client.request_count - counted > len(names), within_s=80)
        assert now_ns() - began_at > 4 * ttl_s * 10**9
        assert [leader.term for leader in leaders] == terms
        assert [standby.tokens for standby in standbys] == [[]] * len(names)


@pytest.mark.parametrize("fate", ["killed", "frozen"])
async def test_without_a_quorum_below_a_leader_stops_in_time_and_leads_again_with_a_larger_token(
    broken: KubernetesCluster, fate: str
) -> None:
    async with tenure.open_store(broken.url) as store, Candidate(store, f"quorum-{fate}", ttl_s=12) as ada:
        term = await ada.leads()
        timing = ada.election.timing
        for node in broken.etcd.nodes[:2]:
            await asyncio.to_thread(node.kill if fate == "killed" else node.pause)
        lost_at = now_ns()
        await until(lambda: bool(ada.left))
        # No renewal was sent and answered later, so others see the Lease end later than this one stopped believing.
        assert lost_at < ada.believed_until < lost_at + timing.ttl_ns
        assert ada.believed_until - timing.grace_ns <= ada.stopped_at < ada.believed_until
        assert ada.left in ([Reason.STORE_GONE], [Reason.LAPSED])
        assert ada.tokens == [term.token]
        await asyncio.to_thread(broken.mend)
        again = await ada.leads()
        assert again.token > term.token
        assert again.valid


async def test_a_tenure_outlives_a_restart_of_its_api_server_and_a_standby_still_hears_of_its_end(
    broken: KubernetesCluster,
) -> None:
    async with (
        tenure.open_store(broken.url) as one,
        tenure.open_store(broken.url) as two,
        Candidate(one, "restarted", ttl_s=80) as ada,
    ):
        term = await ada.leads()
        async with Candidate(two, "restarted", ttl_s=80) as bob:
            await stands_by(two, bob)
            await asyncio.to_thread(broken.nodes[0].kill)
            await asyncio.to_thread(broken.nodes[0].start)
            await asyncio.to_thread(broken.wait_until_serving, broken.nodes[:1])
            await ada.renews(now_ns())
            assert bob.tokens == []
            await ada.__aexit__()
            # The watch has come back: a standby that only counted would wait for longer than we do.
            assert (await bob.leads()).token == term.token + 1


async def test_a_frozen_api_server_costs_its_clients_the_office_and_those_of_another_take_it(
    broken: KubernetesCluster,
) -> None:
    other = f"{broken.url}&context={broken.nodes[1].name}"
    async with (
        tenure.open_store(broken.url) as one,
        tenure.open_store(other) as two,
        Candidate(one, "frozen", ttl_s=15) as ada,
    ):
        term = await ada.leads()
        async with Candidate(two, "frozen", ttl_s=15) as bob:
            await stands_by(two, bob)
            await asyncio.to_thread(broken.nodes[0].pause)
            successor = await bob.leads()
            assert successor.token == term.token + 1
            assert ada.term is None, "two led at once"
            assert ada.left[0] in (Reason.STORE_GONE, Reason.LAPSED)
            await asyncio.to_thread(broken.nodes[0].resume)
            await bob.renews(now_ns())
            assert ada.tokens == [term.token]
