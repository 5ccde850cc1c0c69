"""A renewal in its two halves: sent with whatever is sent next, and waited for afterwards."""

import asyncio

import pytest

from tenure.clients.etcd.client import EtcdClient
from tenure.errors import OutcomeUnknown, Refused
from tenure.testing.engines import EtcdCluster
from tests.clients.etcd.etcd_client_rig import Forwarder, client_of, fresh_key, play, put


def unwritten(client: EtcdClient) -> bytes:
    """What the client's connection writes next, in one piece."""
    assert client._connection is not None
    return b"".join(client._connection._output)


def test_a_renewal_goes_out_in_one_piece_with_the_call_behind_it_also_if_its_stream_is_new(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with client_of(etcd) as client:
            lease = (await client.lease_grant(60)).lease
            begun = client.begin_renewal(lease)
            call = put(client, fresh_key())
            call.send(None)  # As far as it comes by itself: it waits for its answer.
            assert b"Lease/LeaseKeepAlive" in unwritten(client)
            assert b"KV/Txn" in unwritten(client)
            call.close()
            assert (await client.lease_renewal(lease, begun)).ttl_s == 60

    play(story())


def test_an_answer_that_has_come_is_taken_without_another_request(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with (
            Forwarder(etcd.endpoints[0]) as forwarder,
            EtcdClient([forwarder.endpoint], address="etcd://forwarder") as client,
        ):
            lease = (await client.lease_grant(60)).lease
            begun = client.begin_renewal(lease)
            assert begun.answer is not None
            await asyncio.wait([begun.answer])
            await forwarder.hang_up()  # Whoever asked now would hear nothing.
            assert (await client.lease_renewal(lease, begun)).ttl_s == 60

    play(story())


def test_a_renewal_whose_connection_was_lost_is_sent_anew_over_the_next_one(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with client_of(etcd) as client:
            lease = (await client.lease_grant(60)).lease
            begun = client.begin_renewal(lease)
            assert client._connection is not None
            client.leave(client._connection, "it is lost")
            assert (await client.lease_renewal(lease, begun)).ttl_s == 60

    play(story())


def test_a_renewal_that_began_without_a_connection_is_sent_when_there_is_one(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with client_of(etcd) as client:
            lease = (await client.lease_grant(60)).lease
            assert client._connection is not None
            client.leave(client._connection, "it is lost")
            begun = client.begin_renewal(lease)
            assert begun.answer is None
            assert (await client.lease_renewal(lease, begun)).ttl_s == 60

    play(story())


def test_the_deadline_of_a_renewal_counts_from_its_sending(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with (
            Forwarder(etcd.endpoints[0]) as forwarder,
            EtcdClient([forwarder.endpoint], address="etcd://forwarder", call_timeout_s=3600) as client,
        ):
            lease = (await client.lease_grant(60)).lease
            forwarder.deaf = True
            begun = client.begin_renewal(lease)
            loop = asyncio.get_running_loop()
            assert begun.until_s == pytest.approx(loop.time() + 3600, abs=60)
            with pytest.raises(OutcomeUnknown, match="no answer within"):
                await client.lease_renewal(lease, begun._replace(until_s=loop.time()))
            assert client._connection is None

    play(story())


@pytest.mark.parametrize("was_sent", [True, False])
def test_what_is_sent_late_or_anew_has_a_whole_deadline_from_then(etcd: EtcdCluster, was_sent: bool) -> None:
    """Or a member that is far away is left for a request of a moment ago, and each try begins by looking for it again."""

    async def story() -> None:
        async with client_of(etcd) as client:
            lease = (await client.lease_grant(60)).lease
            begun = client.begin_renewal(lease)
            assert client._connection is not None
            client.leave(client._connection, "it is lost")
            if not was_sent:
                begun = client.begin_renewal(lease)
            over = begun._replace(until_s=asyncio.get_running_loop().time())  # A put has taken that long.
            assert (await client.lease_renewal(lease, over)).ttl_s == 60

    play(story())


def test_a_connection_that_takes_no_stream_any_more_is_left_for_another(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with client_of(etcd) as client:
            lease = (await client.lease_grant(60)).lease
            worn_out = client._connection
            assert worn_out is not None
            worn_out._next_number = 2**31 + 1
            begun = client.begin_renewal(lease)
            assert begun.answer is None
            assert (await client.lease_renewal(lease, begun)).ttl_s == 60
            assert client._connection is not worn_out

    play(story())


@pytest.mark.parametrize("has_come", [True, False])
def test_an_answer_of_another_cluster_renews_nothing_whenever_it_comes(etcd: EtcdCluster, has_come: bool) -> None:
    async def story() -> None:
        async with client_of(etcd) as client:
            lease = (await client.lease_grant(60)).lease
            client.cluster_id += 1  # What it knew before is of a cluster that was replaced.
            begun = client.begin_renewal(lease)
            assert begun.answer is not None
            if has_come:
                await asyncio.wait([begun.answer])
            with pytest.raises(Refused, match="was replaced by cluster"):
                await client.lease_renewal(lease, begun)

    play(story())


def test_who_stops_waiting_for_a_message_that_others_share_takes_it_from_nobody(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with client_of(etcd) as client:
            lease = (await client.lease_grant(60)).lease
            one, other = client.begin_renewal(lease), client.begin_renewal(lease)
            assert unwritten(client).count(b"Lease/LeaseKeepAlive") == 1
            waiting = asyncio.create_task(client.lease_renewal(lease, one))
            await asyncio.sleep(0)
            waiting.cancel()
            assert (await client.lease_renewal(lease, other)).ttl_s == 60
            assert waiting.cancelled()

    play(story())
