"""A renewal that a leader of the cluster has said yes to, which had been succeeded by then, counts for nothing."""

import pytest

from tenure.clients.etcd.client import EtcdClient
from tenure.clients.etcd.keepalive import Begun
from tenure.clients.etcd.messages import Renewal
from tenure.errors import OutcomeUnknown
from tenure.model import Grant
from tenure.stores.etcd.store import EtcdStore
from tenure.testing.engines import EtcdCluster
from tests.etcd.etcd_faults import bid_of, play


class OldLeader(EtcdClient):
    """A client whose renewals are answered in the term before, while ``is_old``."""

    is_old = False

    async def lease_renewal(self, lease: int, begun: Begun | None = None) -> Renewal:
        renewal = await super().lease_renewal(lease, begun)
        return renewal._replace(term=renewal.term - 1) if self.is_old else renewal


def test_what_a_leader_of_an_earlier_term_says_prolongs_and_grants_nothing(etcd: EtcdCluster) -> None:
    async def story() -> None:
        client = OldLeader(etcd.endpoints, address=etcd.url)
        async with EtcdStore(client) as store:
            grant = await store.claim(bid_of("terms"))
            assert isinstance(grant, Grant)
            assert await store.renew(grant) == grant
            client.is_old = True
            with pytest.raises(OutcomeUnknown, match="has been succeeded"):
                await store.renew(grant)
            with pytest.raises(OutcomeUnknown, match="has been succeeded"):
                await store.claim(grant.bid)
            client.is_old = False
            assert await store.renew(grant) == grant
            assert await store.claim(grant.bid) == grant

    play(story())


def test_a_renewal_tells_the_term_of_the_cluster(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with EtcdClient(etcd.endpoints, address=etcd.url) as client:
            lease = (await client.lease_grant(60)).lease
            before = (await client.status()).raft_term
            renewal = await client.lease_renewal(lease)
            assert 0 < before <= renewal.term <= (await client.status()).raft_term
            assert renewal.ttl_s == 60

    play(story())
