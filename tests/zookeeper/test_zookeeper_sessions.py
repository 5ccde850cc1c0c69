"""How sessions begin and end: none outlives its store, none is shorter than its ttl needs, and none is mourned for ever."""

import asyncio
import shutil
import struct
from collections.abc import Iterator
from contextlib import suppress

import anyio
import pytest
from anyio import to_thread

from tenure.clients.zookeeper import NotReached, Session, settings_of
from tenure.clients.zookeeper.asking import Asking
from tenure.clients.zookeeper.link import Link
from tenure.clients.zookeeper.wire import Kind, sync
from tenure.clock import BootClock, VirtualClock
from tenure.errors import OutcomeUnknown, StoreError, Unreachable
from tenure.model import Bid, Grant, Wait
from tenure.stores.zookeeper import ZooKeeperStore, from_url
from tenure.stores.zookeeper.leases import Lease, Place
from tenure.testing.engines import ZooKeeperEnsemble
from tests.leaping import LeapingClock
from tests.proxy import Proxy
from tests.sharing import TICK_MS
from tests.zookeeper.zookeeper_rig import (
    LIMIT_S,
    TTL_NS,
    bid,
    children_of,
    session_of,
    until,
    waits,
    wins,
)

pytestmark = pytest.mark.anyio

PING_XID = -2
CONNECTION_LOSS = -4


@pytest.fixture
def single() -> Iterator[ZooKeeperEnsemble]:
    """One server, which a test may ruin."""
    with ZooKeeperEnsemble(size=1, tick_ms=TICK_MS) as running:
        yield running


class Wire(asyncio.Transport):
    """Takes what is written, and remembers what was asked for last."""

    xid, kind = 0, 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        _, self.xid, self.kind = struct.unpack_from(">iii", data)

    def is_closing(self) -> bool:
        return False


def answer(xid: int, code: int = 0) -> bytes:
    return struct.pack(">iiqi", 16, xid, 7, code)


async def claim_again(store: ZooKeeperStore, asked: Bid) -> Grant | Wait | None:
    with suppress(Unreachable, OutcomeUnknown):
        return await store.claim(asked)
    return None


async def test_what_is_heard_counts_from_when_it_was_asked_for() -> None:
    clock = VirtualClock()
    link = Link(clock, lambda *_: None)
    link.connection_made(Wire())
    link.welcome.set_result(b"")
    clock.advance(10)
    link.ping()
    clock.advance(1000)  # The process stands still, and the answer lies in its socket.
    link.data_received(answer(PING_XID))
    assert link.heard_at == 10
    clock.advance(10)
    asked = link.send(sync("/"))
    clock.advance(1000)
    link.data_received(struct.pack(">iiqii", 20, 1, 7, 0, 0))
    assert await asked is None
    assert link.heard_at == 1020


async def test_who_takes_over_asks_the_quorum_unless_its_server_was_seen_to_run_all_the_while() -> None:
    clock, wire, tick_ns = VirtualClock(), Wire(), TICK_MS * 10**6
    lease = Lease(settings_of("zookeeper://h"), TTL_NS, TICK_MS, clock)
    link = Link(clock, lambda *_: None)
    link.connection_made(wire)
    link.welcome.set_result(b"")
    lease.session._use(link)
    place = Place(bid("x"), "", 0, node="/x/node")

    def run_for(ticks: int) -> None:
        for _ in range(2 * ticks):
            clock.advance(tick_ns // 2)
            link.ping()
            link.data_received(answer(PING_XID))

    def asked_for() -> int:
        """What is asked for when the server tells of the deletion now."""
        place.succeeds_at = lease.session.heard_at
        lease.prove_successor(place)
        kind = wire.kind
        link.data_received(answer(wire.xid, CONNECTION_LOSS))
        return kind

    run_for(ticks=2)
    assert asked_for() == Kind.MULTI  # The server may have stood still until just before there was this connection.
    run_for(ticks=1)
    assert asked_for() == Kind.SYNC
    link.ping()
    clock.advance(2 * tick_ns)  # It stands still, and is succeeded as a leader.
    link.send(sync("/"))
    link.data_received(answer(wire.xid))  # It wakes up, and this is the first thing that it finds in its sockets.
    link.data_received(answer(PING_XID))
    assert asked_for() == Kind.MULTI
    run_for(ticks=3)
    assert asked_for() == Kind.SYNC
    clock.advance(2 * tick_ns)  # It was told of the deletion, and stood still itself.
    assert asked_for() == Kind.MULTI


async def test_a_session_is_over_rather_than_shorter_than_it_began(single: ZooKeeperEnsemble) -> None:
    async with from_url(single.url) as store:
        grant = await wins(store, bid("sessions/shorter"))
        session = session_of(store, grant.bid)
        length_ms = session.timeout_ms
        single.options = ("maxSessionTimeout=800",)
        await to_thread.run_sync(single.nodes[0].stop)
        await to_thread.run_sync(single.nodes[0].start)

        async def over() -> bool:
            with suppress(StoreError):
                assert not isinstance(await store.renew(grant), Grant)
            return session.over is not None

        await until(over)
        assert session.timeout_ms == length_ms


async def test_a_store_goes_on_after_its_server_has_lost_all_data(single: ZooKeeperEnsemble) -> None:
    async with from_url(single.url) as store:
        await wins(store, bid("sessions/lost-data"))
        node = single.nodes[0]
        await to_thread.run_sync(node.stop)
        shutil.rmtree(node.folder / "data")
        await to_thread.run_sync(node.start)
        asked = bid("sessions/lost-data")

        async def granted() -> bool:
            return isinstance(await claim_again(store, asked), Grant)

        await until(granted)
        assert session_of(store, asked).over is None


async def test_a_claim_that_is_under_way_when_its_store_closes_leaves_nothing_behind(newest: ZooKeeperEnsemble) -> None:
    before = asyncio.all_tasks()
    for turn_count in range(12):
        async with from_url(newest.url) as store:
            claim = asyncio.ensure_future(store.claim(bid("sessions/under-way")))
            for _ in range(turn_count):
                await asyncio.sleep(0)
        with suppress(StoreError, asyncio.CancelledError):
            await claim
        assert asyncio.all_tasks() == before


async def test_a_session_that_is_being_opened_when_it_is_closed_is_closed(newest: ZooKeeperEnsemble) -> None:
    before = asyncio.all_tasks()
    for turn_count in range(12):
        asking = Asking(settings_of(newest.url), 1, BootClock())
        opening = asyncio.ensure_future(asking.session())
        for _ in range(turn_count):
            await asyncio.sleep(0)
        await asking.close()
        with suppress(NotReached):
            assert (await opening).over is not None
        with pytest.raises(NotReached, match="closed"):
            await asking.session()
        assert asyncio.all_tasks() == before


async def test_a_session_whose_closing_is_cancelled_is_closed(newest: ZooKeeperEnsemble) -> None:
    before = asyncio.all_tasks()
    session = Session(settings_of(newest.url), 4000, BootClock(), patience_s=5)
    await session.open()
    closing = asyncio.ensure_future(session.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])
    assert session.over is not None
    assert asyncio.all_tasks() == before


async def test_whoever_waits_for_its_turn_is_told_when_the_store_closes(newest: ZooKeeperEnsemble) -> None:
    async with from_url(newest.url) as other:
        await wins(other, bid("sessions/closing"))
        async with from_url(newest.url) as store:
            asked = bid("sessions/closing")
            waiting = asyncio.ensure_future(store.changed(await waits(store, asked)))
            while not session_of(store, asked)._watchers:  # noqa: ASYNC110
                await asyncio.sleep(0)
        await asyncio.wait([waiting], timeout=LIMIT_S)
        assert waiting.done()


async def test_whatever_was_asked_for_ends_when_the_store_closes(newest: ZooKeeperEnsemble) -> None:
    async with Proxy(newest.endpoints[0]) as proxy:
        async with from_url(f"zookeeper://{proxy.endpoint}") as store:
            warm, asked = bid("sessions/held"), bid("sessions/held")
            await wins(store, warm)
            await store.release(warm)
            proxy.hold_requests()
            claim = asyncio.ensure_future(store.claim(asked))
            await asyncio.sleep(0)
            release = asyncio.ensure_future(store.release(asked))
            await asyncio.sleep(0)
        with anyio.fail_after(LIMIT_S):
            await asyncio.wait([claim, release])
        assert isinstance(claim.exception(), StoreError)
        assert store._roster._under_way == set()


async def test_claims_that_nobody_waits_for_do_not_pile_up(newest: ZooKeeperEnsemble) -> None:
    async with Proxy(newest.endpoints[0]) as proxy, from_url(f"zookeeper://{proxy.endpoint}") as store:
        warm, asked = bid("sessions/pile"), bid("sessions/pile")
        await wins(store, warm)
        await store.release(warm)
        proxy.hold_requests()
        for _ in range(20):
            claim = asyncio.ensure_future(store.claim(asked))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            claim.cancel()
            await asyncio.wait([claim])
        assert len(store._roster._under_way) == 2  # One that was sent, and one for all who came later.


async def test_a_bid_that_is_claimed_released_and_claimed_at_once_leaves_nothing(newest: ZooKeeperEnsemble) -> None:
    async with from_url(newest.url) as store:
        await wins(store, bid("sessions/kept"))
        asked = bid("sessions/at-once")
        await asyncio.gather(store.claim(asked), store.release(asked), store.claim(asked), return_exceptions=True)
        await store.release(asked)
        assert await children_of(newest.url, "sessions/at-once") == []


async def test_many_different_ttls_one_after_another_take_few_sessions(newest: ZooKeeperEnsemble) -> None:
    async with from_url(newest.url) as store:
        for number in range(30):
            asked = bid("sessions/ttls", ttl_ns=(1000 + number) * 10**6)
            await wins(store, asked)
            await store.release(asked)
        assert len(store._roster._leases) < 30


async def test_a_session_by_which_nobody_stands_ends_after_a_while(newest: ZooKeeperEnsemble) -> None:
    clock = LeapingClock()
    async with ZooKeeperStore(settings_of(newest.url), clock=clock) as store:
        asked = bid("sessions/idle")
        await wins(store, asked)
        session = session_of(store, asked)
        await store.release(asked)
        store._roster._sweep_now()
        assert session.over is None
        clock.ahead_ns = 60 * 10**9
        store._roster._sweep_now()

        async def over() -> bool:
            return session.over is not None

        await until(over)
        assert await store.renew(await wins(store, asked)) == await wins(store, asked)
