"""Elections without their connection, or without a quorum: a tenure goes on while it is valid, and then lapses by its own clock."""

import asyncio
import socket
from collections.abc import Iterator

import pytest

import tenure
from tenure.errors import OutcomeUnknown, Reason, Unreachable
from tenure.office.opened import OpenStore
from tenure.stores.zookeeper import ZooKeeperStore, from_url
from tenure.testing.engines import ZooKeeperEnsemble
from tests.etcd.etcd_faults import TTL_S, Candidate, now_ns, play, until, until_so
from tests.proxy import Proxy
from tests.sharing import TICK_MS
from tests.zookeeper.zookeeper_rig import bid, children_of, takes_over, waits

# Far longer than a quorum is lost for, also on a busy machine.
LONG_TTL_S = 30.0
LAPSED = ([Reason.STORE_GONE], [Reason.LAPSED])


@pytest.fixture
def nobody() -> Iterator[str]:
    """The endpoint of a server that takes connections, and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        yield f"127.0.0.1:{silent.getsockname()[1]}"


def links_of(opened: OpenStore) -> list[int | None]:
    """The number of each session by which somebody stands, or None in its place while it has no connection."""
    store = opened.store
    assert isinstance(store, ZooKeeperStore)
    sessions = [lease.session for lease in store._roster._leases.values()]
    return [None if session._link is None else session.id for session in sessions]


def test_a_tenure_goes_on_while_its_connection_is_suspended(newest: ZooKeeperEnsemble, nobody: str) -> None:
    async def story() -> None:
        async with (
            Proxy(newest.endpoints[0]) as proxy,
            tenure.open_store(f"zookeeper://{proxy.endpoint}") as store,
            Candidate(store, "suspended/short") as ada,
        ):
            term = await ada.leads()
            await ada.renews(now_ns())
            linked = links_of(store)
            proxy.turn_to(nobody)
            await until(lambda: links_of(store) == [None])
            assert term.valid
            proxy.turn_to(newest.endpoints[0])
            await ada.renews(now_ns())
            assert links_of(store) == linked
            assert ada.tokens == [term.token]

    play(story())


def test_a_tenure_whose_connection_stays_suspended_lapses_before_the_next_one_begins(
    newest: ZooKeeperEnsemble, nobody: str
) -> None:
    async def story() -> None:
        async with (
            Proxy(newest.endpoints[0]) as proxy,
            tenure.open_store(f"zookeeper://{proxy.endpoint}") as store,
            from_url(newest.url) as other,
            Candidate(store, "suspended/long") as ada,
        ):
            term = await ada.leads()
            wait = await waits(other, bid("suspended/long"))
            proxy.turn_to(nobody)
            suspended_at = now_ns()
            office = await takes_over(other, wait)
            began_at = now_ns()
            assert not term.valid
            await until(lambda: bool(ada.left))
            assert 0 < ada.believed_until < min(began_at, suspended_at + TTL_S * 1e9)
            assert [fact.reason for fact in ada.left] in LAPSED
            proxy.turn_to(newest.endpoints[0])
            assert await other.renew(office) == office
            assert ada.tokens == [term.token]
            await other.release(office.bid)
            assert (await ada.leads()).token > office.token

    play(story())


@pytest.mark.parametrize("fate", ["killed", "paused"])
def test_without_a_quorum_a_leader_lapses_in_time_and_leads_again_when_it_is_back(
    newest: ZooKeeperEnsemble, fate: str
) -> None:
    async def story() -> None:
        name = f"quorum/{fate}"
        async with (
            tenure.open_store(newest.url) as store,
            tenure.open_store(newest.url) as second,
            from_url(newest.url) as other,
            Candidate(store, name) as ada,
        ):
            term = await ada.leads()
            async with Candidate(second, name) as bob:

                async def both_stand() -> bool:
                    return len(await children_of(newest.url, name)) == 2

                await until_so(both_stand)
                for node in newest.nodes[:2]:
                    await asyncio.to_thread(node.kill if fate == "killed" else node.pause)
                lost_at = now_ns()
                for _ in range(4):  # More than there are servers to ask.
                    with pytest.raises((Unreachable, OutcomeUnknown)):
                        await other.claim(bid(f"{name}/free"))
                await until(lambda: bool(ada.left))
                # No renewal was sent and answered later, so the engine lets go of it later than it stopped believing.
                assert 0 < ada.believed_until < lost_at + TTL_S * 1e9
                assert not term.valid
                assert [fact.reason for fact in ada.left] in LAPSED
                assert ada.tokens == [term.token]
                assert bob.tokens == []
                await asyncio.to_thread(newest.mend)
                await until(lambda: ada.term is not None or bob.term is not None)
                await until(lambda: len(ada.tokens) > 1 or bool(bob.tokens))  # Hooks hear of it beside the body.
                assert min([*ada.tokens[1:], *bob.tokens]) > term.token
            again = await ada.leads()
            assert again.token > term.token
            assert again.valid

    play(story())


def test_a_tenure_goes_on_through_a_quorum_that_is_lost_for_less_than_its_validity(patient: ZooKeeperEnsemble) -> None:
    async def story() -> None:
        async with (
            tenure.open_store(f"{patient.url}?tick={TICK_MS / 1000}") as store,
            Candidate(store, "quorum/short", LONG_TTL_S) as ada,
        ):
            term = await ada.leads()
            for node in patient.nodes[:2]:
                node.pause()
            lost_at = now_ns()
            await until(lambda: not patient.serves(patient.nodes[2]))  # It has noticed, and left its clients.
            assert term.valid
            assert term._term.valid_until < lost_at + LONG_TTL_S * 1e9
            await asyncio.to_thread(patient.mend)
            await ada.renews(now_ns())
            assert ada.tokens == [term.token]

    play(story())
