"""A follower that is cut off from its leader, while its clients still reach it.

It answers reads and pings for as long as its syncLimit lasts, and its clients see their nodes where they were. The leader
has expired their sessions by then. kazoo's Lock is held twice at that time; ours must have lapsed before the next one begins.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import anyio
import pytest
from anyio import to_thread
from kazoo.client import KazooClient

from tenure.clock import BootClock
from tenure.errors import OutcomeUnknown, StoreError, Unreachable
from tenure.model import Grant
from tenure.stores.base import Store
from tenure.stores.zookeeper import from_url
from tenure.testing.engines import Node, ZooKeeperEnsemble
from tenure.timing import Timing
from tests.sharing import TICK_MS
from tests.zookeeper.zookeeper_rig import LIMIT_S, bid, move, server_of, session_of, takes_over, until, waits, wins

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

ROUNDS = 10
TIMING = Timing.of(ttl=1)


@pytest.fixture
def isolated() -> Iterator[ZooKeeperEnsemble]:
    # A follower keeps its clients for syncLimit ticks after it last heard of its leader: three seconds.
    with ZooKeeperEnsemble(tick_ms=TICK_MS, isolated=True, options=["syncLimit=15"]) as ensemble:
        yield ensemble


class Holder:
    """Holds an office as the office does: renews by the clock and believes by the clock."""

    def __init__(self, store: Store, grant: Grant, sent_at: int) -> None:
        self.store, self.grant, self.clock = store, grant, BootClock()
        self.valid_until = TIMING.valid_until(sent_at)

    async def hold(self) -> None:
        while self.clock.now() < self.valid_until:
            sent_at = self.clock.now()
            with suppress(Unreachable, OutcomeUnknown, TimeoutError):
                async with asyncio.timeout(TIMING.attempt_timeout_ns / 1e9):
                    if await self.store.renew(self.grant) != self.grant:
                        return
                    # Judged as the machine does: an answer that comes too late revives nothing.
                    if self.clock.now() < self.valid_until:
                        self.valid_until = TIMING.valid_until(sent_at)
            await self.clock.sleep_until(min(sent_at + TIMING.renew_every_ns, self.valid_until))


async def ours(election: str, follower: Node, others: str) -> tuple[int, int]:
    """Return when the first holder stopped believing, and when the second one began to ask for what it got."""
    clock = BootClock()
    async with from_url(f"zookeeper://{follower.endpoint}") as store, from_url(others) as other:
        sent_at = clock.now()
        holder = Holder(store, await wins(store, bid(election, ttl_ns=TIMING.ttl_ns)), sent_at)
        wait = await waits(other, bid(election, ttl_ns=TIMING.ttl_ns))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(holder.hold())
            await anyio.sleep(TIMING.renew_every_ns / 1e9 * 1.5)  # So that the cut falls anywhere between renewals.
            await to_thread.run_sync(follower.partition, "peers")
            await takes_over(other, wait)
            began_at = clock.now()
    return holder.valid_until, began_at


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


async def follows_again(follower: Node) -> bool:
    """Say whether the quorum can be reached through this server. Its own word would not do: it is what is tested here."""
    try:
        async with from_url(f"zookeeper://{follower.endpoint}", timeout="1") as store:
            return isinstance(await store.claim(bid("cut-off/ready")), Grant)
    except StoreError:
        return False


async def test_a_tenure_lapses_before_the_next_one_begins_where_kazoos_lock_is_held_twice(
    isolated: ZooKeeperEnsemble,
) -> None:
    held_twice = 0
    for number in range(ROUNDS):
        leader = await to_thread.run_sync(isolated.leader)
        follower = next(node for node in isolated.nodes if node is not leader)
        others = "zookeeper://" + ",".join(node.endpoint for node in isolated.nodes if node is not follower)
        async with asyncio.TaskGroup() as tasks:
            control = tasks.create_task(kazoos(f"/cut-off/kazoo-{number}", follower, others))
            believed_until, began_at = await ours(f"cut-off/{number}", follower, others)
        held_twice += control.result()
        assert believed_until < began_at
        await to_thread.run_sync(follower.heal)
        await until(partial(follows_again, follower))
    assert held_twice > 0


async def test_a_tenure_moves_away_from_a_follower_that_is_cut_off(isolated: ZooKeeperEnsemble) -> None:
    leader = await to_thread.run_sync(isolated.leader)
    follower = next(node for node in isolated.nodes if node is not leader)
    async with from_url(isolated.url) as store:
        asked = bid("cut-off/moves", ttl_ns=3_500_000_000)
        grant = await wins(store, asked)
        session = session_of(store, asked)
        await move(store, grant, follower.endpoint)
        await to_thread.run_sync(follower.partition, "peers")
        # It answers pings all the while. Only that it does not answer the renewal tells.
        with pytest.raises((Unreachable, OutcomeUnknown)):
            await store.renew(grant)
        assert await store.renew(grant) == grant
        assert server_of(session) != follower.endpoint
