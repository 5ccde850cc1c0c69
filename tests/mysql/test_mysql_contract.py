"""The MySQL store, on MariaDB, keeps the contract, whoever's clock ends a lease."""

import pytest

from tenure.stores.base import CanAskToResign, CanList, CanProclaim, CanRenewTogether, Expiry, Wake
from tenure.stores.mysql import from_url
from tenure.testing.engines import MariaDbCluster
from tests.promises import broken_promises
from tests.sql_rig import SqlRig

pytestmark = pytest.mark.anyio


@pytest.mark.timeout(300)
@pytest.mark.parametrize("options", ["expiry=engine&poll=0.2", "expiry=observer&poll=0.2"], ids=["engine", "observer"])
async def test_every_promise_is_kept(options: str, cluster: MariaDbCluster) -> None:
    assert await broken_promises(SqlRig(cluster, options, "test.tenure_office"), at_once=16) == []


async def test_the_store_says_what_it_can_do(cluster: MariaDbCluster) -> None:
    async with from_url(cluster.url) as store:
        for ability in (CanAskToResign, CanList, CanProclaim, CanRenewTogether):
            assert isinstance(store, ability)
        assert (store.traits.expiry, store.traits.wake) == (Expiry.ENGINE, Wake.POLL)
        assert store.identity.startswith("mysql/")
    assert from_url(f"{cluster.url}?expiry=observer").traits.expiry is Expiry.OBSERVER
