"""The Kubernetes store keeps the contract, with tokens of both kinds.

Each promise makes up the names of its elections and mostly waits for leases to end, so many run at once on one cluster; the
one that restarts the engine comes by itself.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from tenure.stores.base import CanAskToResign, CanList, CanProclaim, CanRenewGroups, Expiry
from tenure.stores.kubernetes import from_url
from tenure.testing import CONTRACT, RESTARTING, ContractBroken, Rig, check_promise
from tenure.testing.engines import KubernetesCluster
from tests.kubernetes.kubernetes_rig import KubernetesRig

pytestmark = pytest.mark.anyio

PARTS = 4
OTHERS = [promise for promise in CONTRACT if promise not in RESTARTING]
BY_VERSION = "&token=resourceversion"
tokens = pytest.mark.parametrize("options", ["", BY_VERSION], ids=["leasetransitions", "resourceversion"])


async def broken_promises(cluster: KubernetesCluster, options: str, promises: list[str]) -> dict[str, str]:
    broken = dict.fromkeys(promises, "was not checked")

    @asynccontextmanager
    async def make() -> AsyncIterator[Rig]:
        yield KubernetesRig(cluster, options)

    async def keep(promise: str) -> None:
        try:
            await check_promise(promise, make)
            del broken[promise]
        except ContractBroken as error:
            broken[promise] = error.detail

    async with anyio.create_task_group() as tasks:
        for promise in promises:
            tasks.start_soon(keep, promise)
    return broken


@tokens
@pytest.mark.timeout(240)
@pytest.mark.parametrize("part", range(PARTS))
async def test_the_kubernetes_store_keeps_the_contract(part: int, options: str, cluster: KubernetesCluster) -> None:
    promises = OTHERS[part::PARTS]
    assert len(promises) >= 8
    assert await broken_promises(cluster, options, promises) == {}


@tokens
@pytest.mark.timeout(240)
async def test_what_must_survive_does_survive_a_restart_of_the_api_server(
    options: str, cluster: KubernetesCluster
) -> None:
    for promise in sorted(RESTARTING):
        assert await broken_promises(cluster, options, [promise]) == {}


async def test_the_store_says_what_it_can_do(cluster: KubernetesCluster) -> None:
    async with from_url(cluster.url) as store:
        assert isinstance(store, CanAskToResign)
        assert isinstance(store, CanList)
        assert isinstance(store, CanProclaim)
        # Every Lease is an object of its own, and no request writes two: but one round renews all, some at once.
        assert isinstance(store, CanRenewGroups)
        assert (store.traits.expiry, store.traits.ttl_min_ns) == (Expiry.OBSERVER, 10**9)
