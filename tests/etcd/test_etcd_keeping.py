"""What a store does with the leases that its places share: whom it gives up, what it goes on deleting, what it forgets."""

import asyncio

import pytest

from tenure.clients.etcd.client import EtcdClient
from tenure.clients.etcd.messages import Txn, TxnAnswer
from tenure.clients.etcd.opening import client_of
from tenure.errors import OutcomeUnknown, StoreError
from tenure.model import Ended, Grant, Holder, Wait
from tenure.stores.etcd.store import EtcdStore
from tenure.testing.engines import EtcdCluster
from tests.etcd.etcd_faults import bid_of, disappears, keys, play, until
from tests.etcd.etcd_proxy import apart, lasting
from tests.proxy import Proxy


def test_a_place_that_was_due_and_is_claimed_in_time_is_not_given_up(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with apart(etcd) as (proxy, store, direct, clock):
            bid = bid_of("due", ttl_s=60)
            first = await store.claim(bid)
            assert isinstance(first, Grant)
            place = store._places.find(bid)
            assert place is not None
            proxy.hold_requests()
            claim = asyncio.create_task(store.claim(bid))
            await until(lambda: place.busy is not None)
            clock.ahead_ns += 10 * bid.ttl_ns
            giving_up = asyncio.create_task(store._give_up(place))  # As whoever keeps the lease does when it is due.
            await asyncio.sleep(0)
            proxy.deliver()
            assert await claim == first
            await giving_up
            assert [kv.create_revision for kv in await keys(direct, "due")] == [first.token]
            assert await store.renew(first) == first

    play(story())


class SlowToRelease(EtcdClient):
    """A client whose deletions are under way until they are let go."""

    def __init__(self, cluster: EtcdCluster) -> None:
        super().__init__(cluster.endpoints, address=cluster.url)
        self.asked, self.let_go = asyncio.Event(), asyncio.Event()

    async def txn(self, txn: Txn, *, operation: str) -> TxnAnswer:
        if operation == "release":
            self.asked.set()
            await self.let_go.wait()
        return await super().txn(txn, operation=operation)


def test_a_renewal_that_is_answered_while_its_place_is_given_up_does_not_say_that_it_leads(etcd: EtcdCluster) -> None:
    async def story() -> None:
        client = SlowToRelease(etcd)
        async with EtcdStore(client) as store:
            grant = await store.claim(bid_of("crossed"))
            assert isinstance(grant, Grant)
            release = asyncio.create_task(store.release(grant.bid))
            await client.asked.wait()
            told = await store.renew(grant)
            client.let_go.set()
            await release
            assert told == Ended(grant.bid, grant.token)
            assert await keys(client, "crossed") == ()

    play(story())


def test_more_releases_without_an_answer_than_fit_into_one_request_are_all_repeated(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with apart(etcd) as (proxy, store, direct, _), lasting(store, "heap-kept", ttl_s=12):
            grants: list[Grant | Wait] = []
            for first in range(0, 150, 25):  # Each has its deadline: not more at once than the engine soon answers.
                bids = [bid_of(f"heap/{n}", ttl_s=12) for n in range(first, first + 25)]
                grants += await asyncio.gather(*map(store.claim, bids))
            assert len(await keys(direct, "heap")) == 150
            proxy.hold_requests()
            told = await asyncio.gather(*(store.release(grant.bid) for grant in grants), return_exceptions=True)
            assert {type(error) for error in told} == {OutcomeUnknown}
            await disappears(direct, "heap")  # Nothing of what was kept back was delivered.

    play(story())


def test_leases_that_are_over_are_forgotten(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with apart(etcd) as (_, store, _, clock):
            holder = Holder.fresh()
            for serial in range(1, 7):
                bid = bid_of("now and then", holder, serial)
                assert isinstance(await store.claim(bid), Grant)
                await store.release(bid)
                clock.ahead_ns += 2 * bid.ttl_ns
            assert sum(map(len, store._leases._alike.values())) == 1

    play(story())


def test_one_short_ttl_makes_calls_impatient_only_for_as_long_as_somebody_has_it(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with client_of(etcd.url) as client:
            patience_s = client.call_timeout_s
            async with EtcdStore(client) as store:
                await store.claim(bid_of("patient", ttl_s=60))
                assert client.call_timeout_s == patience_s
                short = [await store.claim(bid_of("impatient", ttl_s=9)) for _ in range(2)]
                assert client.call_timeout_s == pytest.approx(1.8)
                await store.release(short[0].bid)
                assert client.call_timeout_s == pytest.approx(1.8)
                await store.release(short[1].bid)
                assert client.call_timeout_s == patience_s

    play(story())


def test_a_store_whose_closing_is_cancelled_leaves_no_connection_and_no_task_behind(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with Proxy(etcd.endpoints[0]) as proxy:
            store = EtcdStore(client_of(f"etcd://{proxy.endpoint}"))
            await store.__aenter__()
            await store.claim(bid_of("hurried"))
            proxy.hold_requests()
            claim = asyncio.create_task(store.claim(bid_of("hurried")))
            await until(lambda: bool(store._turns._under_way))
            closing = asyncio.create_task(store.__aexit__(None, None, None))
            await asyncio.sleep(0)
            closing.cancel()
            await asyncio.wait([closing, claim])
            assert closing.cancelled()
            assert isinstance(claim.exception(), StoreError)
            assert store._client._connection is None
            await until(lambda: not store._turns._under_way and not store._leases._keepers)

    play(story())
