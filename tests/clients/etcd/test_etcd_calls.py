"""Calls on a real cluster: transactions, ranges and leases mean to etcd what they mean to us."""

import asyncio

import pytest

from tenure.clients.etcd.client import EtcdClient
from tenure.clients.etcd.failures import LeaseGone
from tenure.clients.etcd.messages import (
    Delete,
    DeleteAnswer,
    Put,
    PutDone,
    Range,
    RangeAnswer,
    Txn,
    created,
    has_value,
    modified,
    prefix_end,
    value_below,
)
from tenure.errors import OutcomeUnknown, Refused
from tenure.testing.engines import EtcdCluster
from tests.clients.etcd.etcd_client_rig import Forwarder, client_of, delete, fresh_key, get, play, put, until
from tests.etcd.etcd_faults import counted


def test_a_transaction_does_one_branch_and_tells_what_it_found(etcd: EtcdCluster) -> None:
    async def story() -> None:
        key = fresh_key()
        async with client_of(etcd) as client:
            ask = Txn((created(key, 0),), (Put(key, b"1"), Range(key)), (Range(key), Delete(key)))
            first = await client.txn(ask, operation="test")
            second = await client.txn(ask, operation="test")
            assert (first.succeeded, first.answers[0]) == (True, PutDone())
            assert isinstance(first.answers[1], RangeAnswer)
            (kv,) = first.answers[1].kvs
            assert (kv.key, kv.value, kv.create_revision, kv.mod_revision, kv.version, kv.lease) == (
                key,
                b"1",
                first.revision,
                first.revision,
                1,
                0,
            )
            assert (second.succeeded, second.answers[1]) == (False, DeleteAnswer(1))
            assert isinstance(second.answers[0], RangeAnswer)
            assert (second.answers[0].kvs, second.answers[0].count) == ((kv,), 1)
            assert second.revision == first.revision + 1 == client.revision

    play(story())


def test_each_comparison_holds_exactly_when_it_should(etcd: EtcdCluster) -> None:
    async def story() -> None:
        key, missing = fresh_key(), fresh_key()
        async with client_of(etcd) as client:
            revision = await put(client, key, b"5")
            later = await put(client, key, b"5")
            expected = {
                created(key, revision): True,
                created(key, later): False,
                created(missing, 0): True,
                modified(key, later): True,
                modified(key, revision): False,
                has_value(key, b"5"): True,
                has_value(key, b""): False,
                has_value(missing, b""): False,
                value_below(key, b"6"): True,
                value_below(key, b"5"): False,
                value_below(missing, b"6"): False,
            }
            found = {compare: (await client.txn(Txn((compare,), ()), operation="t")).succeeded for compare in expected}
            assert found == expected

    play(story())


def test_a_range_keeps_its_order_its_limit_and_its_bounds(etcd: EtcdCluster) -> None:
    async def story() -> None:
        prefix = fresh_key() + b"/"
        async with client_of(etcd) as client:
            revisions = [await put(client, prefix + name) for name in (b"c", b"a", b"b")]
            await put(client, prefix + b"c", b"again")

            async def names(**options: int) -> list[bytes]:
                ask = Range(prefix, prefix_end(prefix), **options)  # type: ignore[arg-type]
                return [kv.key[-1:] for kv in (await client.range(ask, operation="t")).kvs]

            assert await names() == [b"a", b"b", b"c"]
            assert await names(oldest_first=True) == [b"c", b"a", b"b"]
            assert await names(newest_first=True, limit=1) == [b"b"]
            assert await names(newest_first=True, max_create_revision=revisions[1], limit=1) == [b"a"]
            bare = await client.range(Range(prefix, prefix_end(prefix), keys_only=True, limit=2), operation="t")
            assert [(kv.value, bare.count) for kv in bare.kvs] == [(b"", 3), (b"", 3)]

    play(story())


def test_a_put_under_a_lease_that_is_gone_is_told_apart_and_writes_nothing_at_all(etcd: EtcdCluster) -> None:
    async def story() -> None:
        key, other = fresh_key(), fresh_key()
        async with client_of(etcd) as client:
            granted = await client.lease_grant(30)
            await client.lease_revoke(granted.lease)
            await client.lease_revoke(granted.lease)
            with pytest.raises(LeaseGone):
                await client.txn(Txn((), (Put(other, b"v"), Put(key, b"v", granted.lease))), operation="claim")
            assert (await get(client, other)).kvs == ()

    play(story())


def test_a_lease_tells_its_keys_and_dies_with_them(etcd: EtcdCluster) -> None:
    async def story() -> None:
        key = fresh_key()
        async with client_of(etcd) as client:
            lease, ttl_s = await client.lease_grant(60)
            await put(client, key, lease=lease)
            remaining_s, keys = await client.lease_keys(lease)
            assert ttl_s == 60
            assert 0 < remaining_s <= 60
            assert keys == [key]
            assert await client.lease_renew(lease) == 60
            await client.lease_revoke(lease)
            assert await client.lease_renew(lease) == 0
            assert await client.lease_keys(lease) == (-1, [])
            assert (await get(client, key)).kvs == ()

    play(story())


def test_renewals_asked_for_together_are_one_message(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with client_of(etcd) as client:
            one, other = (await client.lease_grant(60)).lease, (await client.lease_grant(60)).lease
            before = counted(etcd)
            renewed = await asyncio.gather(*(client.lease_renew(lease) for lease in [one, other] * 50))
            after = counted(etcd)
            assert set(renewed) == {60}
            assert after["msg_received LeaseKeepAlive"] - before["msg_received LeaseKeepAlive"] == 2
            assert after["started LeaseKeepAlive"] - before["started LeaseKeepAlive"] == 1

    play(story())


def test_a_renewal_never_shares_a_message_that_is_written_already(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with (
            Forwarder(etcd.endpoints[0]) as forwarder,
            EtcdClient([forwarder.endpoint], address="etcd://forwarder", call_timeout_s=30) as client,
        ):
            lease = (await client.lease_grant(60)).lease
            await client.lease_renew(lease)
            forwarder.deaf = True
            before = counted(etcd)["msg_received LeaseKeepAlive"]
            early = asyncio.create_task(client.lease_renew(lease))
            await until(lambda: counted(etcd)["msg_received LeaseKeepAlive"] == before + 1)
            late = asyncio.create_task(client.lease_renew(lease))
            await until(lambda: counted(etcd)["msg_received LeaseKeepAlive"] == before + 2)
            assert not early.done()
            early.cancel()
            late.cancel()
            await asyncio.wait((early, late))

    play(story())


def test_messages_longer_than_every_window_go_both_ways(etcd: EtcdCluster) -> None:
    async def story() -> None:
        prefix, size_bytes = fresh_key() + b"/", 1_000_000
        async with client_of(etcd, call_timeout_s=20) as client:
            for number in range(4):
                await put(client, prefix + b"%d" % number, b"x" * size_bytes)
            found = await client.range(Range(prefix, prefix_end(prefix)), operation="read")
            assert [len(kv.value) for kv in found.kvs] == [size_bytes] * 4
            await client.txn(Txn((), (Delete(prefix, prefix_end(prefix)),)), operation="tidy")

    play(story())


def test_what_etcd_refuses_is_refused_and_the_connection_stays(etcd: EtcdCluster) -> None:
    async def story() -> None:
        key = fresh_key()
        async with client_of(etcd, call_timeout_s=20) as client:
            connection = client._connection
            too_many = tuple(Put(key + b"%d" % number, b"") for number in range(200))
            with pytest.raises(Refused, match="too many operations"):
                await client.txn(Txn((), too_many), operation="claim")
            with pytest.raises(Refused, match=r"too large|larger than max"):
                await put(client, key, b"x" * 3_000_000)
            assert (await get(client, key)).kvs == ()
            assert client._connection is connection

    play(story())


def test_a_full_database_leaves_the_outcome_unknown_and_says_what_to_do() -> None:
    async def story(cluster: EtcdCluster) -> None:
        async with client_of(cluster, call_timeout_s=20) as client:

            async def fill() -> None:
                # etcd counts what is in its file, where it puts things ten times a second: a quick disk takes a lot in between.
                for _ in range(3000):
                    await put(client, fresh_key(), b"x" * 100_000)

            with pytest.raises(OutcomeUnknown, match="compact and defragment it"):
                await fill()
            assert [alarm.kind for alarm in await client.alarms()] == ["NOSPACE"]
            assert await client.range(Range(b"test/"), operation="read") is not None

    with EtcdCluster(1, options=["--quota-backend-bytes=2000000"]) as cluster:
        play(story(cluster))


def test_more_calls_than_the_server_takes_at_once_wait_for_their_turn() -> None:
    async def story(cluster: EtcdCluster) -> None:
        key = fresh_key()
        async with client_of(cluster, call_timeout_s=30) as client:
            answers = await asyncio.gather(*(put(client, key + b"%d" % number) for number in range(100)))
            assert len(set(answers)) == 100

    with EtcdCluster(1, options=["--max-concurrent-streams=3"]) as cluster:
        play(story(cluster))


def test_a_cancelled_call_leaves_nothing_behind(etcd: EtcdCluster) -> None:
    async def story() -> None:
        key = fresh_key()
        async with client_of(etcd) as client:
            revision = await put(client, key)
            connection = client._connection
            assert connection is not None
            for _ in range(20):
                calls = [asyncio.create_task(get(client, key)) for _ in range(5)]
                await asyncio.sleep(0)
                for call in calls:
                    call.cancel()
                await asyncio.wait(calls)
                assert connection._streams == {}
            wait = asyncio.create_task(client.deleted(key, revision))
            await until(lambda: len(client._watches._armed) == 1)
            wait.cancel()
            await asyncio.wait((wait,))
            assert (len(client._watches._armed), len(client._watches._waits)) == (0, 0)
            assert len(connection._streams) == 1  # the watch stream, for whoever waits next
            assert client._connection is connection
            await delete(client, key)

    play(story())


def test_an_operator_is_told_of_members_their_state_and_alarms(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with client_of(etcd) as client:
            members = await client.members()
            assert {url.removeprefix("http://") for member in members for url in member.client_urls} == set(
                etcd.endpoints
            )
            status = await client.status()
            assert status.version == etcd.binary.version
            assert status.leader_id in {member.member_id for member in members}
            assert (status.learner, status.errors, await client.alarms()) == (False, (), [])
            assert status.db_size_bytes > 0
            assert status.raft_term > 0
            seen = await client.seen_at_each(within_s=30)
            assert set(seen) == set(etcd.endpoints)
            assert all(one.cluster_id == client.cluster_id for one in seen.values() if not isinstance(one, Exception))

    play(story())
