"""A key whose answer was lost, and that somebody has meanwhile taken off its lease."""

import pytest

from tenure.clients.etcd.client import EtcdClient
from tenure.clients.etcd.messages import Delete, Put, Txn, TxnAnswer
from tenure.clients.etcd.opening import client_of
from tenure.errors import OutcomeUnknown
from tenure.model import Grant
from tenure.stores.etcd.store import EtcdStore
from tenure.testing.engines import EtcdCluster
from tests.etcd.etcd_faults import bid_of, keys, play


class Meddled(EtcdClient):
    """A client whose first answer is lost; its key is then written by hand, and deleted as soon as it is found again."""

    def __init__(self, cluster: EtcdCluster, operator: EtcdClient) -> None:
        super().__init__(cluster.endpoints, address=cluster.url)
        self._operator, self._claim_count = operator, 0

    async def txn(self, txn: Txn, *, operation: str) -> TxnAnswer:
        answer = await super().txn(txn, operation=operation)
        put = next((one for one in txn.success if isinstance(one, Put)), None)
        if operation == "claim" and put is not None:
            self._claim_count += 1
            if self._claim_count == 1:
                await self._operator.txn(Txn((), (Put(put.key, put.value),)), operation="by hand")
                raise OutcomeUnknown(self.address, operation, "the answer was lost")
            if self._claim_count == 2:
                assert not answer.succeeded
                await self._operator.txn(Txn((), (Delete(put.key),)), operation="by hand")
        return answer


def test_a_key_that_was_taken_off_its_lease_and_deleted_grants_nothing(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with client_of(etcd.url) as direct, EtcdStore(Meddled(etcd, direct)) as store:
            bid = bid_of("meddled")
            with pytest.raises(OutcomeUnknown, match="the answer was lost"):
                await store.claim(bid)
            (found,) = await keys(direct, "meddled")
            assert found.lease == 0
            grant = await store.claim(bid)
            assert isinstance(grant, Grant)
            (key,) = await keys(direct, "meddled")
            assert key.create_revision == grant.token
            assert key.lease != 0

    play(story())
