"""A follower that is cut off from its leader, while its clients still reach it.

It answers reads and pings for as long as its syncLimit lasts, and its clients see their nodes where they were. The leader
has expired their sessions by then. kazoo's Lock is held twice at that time; ours must have lapsed before the next one begins.
"""

import asyncio
import random
from collections.abc import Iterator
from functools import partial

import anyio
import pytest
from anyio import to_thread
from kazoo.client import KazooClient

import tenure
from tenure.clients.zookeeper import NotReached, Session, settings_of
from tenure.clients.zookeeper.wire import ANYBODY, create, exists
from tenure.clock import BootClock
from tenure.errors import OutcomeUnknown, StoreError, Unreachable
from tenure.model import Grant, Wait
from tenure.office.opened import OpenStore
from tenure.stores.base import Store
from tenure.stores.zookeeper import from_url
from tenure.testing.engines import Node, ZooKeeperEnsemble
from tenure.timing import Timing
from tests.etcd.etcd_faults import Candidate, now_ns
from tests.etcd.etcd_faults import until as until_so
from tests.sharing import TICK_MS
from tests.zookeeper.zookeeper_rig import (
    LIMIT_S,
    bid,
    claimed,
    move,
    operator,
    renewed,
    server_of,
    session_of,
    takes_over,
    until,
    waits,
    wins,
)

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

ROUNDS = 10
TRIES_MAX = 30  # A busy machine may cost a leader its tenure before it is cut off.
FREEZES = 3
TIMING = Timing.of(ttl=1)


@pytest.fixture(scope="module")
def isolated_ensemble() -> Iterator[ZooKeeperEnsemble]:
    # A follower keeps its clients for syncLimit ticks after it last heard of its leader: four and a half seconds.
    with ZooKeeperEnsemble(tick_ms=TICK_MS, isolated=True, options=["syncLimit=15"]) as ensemble:
        yield ensemble


@pytest.fixture
def isolated(isolated_ensemble: ZooKeeperEnsemble) -> Iterator[ZooKeeperEnsemble]:
    yield isolated_ensemble
    isolated_ensemble.mend()


class Remembering(Candidate):
    """Keeps every tenure that it had."""

    def __init__(self, store: OpenStore, name: str, ttl_s: float) -> None:
        super().__init__(store, name, ttl_s)
        self.terms: list[tenure.Tenure] = []

    async def _body(self, term: tenure.Tenure) -> None:
        self.terms.append(term)
        await super()._body(term)


async def ours(election: str, follower: Node, others: str, phase: float) -> bool:
    """Cut the server of a leader off from its peers, that much of a heartbeat after a renewal, and see who believes what.

    Return whether it led when it was cut off: on a busy machine it may have lapsed before. Then it is the same to the next.
    """
    async with (
        tenure.open_store(f"zookeeper://{follower.endpoint}") as store,
        from_url(others) as other,
        Remembering(store, election, TIMING.ttl_ns / 1e9) as ada,
    ):
        term = await ada.leads()
        answer = await claimed(other, bid(election, ttl_ns=TIMING.ttl_ns))
        believed_until = term._term.valid_until
        await until_so(lambda: term._term.valid_until > believed_until or bool(ada.left))
        await anyio.sleep(phase * TIMING.renew_every_ns / 1e9)
        led = ada.term is term and isinstance(answer, Wait)
        await to_thread.run_sync(follower.partition, "peers")
        if isinstance(answer, Wait):
            await takes_over(other, answer)
        began_at = now_ns()
        assert [one for one in ada.terms if one._term.valid_until >= began_at or one.valid] == []
        assert ada.believed_until < began_at
        return led


async def kazoos(path: str, follower: Node, others: str) -> bool:
    """Say whether both hold kazoo's lock at one instant, and the first one has no way of knowing better."""
    session_s = 5 * TICK_MS / 1000
    first = KazooClient(follower.endpoint, timeout=session_s)
    second = KazooClient(others.removeprefix("zookeeper://"), timeout=session_s)
    try:
        await to_thread.run_sync(first.start)
        await to_thread.run_sync(second.start)
        lock, rival = first.Lock(path), second.Lock(path)
        await to_thread.run_sync(lock.acquire)

        async def cut() -> bool:
            return follower.cut is not None

        await until(cut)
        await to_thread.run_sync(lambda: rival.acquire(timeout=LIMIT_S))
        return bool(lock.is_acquired and rival.is_acquired and first.connected)
    finally:
        for client in (first, second):
            await to_thread.run_sync(client.stop)
            client.close()


async def a_follower(ensemble: ZooKeeperEnsemble) -> tuple[Node, str]:
    """A server that is not the leader, and the URL of the others."""
    leader = await to_thread.run_sync(ensemble.leader)
    follower = next(node for node in ensemble.nodes if node is not leader)
    return follower, "zookeeper://" + ",".join(node.endpoint for node in ensemble.nodes if node is not follower)


async def token_of(store: Store) -> int | None:
    found = await store.read("cut-off/read")
    return None if found is None else found.token


async def trusted(session: Session) -> bool:
    """Say whether a server waits for something to tell of, and what it tells would be believed."""
    return bool(session._watchers) and session.has_run_for(3 * TICK_MS * 10**6)


async def follows_again(follower: Node) -> bool:
    """Say whether the quorum can be reached through this server. Its own word would not do: it is what is tested here."""
    try:
        async with from_url(f"zookeeper://{follower.endpoint}", timeout="1") as store:
            return isinstance(await store.claim(bid("cut-off/ready")), Grant)
    except StoreError:
        return False


@pytest.mark.timeout(600)
async def test_a_tenure_lapses_before_the_next_one_begins_where_kazoos_lock_is_held_twice(
    isolated: ZooKeeperEnsemble,
) -> None:
    led_count = held_twice_count = number = 0
    while led_count < ROUNDS:  # Each of them with a leader that led when it was cut off; others are not counted.
        number += 1
        assert number <= TRIES_MAX, f"only {led_count} of {TRIES_MAX} leaders led for long enough to be cut off"
        follower, others = await a_follower(isolated)
        phase = random.random() if number % 2 else 0.0  # anywhere between two renewals, or just after one
        async with asyncio.TaskGroup() as tasks:
            control = tasks.create_task(kazoos(f"/cut-off/kazoo-{number}", follower, others))
            led = await ours(f"cut-off/{number}", follower, others, phase)
        led_count += led
        held_twice_count += led and control.result()
        await to_thread.run_sync(follower.heal)
        await until(partial(follows_again, follower))
    assert held_twice_count > 0  # in a round that counts


async def test_a_follower_that_is_cut_off_does_not_tell_who_led_before(isolated: ZooKeeperEnsemble) -> None:
    follower, others = await a_follower(isolated)
    async with from_url(f"zookeeper://{follower.endpoint}", timeout="2") as asking, from_url(others) as store:
        before = await wins(store, bid("cut-off/read"))
        assert await token_of(asking) == before.token
        await to_thread.run_sync(follower.partition, "peers")
        await store.release(before.bid)
        await wins(store, after := bid("cut-off/read"))
        for _ in range(2):  # on the connection that there was, and on the next
            with pytest.raises((Unreachable, OutcomeUnknown)):
                await asking.read("cut-off/read")
        await to_thread.run_sync(follower.heal)
        await until(partial(follows_again, follower))
        assert (await wins(store, after)).token == await token_of(asking)


async def test_a_follower_that_is_cut_off_gives_no_session_by_which_somebody_could_see_what_is_over(
    isolated: ZooKeeperEnsemble,
) -> None:
    follower, _ = await a_follower(isolated)
    await to_thread.run_sync(follower.partition, "peers")
    session = Session(settings_of(f"zookeeper://{follower.endpoint}?timeout=1"), 1, BootClock(), patience_s=1)
    with pytest.raises(NotReached):
        await session.open()


async def test_a_new_session_sees_what_was_written_before_also_at_a_follower_that_lags_behind(
    isolated: ZooKeeperEnsemble,
) -> None:
    follower, others = await a_follower(isolated)
    async with operator(others) as writing:
        for number in range(FREEZES):
            follower.pause()
            path = f"/lags-{number}"
            await writing.ask(create(path, b"", ANYBODY))
            session = Session(settings_of(f"zookeeper://{follower.endpoint}"), 4000, BootClock(), patience_s=LIMIT_S)
            opening = asyncio.ensure_future(session.open())
            await asyncio.sleep(0)  # Its greeting lies in front of the follower as that wakes up.
            follower.resume()
            await opening
            assert (await session.ask(exists(path))).czxid > 0  # without a sync
            await session.close()


async def test_who_is_told_of_a_deletion_by_a_follower_whose_leader_then_freezes_is_granted_nothing(
    isolated: ZooKeeperEnsemble,
) -> None:
    leader = await to_thread.run_sync(isolated.leader)
    follower, others = await a_follower(isolated)
    async with from_url(f"zookeeper://{follower.endpoint}") as store, from_url(others) as other:
        for number in range(FREEZES):
            grant = await wins(other, bid(f"cut-off/told-{number}"))
            wait = await waits(store, bid(f"cut-off/told-{number}"))
            told = asyncio.create_task(store.changed(wait))
            # Else it asks the quorum, and what is tested here is what it asks in place of that.
            await until(partial(trusted, session_of(store, wait.bid)))
            await other.release(grant.bid)
            await told
            leader.pause()  # Before anything else is asked. The follower answers reads for as long as it hopes.
            with pytest.raises((Unreachable, OutcomeUnknown)):
                await store.claim(wait.bid)
            leader.resume()


async def test_a_tenure_moves_away_from_a_follower_that_is_cut_off(isolated: ZooKeeperEnsemble) -> None:
    follower, _ = await a_follower(isolated)
    async with from_url(isolated.url) as store:
        asked = bid("cut-off/moves")
        grant = await wins(store, asked)
        session = session_of(store, asked)
        await move(store, grant, follower.endpoint)
        await to_thread.run_sync(follower.partition, "peers")
        # It answers pings all the while. Only that it does not answer the renewal tells.
        with pytest.raises((Unreachable, OutcomeUnknown)):
            await store.renew(grant)
        assert await renewed(store, grant) == grant
        assert server_of(session) != follower.endpoint
