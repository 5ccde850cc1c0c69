"""Members that are killed, frozen or silent: which call fails, how, and where the next one goes."""

import asyncio
from collections.abc import Iterator

import pytest

from tenure.clients.etcd.client import EtcdClient
from tenure.errors import OutcomeUnknown, Unreachable
from tenure.testing.engines import EtcdCluster
from tests.clients.etcd.etcd_client_rig import Forwarder, client_of, follower_of, fresh_key, get, play, put, until


@pytest.fixture
def cluster(etcd: EtcdCluster) -> Iterator[EtcdCluster]:
    yield etcd
    etcd.mend()


def test_a_frozen_member_costs_one_call_and_the_next_goes_elsewhere(cluster: EtcdCluster) -> None:
    async def story() -> None:
        frozen = follower_of(cluster)
        async with client_of(cluster, frozen, call_timeout_s=1.5) as client:
            assert client.endpoint == frozen.endpoint
            frozen.pause()
            with pytest.raises(OutcomeUnknown, match="no answer within"):
                await put(client, fresh_key())
            assert client.endpoint != frozen.endpoint
            await put(client, fresh_key())

    play(story())


def test_a_frozen_member_is_left_by_callers_whose_own_deadline_is_shorter(cluster: EtcdCluster) -> None:
    async def story() -> None:
        frozen = follower_of(cluster)
        async with client_of(cluster, frozen, call_timeout_s=30) as client:
            frozen.pause()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await put(client, fresh_key())
            await put(client, fresh_key())
            assert client.endpoint != frozen.endpoint

    play(story())


def test_a_renewal_without_an_answer_leaves_the_member(cluster: EtcdCluster) -> None:
    async def story() -> None:
        frozen = follower_of(cluster)
        async with client_of(cluster, frozen, call_timeout_s=1.5) as client:
            lease = (await client.lease_grant(60)).lease
            await client.lease_renew(lease)
            frozen.pause()
            with pytest.raises(OutcomeUnknown):
                await client.lease_renew(lease)
            assert await client.lease_renew(lease) == 60

    play(story())


def test_a_killed_member_is_left_and_calls_that_were_not_sent_go_on(cluster: EtcdCluster) -> None:
    async def story() -> None:
        dead = follower_of(cluster)
        async with client_of(cluster, dead, call_timeout_s=10) as client:
            await put(client, fresh_key())
            connection = client._connection
            dead.kill()
            assert connection is not None
            await until(lambda: connection.closed)
            await asyncio.gather(*(put(client, fresh_key()) for _ in range(20)))
            assert client.endpoint != dead.endpoint

    play(story())


def test_a_write_whose_answer_is_lost_is_not_sent_again(cluster: EtcdCluster) -> None:
    async def story() -> None:
        key = fresh_key()
        async with (
            Forwarder(cluster.endpoints[0]) as forwarder,
            EtcdClient([forwarder.endpoint], address="etcd://forwarder", call_timeout_s=1.5) as client,
            client_of(cluster) as direct,
        ):
            forwarder.deaf = True
            with pytest.raises(OutcomeUnknown):
                await put(client, key)
            forwarder.deaf = False
            await get(client, key)
            (kv,) = (await get(direct, key)).kvs
            assert kv.version == 1

    play(story())


def test_a_connection_that_is_cut_leaves_the_outcome_unknown(cluster: EtcdCluster) -> None:
    async def story() -> None:
        async with (
            Forwarder(cluster.endpoints[0]) as forwarder,
            EtcdClient([forwarder.endpoint], address="etcd://forwarder", call_timeout_s=30) as client,
        ):
            forwarder.deaf = True
            calls = [asyncio.create_task(put(client, fresh_key())) for _ in range(3)]
            connection = client._connection
            assert connection is not None
            await until(lambda: len(connection._streams) == 3)
            await forwarder.hang_up()
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [OutcomeUnknown] * 3
            with pytest.raises(Unreachable, match="nobody listens"):
                await get(client, fresh_key())
            forwarder.deaf = False
            await forwarder.listen()
            await get(client, fresh_key())

    play(story())


def test_without_a_quorum_nothing_is_promised_and_it_comes_back_by_itself(cluster: EtcdCluster) -> None:
    async def story() -> None:
        async with client_of(cluster, cluster.nodes[0], call_timeout_s=1.5) as client:
            cluster.nodes[1].kill()
            cluster.nodes[2].kill()
            for _ in range(3):
                with pytest.raises((OutcomeUnknown, Unreachable)):
                    await put(client, fresh_key())
            cluster.mend()
            await put(client, fresh_key())

    play(story())


def test_clients_of_the_same_list_do_not_all_begin_with_the_same_member() -> None:
    starts = {EtcdClient(["a", "b", "c"], address="etcd://a,b,c").endpoint for _ in range(100)}
    assert starts == {"a:2379", "b:2379", "c:2379"}
