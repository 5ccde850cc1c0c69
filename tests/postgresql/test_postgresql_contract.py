"""The PostgreSQL store keeps the contract, whoever's clock ends a lease."""

import pytest

from tenure.stores.base import CanAskToResign, CanList, CanProclaim, CanRenewTogether, Expiry, Wake
from tenure.stores.postgresql import from_url
from tenure.testing.engines import PostgresCluster
from tests.promises import broken_promises
from tests.sql_rig import SqlRig

pytestmark = pytest.mark.anyio


@pytest.mark.timeout(300)
@pytest.mark.parametrize("options", ["expiry=engine", "expiry=observer&poll=0.2"], ids=["engine", "observer"])
async def test_every_promise_is_kept(options: str, cluster: PostgresCluster) -> None:
    assert await broken_promises(SqlRig(cluster, options, "tenure.office"), at_once=16) == []


async def test_the_store_says_what_it_can_do(cluster: PostgresCluster) -> None:
    async with from_url(cluster.url) as store:
        for ability in (CanAskToResign, CanList, CanProclaim, CanRenewTogether):
            assert isinstance(store, ability)
        assert (store.traits.expiry, store.traits.wake) == (Expiry.ENGINE, Wake.NOTIFY)
        assert store.identity.startswith("postgresql/")
    assert from_url(f"{cluster.url}?expiry=observer").traits.expiry is Expiry.OBSERVER
