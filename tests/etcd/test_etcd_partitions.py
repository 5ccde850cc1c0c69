"""A member that is cut off grants nothing, and a tenure whose candidate talks to it goes on through another."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Literal

import pytest

import tenure
from tenure.clients.etcd.opening import client_of
from tenure.errors import OutcomeUnknown, Unreachable
from tenure.model import Ended, Grant, Token
from tenure.stores.etcd import from_url
from tenure.testing.engines import EtcdCluster
from tests.etcd.etcd_faults import ENDURING, Candidate, bid_of, keys, member_of, now_ns, play, until_so

From = Literal["peers", "clients"] | None
OneWay = Literal["receiving", "sending"] | None
WAYS: tuple[OneWay, ...] = (None, "receiving", "sending")


@pytest.fixture(scope="module")
def isolated_etcd() -> Iterator[EtcdCluster]:
    with EtcdCluster(isolated=True) as running:
        yield running


@pytest.fixture
def isolated(isolated_etcd: EtcdCluster) -> Iterator[EtcdCluster]:
    yield isolated_etcd
    isolated_etcd.mend()


@pytest.mark.parametrize("from_", ["peers", "clients", None])
@pytest.mark.parametrize("one_way", WAYS)
def test_a_tenure_goes_on_when_the_member_that_it_renews_at_is_cut_off(
    isolated: EtcdCluster, from_: From, one_way: OneWay
) -> None:
    async def story() -> None:
        name = f"cut/{from_}/{one_way}"
        # It may be the leader that is cut off from its peers.
        timing = None if from_ == "clients" else ENDURING
        async with (
            tenure.open_store(isolated.url) as store,
            tenure.open_store(isolated.url) as other,
            Candidate(store, name, timing=timing) as ada,
        ):
            await ada.leads()
            async with Candidate(other, name, timing=timing) as bob:
                await bob.waits(isolated)
                node = member_of(store, isolated)
                await asyncio.to_thread(node.partition, from_, one_way=one_way)
                await ada.renews(now_ns())
                await asyncio.to_thread(isolated.mend)
                await ada.renews(now_ns())
                assert bob.tokens == []

    play(story())


@pytest.mark.parametrize("one_way", WAYS)
def test_a_member_without_its_peers_never_grants_or_renews_anything(isolated: EtcdCluster, one_way: OneWay) -> None:
    async def story() -> None:
        node = await asyncio.to_thread(isolated.leader)
        others = ",".join(other.endpoint for other in isolated.nodes if other is not node)
        name = f"minority/{one_way}"
        async with from_url(f"etcd://{node.endpoint}") as store, from_url(f"etcd://{others}") as majority:
            held = await store.claim(bid_of(f"{name}/held", ttl_s=4))
            assert isinstance(held, Grant)
            await asyncio.to_thread(node.partition, "peers", one_way=one_way)
            for _ in range(4):
                with pytest.raises((OutcomeUnknown, Unreachable)):
                    await store.claim(bid_of(f"{name}/free", ttl_s=2))
                # Its end may be known without asking: by then it has not been renewed for longer than it lasts.
                with suppress(OutcomeUnknown, Unreachable):
                    assert await store.renew(held) == Ended(held.bid, held.token)
            await asyncio.to_thread(isolated.leader)  # The others have one of their own by now.
            taken = bid_of(f"{name}/held", ttl_s=60)
            while not isinstance(granted := await majority.claim(taken), Grant):
                await majority.changed(granted)
            assert granted.token > held.token
            await asyncio.to_thread(isolated.mend)
            assert await store.renew(held) == Ended(held.bid, held.token)

    play(story())


def test_what_a_member_did_and_could_not_say_is_unknown_and_found_by_the_next_claim(isolated: EtcdCluster) -> None:
    async def story() -> None:
        async with from_url(isolated.url) as store:
            assert isinstance(await store.claim(bid_of("said", ttl_s=60)), Grant)  # Now it has a lease, and a member.
            (node,) = [node for node in isolated.nodes if node.endpoint == store._client.endpoint]
            others = ",".join(other.endpoint for other in isolated.nodes if other is not node)
            await asyncio.to_thread(node.partition, "clients", one_way="sending")
            bid = bid_of("unsaid", ttl_s=60)
            with pytest.raises(OutcomeUnknown):
                await store.claim(bid)
            async with client_of(f"etcd://{others}") as direct:

                async def carried_out() -> bool:
                    return await keys(direct, "unsaid") != ()

                await until_so(carried_out)  # Whoever gave it up need not have waited for that.
                (found,) = await keys(direct, "unsaid")
            assert await store.claim(bid) == Grant(bid, Token(found.create_revision))
            assert store._client.endpoint != node.endpoint

    play(story())
