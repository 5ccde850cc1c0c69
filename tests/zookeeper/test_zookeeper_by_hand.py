"""Whatever an operator, or a process that dies, does to nodes and sessions: tenures end where they must, and only there."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress

import anyio
import pytest

from tenure.clients.zookeeper import LinkLost, NotReached, Session, SessionOver, settings_of
from tenure.clients.zookeeper.paths import make_path
from tenure.clients.zookeeper.wire import ANYBODY, CLOSE, create
from tenure.clock import BootClock
from tenure.errors import Refused
from tenure.model import Ended, Holder, Wait
from tenure.stores.zookeeper import ZooKeeperStore, from_url
from tenure.stores.zookeeper.names import name_for
from tenure.testing.engines import ZooKeeperEnsemble
from tests.leaping import LeapingClock
from tests.sharing import TICK_MS
from tests.zookeeper.zookeeper_rig import (
    TTL_NS,
    bid,
    children_of,
    delete_children,
    operator,
    session_of,
    takes_over,
    waits,
    wins,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def lenient() -> Iterator[str]:
    """The URL of one node with short ticks, and sessions of up to a minute."""
    with ZooKeeperEnsemble(1, tick_ms=TICK_MS, options=["maxSessionTimeout=60000"]) as running:
        yield f"{running.url}?tick={TICK_MS / 1000}"


async def close_by_hand(url: str, session: Session) -> None:
    """End a session of somebody else, as only who knows its password can; its owner fights for it meanwhile."""
    with anyio.fail_after(60):
        while session.over is None:
            thief = Session(settings_of(url), session.timeout_ms, BootClock(), patience_s=5)
            thief._welcome = session._welcome
            with suppress(LinkLost, SessionOver, NotReached):
                await thief.open()
                await thief.ask(CLOSE)
            await thief.close()


async def test_a_node_that_is_deleted_by_hand_ends_its_tenure(ensemble: ZooKeeperEnsemble) -> None:
    async with from_url(ensemble.url) as store, from_url(ensemble.url) as other:
        grant = await wins(store, bid("hand/deleted"))
        assert await store.renew(grant) == grant
        wait = await waits(other, bid("hand/deleted"))
        async with asyncio.TaskGroup() as tasks:
            standby = tasks.create_task(takes_over(other, wait))
            await delete_children(ensemble.url, "hand/deleted")
            assert await store.renew(grant) == Ended(grant.bid, grant.token)
        assert standby.result().token > grant.token


async def test_one_deleted_node_ends_one_tenure_of_many_on_a_session(newest: ZooKeeperEnsemble) -> None:
    async with from_url(newest.url) as store:
        grants = [await wins(store, bid(f"hand/many/{number}")) for number in range(5)]
        assert await store.renew_together(grants) == grants
        for gone in (0, 3):
            await delete_children(newest.url, f"hand/many/{gone}")
        answers = await store.renew_together(grants)
        ended = [number for number, answer in enumerate(answers) if isinstance(answer, Ended)]
        assert ended == [0, 3]


async def test_a_renewal_that_is_cancelled_hides_no_deletion_from_the_next_one(newest: ZooKeeperEnsemble) -> None:
    async with from_url(newest.url) as store:
        for turn_count in range(8):
            kept, gone = [await wins(store, bid(f"hand/cancelled/{turn_count}/{name}")) for name in ("kept", "gone")]
            await delete_children(newest.url, f"hand/cancelled/{turn_count}/gone")
            renewal = asyncio.ensure_future(store.renew_together([kept, gone]))
            for _ in range(turn_count):
                await asyncio.sleep(0)
            renewal.cancel()
            await asyncio.wait([renewal])
            assert await store.renew_together([kept, gone]) == [kept, Ended(gone.bid, gone.token)]


async def test_a_session_that_is_closed_by_hand_ends_its_tenures_and_a_new_one_gets_larger_tokens(
    ensemble: ZooKeeperEnsemble,
) -> None:
    async with from_url(ensemble.url) as store:
        asked = bid("hand/session")
        grant = await wins(store, asked)
        await close_by_hand(ensemble.url, session_of(store, asked))
        assert await store.renew(grant) == Ended(grant.bid, grant.token)
        assert (await wins(store, asked)).token > grant.token


async def test_a_connection_that_breaks_takes_no_tenure_along(ensemble: ZooKeeperEnsemble) -> None:
    async with from_url(ensemble.url) as store, from_url(ensemble.url) as other:
        asked, behind = bid("hand/broken"), bid("hand/broken")
        grant = await wins(store, asked)
        wait = await waits(other, behind)
        async with asyncio.TaskGroup() as tasks:
            standby = tasks.create_task(takes_over(other, wait))
            for held, who in ((store, asked), (other, behind)):
                session = session_of(held, who)
                assert session._link is not None
                session._link.abort("by hand")
                await session._link.ended
            assert await store.renew(grant) == grant
            assert not standby.done()
            await store.release(asked)
        assert standby.result().token > grant.token


async def test_a_tenure_that_nobody_renews_is_given_up_although_its_session_lives_on(newest: ZooKeeperEnsemble) -> None:
    async with from_url(newest.url) as store, from_url(newest.url) as other:
        kept, forgotten = await wins(store, bid("hand/kept")), await wins(store, bid("hand/forgotten"))
        assert session_of(store, kept.bid) is session_of(store, forgotten.bid)
        successor = other.changed(await waits(other, bid("hand/forgotten")))
        async with asyncio.TaskGroup() as tasks:
            woken = tasks.create_task(successor)
            with anyio.fail_after(60):
                while not woken.done():
                    assert await store.renew(kept) == kept
                    await asyncio.wait([woken], timeout=TTL_NS / 1e9 / 4)
        assert await store.renew(forgotten) == Ended(forgotten.bid, forgotten.token)
        assert await store.renew(kept) == kept


async def test_a_short_tenure_is_given_up_in_time_beside_a_long_one(lenient: str) -> None:
    async with from_url(lenient) as store, from_url(lenient) as other:
        long = await wins(store, bid("hand/long", ttl_ns=40_000_000_000))
        short = await wins(store, bid("hand/short", ttl_ns=3_000_000_000))
        assert session_of(store, long.bid) is not session_of(store, short.bid)
        wait = await waits(other, bid("hand/short"))
        await other.changed(wait)
        assert await store.renew(long) == long  # Its time is not over yet.


async def test_renewing_fifty_tenures_is_one_request(newest: ZooKeeperEnsemble) -> None:
    async with from_url(newest.url) as store:
        holder = Holder.fresh()
        # Many at once: nobody renews them meanwhile, and one after the other they may take as long as a ttl.
        bids = [bid(f"hand/one-request/{number}", holder) for number in range(50)]
        grants = await asyncio.gather(*(wins(store, asked) for asked in bids))
        assert await store.renew_together(grants) == grants  # which sets the watches
        link = session_of(store, grants[0].bid)._link
        assert link is not None
        sent_count = link._xid
        assert await store.renew_together(grants) == grants
        assert link._xid == sent_count + 1


async def test_what_is_no_candidate_is_nobody_to_wait_for(newest: ZooKeeperEnsemble) -> None:
    async with from_url(newest.url) as store, operator(newest.url) as session:
        await wins(store, bid("hand/nested/inner"))
        for name in ("zzz", "0000000000", "lock-12"):
            await session.ask(create(f"/hand/nested/{name}", b"", ANYBODY))
        grant = await wins(store, bid("hand/nested"))
        assert await store.renew(grant) == grant


@pytest.mark.parametrize("name", ["a//b", "a/../b", "zookeeper/x", "x/y-latch-0000000001", "smile/😀"])
async def test_a_name_that_no_election_can_have_is_refused_in_words(newest: ZooKeeperEnsemble, name: str) -> None:
    async with from_url(newest.url) as store:
        with pytest.raises(Refused, match=r"use another name|which no node can have|cannot be a node's"):
            await store.claim(bid(name))


async def test_who_asks_to_resign_is_heard_at_the_next_renewal(newest: ZooKeeperEnsemble) -> None:
    async with from_url(newest.url) as store, from_url(newest.url) as other:
        assert await other.ask_to_resign("hand/resign") is None
        grant = await wins(store, bid("hand/resign"))
        for renewals_before in (0, 2):  # before there is a watch on the node, and after
            for _ in range(renewals_before):
                assert await store.renew(grant) == grant
                assert not store.resign_asked(grant)
            asked = await other.ask_to_resign("hand/resign")
            assert asked is not None
            assert asked.token == grant.token
            assert await store.renew(grant) == grant
            assert store.resign_asked(grant)
            await store.release(grant.bid)
            grant = await wins(store, bid("hand/resign"))
            assert not store.resign_asked(grant)


async def test_who_says_anew_where_it_is_still_hears_that_it_was_asked_to_resign(newest: ZooKeeperEnsemble) -> None:
    async with from_url(newest.url) as store, from_url(newest.url) as other:
        grant = await wins(store, bid("hand/proclaim"))
        assert await store.renew(grant) == grant
        wait = await waits(other, bid("hand/proclaim"))
        assert await other.ask_to_resign("hand/proclaim") is not None
        assert await store.proclaim(grant, "http://new") == grant
        assert await store.renew(grant) == grant
        assert store.resign_asked(grant)
        again = await waits(other, wait.bid)
        assert again.incumbent is not None
        assert again.incumbent.advertised == "http://new"


async def test_who_came_before_the_numbers_ran_over_is_before_who_came_after(newest: ZooKeeperEnsemble) -> None:
    async with from_url(newest.url) as store, operator(newest.url) as session:
        asked = bid("hand/ran-over")
        await make_path(session, "/hand/ran-over", ANYBODY)
        theirs, own = "0f2e1c9a7d3b4f6e8a5c1b2d3e4f5a6b__lock__2147483647", f"{name_for(asked, 1 - 2**31)}-2147483647"
        await session.ask(create(f"/hand/ran-over/{theirs}", b"", ANYBODY))
        _, stat = await session.ask(create(f"/hand/ran-over/{own}", b"", ANYBODY))
        place = store._roster.enter(asked)
        place.node, place.czxid = f"/hand/ran-over/{own}", stat.czxid
        answer = await store._candidacy._judge(place, session, [own, theirs])
        assert isinstance(answer, Wait)
        assert place.before == theirs


async def test_a_bid_that_a_later_one_of_its_holder_has_overtaken_leaves_and_is_told_who_leads(
    newest: ZooKeeperEnsemble,
) -> None:
    async with from_url(newest.url) as store, operator(newest.url) as session:
        earlier = bid("hand/overtaken")
        later = bid("hand/overtaken", earlier.holder, earlier.serial + 1)
        await make_path(session, "/hand/overtaken", ANYBODY)
        own, theirs, overtaking = (
            f"{name_for(earlier, 1)}0000000001",
            "0f2e1c9a7d3b4f6e8a5c1b2d3e4f5a6b__lock__0000000002",
            f"{name_for(later, 3)}0000000003",
        )
        made = [
            await session.ask(create(f"/hand/overtaken/{name}", b"", ANYBODY)) for name in (own, theirs, overtaking)
        ]
        place = store._roster.enter(earlier)
        place.lease = await store._roster.lease_for(place)
        place.node, place.czxid = f"/hand/overtaken/{own}", made[0][1].czxid
        answer = await store._candidacy._judge(place, session, [own, theirs, overtaking])
        assert isinstance(answer, Wait)
        assert answer.incumbent is not None
        assert answer.incumbent.token == made[1][1].czxid
        assert await children_of(newest.url, "hand/overtaken") == sorted([theirs, overtaking])


async def test_elections_are_listed_with_who_leads_and_who_waits(newest: ZooKeeperEnsemble) -> None:
    async with from_url(f"{newest.url}/listing") as store, from_url(f"{newest.url}/listing") as other:
        leader, standby = bid("a/b"), bid("a/b")
        grant = await wins(store, leader)
        await waits(other, standby)
        await wins(store, bid("empty", leader.holder))
        await store.release(bid("empty", leader.holder))
        found = {status.election: status for status in await store.elections()}
        assert set(found) == {"a/b", "empty"}
        assert found["empty"].incumbent is None
        incumbent = found["a/b"].incumbent
        assert incumbent is not None
        assert (incumbent.holder, incumbent.token) == (leader.holder, grant.token)
        assert found["a/b"].standbys == (standby.holder,)
        assert len(await children_of(newest.url, "listing/a/b")) == 2


async def test_a_process_that_stood_still_says_a_word_a_tick_before_it_believes_in_an_answer(
    newest: ZooKeeperEnsemble,
) -> None:
    clock = LeapingClock()
    async with ZooKeeperStore(settings_of(newest.url), clock=clock) as store:
        grant = await wins(store, bid("hand/stood-still"))
        assert await store.renew(grant) == grant
        link = session_of(store, grant.bid)._link
        assert link is not None
        sent_count = link._xid
        clock.ahead_ns = 2 * TICK_MS * 10**6
        before = clock.now()
        assert await store.renew(grant) == grant
        assert clock.now() - before >= TICK_MS * 10**6
        assert link._xid == sent_count + 2
