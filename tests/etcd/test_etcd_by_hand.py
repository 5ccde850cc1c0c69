"""What people do to an election with ``etcdctl``, and what others may have written below its name."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

import tenure
from tenure.clients.etcd.client import EtcdClient
from tenure.clients.etcd.messages import Put, Txn, TxnAnswer
from tenure.clients.etcd.opening import client_of
from tenure.errors import OutcomeUnknown, Reason
from tenure.model import Ended, Grant, Token, Wait
from tenure.stores.etcd import from_url
from tenure.stores.etcd.store import EtcdStore
from tenure.testing.engines import EtcdCluster
from tests.etcd.etcd_faults import Candidate, bid_of, ctl, keys, play, until


@asynccontextmanager
async def store_and_client(etcd: EtcdCluster) -> AsyncIterator[tuple[EtcdStore, EtcdClient]]:
    async with from_url(etcd.url) as store, client_of(etcd.url) as client:
        yield store, client


def test_a_lease_that_is_revoked_ends_its_tenures_and_its_waiters_stand_anew(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with store_and_client(etcd) as (store, client), from_url(etcd.url) as other:
            first = await other.claim(bid_of("revoked/waited for"))
            leads = await store.claim(bid_of("revoked/led"))
            waits = await store.claim(bid_of("revoked/waited for"))
            assert isinstance(first, Grant)
            assert isinstance(leads, Grant)
            assert isinstance(waits, Wait)
            woken = asyncio.create_task(store.changed(waits))
            (key,) = await keys(client, "revoked/led")
            await ctl(etcd, "lease", "revoke", f"{key.lease:x}")
            assert await store.renew(leads) == Ended(leads.bid, leads.token)
            await woken
            assert isinstance(await store.claim(waits.bid), Wait)
            assert (await keys(client, "revoked/waited for"))[1].lease != key.lease
            again = asyncio.create_task(store.changed(waits))
            await other.release(first.bid)
            await again
            assert isinstance(await store.claim(waits.bid), Grant)

    play(story())


@pytest.mark.parametrize("what", ["lease", "key"])
def test_a_leader_whose_lease_or_key_is_taken_is_deposed_and_leads_again(etcd: EtcdCluster, what: str) -> None:
    async def story() -> None:
        name = f"taken/{what}"
        async with tenure.open_store(etcd.url) as store, client_of(etcd.url) as client:
            async with Candidate(store, name) as ada:
                await ada.leads()
                (key,) = await keys(client, name)
                if what == "lease":
                    await ctl(etcd, "lease", "revoke", f"{key.lease:x}")
                else:
                    await ctl(etcd, "del", key.key.decode())
                await until(lambda: len(ada.tokens) == 2)
                assert [fact.reason for fact in ada.left] == [Reason.DEPOSED]
                assert ada.tokens[1] > ada.tokens[0] == key.create_revision
            assert await keys(client, name) == ()

    play(story())


def test_elections_whose_names_begin_alike_are_led_by_different_holders(etcd: EtcdCluster) -> None:
    async def story() -> None:
        names = ["nest", "nest/a", "nest/a/b", "nest/1f"]
        async with store_and_client(etcd) as (store, _), from_url(etcd.url) as other:
            # The innermost first: its keys are the oldest below every other name.
            grants = [await store.claim(bid_of(name)) for name in reversed(names)]
            assert all(isinstance(grant, Grant) for grant in grants)
            for name in names:
                waits = await other.claim(bid_of(name))
                assert isinstance(waits, Wait)
                assert waits.incumbent is not None
                assert waits.incumbent.token in [grant.token for grant in grants if isinstance(grant, Grant)]
                assert waits.incumbent.election == name
                woken = asyncio.create_task(other.changed(waits))
                (led,) = [grant for grant in grants if grant.bid.election == name]
                await store.release(led.bid)
                await woken
                assert isinstance(await other.claim(waits.bid), Grant)
            listed = {status.election: status for status in await other.elections()}
            assert all(not listed[name].standbys for name in names)

    play(story())


def test_keys_of_strangers_are_waited_for_if_they_are_candidates_and_passed_over_if_not(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with store_and_client(etcd) as (store, client):
            rubbish = [b"strange/readme", b"strange/", b"strange/BEEF", b"strange/12345678901234567", b"strange/xyz/1f"]
            await client.txn(Txn((), tuple(Put(key, b"\xff{}") for key in rubbish), ()), operation="write")
            bid = bid_of("strange")
            assert isinstance(await store.claim(bid), Grant)
            await store.release(bid)
            # A candidate of Go's is a key with a lease id behind the name. One without a lease never ends by itself.
            lease = await client.lease_grant(60)
            theirs = Put(b"strange/%x" % lease.lease, b"\xff rubbish", lease.lease)
            await client.txn(Txn((), (theirs, Put(b"strange/beef", b"")), ()), operation="write")
            waits = await store.claim(bid_of("strange"))
            assert isinstance(waits, Wait)
            assert waits.incumbent is not None
            assert waits.incumbent.holder.nonce in {f"{lease.lease:x}", "beef"}
            woken = asyncio.create_task(store.changed(waits))
            await client.lease_revoke(lease.lease)
            await ctl(etcd, "del", "strange/beef")
            await woken
            while not isinstance(await store.claim(waits.bid), Grant):
                await store.changed(waits)
            assert len(await keys(client, "strange")) == len(rubbish) + 1

    play(story())


def test_a_key_of_our_own_name_that_somebody_wrote_by_hand_does_not_keep_us_out(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with store_and_client(etcd) as (store, client):
            await store.claim(bid_of("by hand/other"))
            (key,) = await keys(client, "by hand/other")
            ours = b"by hand/%x" % key.lease
            await client.txn(Txn((), (Put(ours, b"no lease"),), ()), operation="write")
            grant = await store.claim(bid_of("by hand"))
            assert isinstance(grant, Grant)
            (found,) = [kv for kv in await keys(client, "by hand") if kv.key == ours]
            assert (found.lease, found.create_revision) == (key.lease, grant.token)

    play(story())


def test_a_leaders_key_that_somebody_overwrote_by_hand_still_ends_with_its_lease(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with store_and_client(etcd) as (store, client):
            grant = await store.claim(bid_of("overwritten"))
            assert isinstance(grant, Grant)
            (key,) = await keys(client, "overwritten")
            await ctl(etcd, "put", key.key.decode(), "hello")  # This takes the key off its lease.
            assert await store.renew(grant) == grant
            (after,) = await keys(client, "overwritten")
            assert (after.lease, after.create_revision, after.value) == (key.lease, grant.token, b"hello")

    play(story())


class Interrupted(EtcdClient):
    """A client whose connection is lost when it first puts a key back on its lease."""

    losses_left = 1

    async def txn(self, txn: Txn, *, operation: str) -> TxnAnswer:
        if operation == "renew" and self.losses_left and any(isinstance(one, Put) for one in txn.success):
            self.losses_left -= 1
            raise OutcomeUnknown(self.address, operation, "the connection was lost")
        return await super().txn(txn, operation=operation)


def test_a_key_that_could_not_be_put_back_on_its_lease_is_put_back_with_the_next_renewal(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with EtcdStore(Interrupted(etcd.endpoints, address=etcd.url)) as store, client_of(etcd.url) as client:
            grant = await store.claim(bid_of("put back late"))
            assert isinstance(grant, Grant)
            (key,) = await keys(client, "put back late")
            await ctl(etcd, "put", key.key.decode(), "hello")
            with pytest.raises(OutcomeUnknown, match="the connection was lost"):
                await store.renew(grant)
            assert await store.renew(grant) == grant
            (after,) = await keys(client, "put back late")
            assert (after.lease, after.create_revision, after.value) == (key.lease, grant.token, b"hello")

    play(story())


def test_a_standbys_key_that_somebody_overwrote_by_hand_keeps_its_place_and_still_ends_with_its_lease(
    etcd: EtcdCluster,
) -> None:
    async def story() -> None:
        async with store_and_client(etcd) as (store, client), from_url(etcd.url) as other:
            first = await other.claim(bid_of("overwritten standby"))
            waits = await store.claim(bid_of("overwritten standby"))
            assert isinstance(waits, Wait)
            key = (await keys(client, "overwritten standby"))[1]
            await ctl(etcd, "put", key.key.decode(), "hello")
            assert await store.claim(waits.bid) == waits
            after = (await keys(client, "overwritten standby"))[1]
            assert (after.lease, after.create_revision) == (key.lease, key.create_revision)
            await other.release(first.bid)
            assert await store.claim(waits.bid) == Grant(waits.bid, Token(key.create_revision))

    play(story())


def test_many_keys_that_are_written_over_at_once_end_no_tenure_and_all_still_end_with_their_lease(
    etcd: EtcdCluster,
) -> None:
    async def story() -> None:
        async with store_and_client(etcd) as (store, client):
            claims = await asyncio.gather(*(store.claim(bid_of(f"all written over/{n}", ttl_s=60)) for n in range(230)))
            grants = [grant for grant in claims if isinstance(grant, Grant)]
            before = await keys(client, "all written over")
            assert len(grants) == len(before) == 230
            for first in range(0, 230, 100):
                puts = tuple(Put(kv.key, b"hello") for kv in before[first : first + 100])
                await client.txn(Txn((), puts, ()), operation="write")
            assert await store.renew_together(grants) == grants
            after = await keys(client, "all written over")
            assert [(kv.lease, kv.create_revision) for kv in after] == [(kv.lease, kv.create_revision) for kv in before]

    play(story())


def test_a_word_to_resign_is_heard_although_the_leader_says_meanwhile_where_it_is(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with store_and_client(etcd) as (store, client), from_url(etcd.url) as other:
            grant = await store.claim(bid_of("word"))
            assert isinstance(grant, Grant)
            assert await other.ask_to_resign("word") is not None
            assert await store.proclaim(grant, "there:80") == grant
            moved = replace(grant, bid=replace(grant.bid, advertise="there:80"))
            assert store.resign_asked(moved)
            (listed,) = [status for status in await other.elections() if status.election == "word"]
            assert listed.resign_asked
            assert listed.incumbent is not None
            assert listed.incumbent.advertised == "there:80"
            # It stays in the key for as long as this tenure lasts, and is not said to the next one.
            assert await store.proclaim(moved, "here:80") == moved
            assert b'"resign":true' in (await keys(client, "word"))[0].value
            await store.release(replace(grant.bid, advertise="here:80"))
            again = await store.claim(bid_of("word", grant.bid.holder, 2))
            assert isinstance(again, Grant)
            assert await store.renew(again) == again
            assert not store.resign_asked(again)

    play(story())
