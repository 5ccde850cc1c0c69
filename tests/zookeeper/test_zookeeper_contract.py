"""The ZooKeeper store keeps the contract on every ZooKeeper that is at hand.

Each promise makes up the names of its elections and mostly waits for leases to end, so many run at once on one ensemble; the
one that restarts the engine has one of its own.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from tenure.stores.base import CanAskToResign, CanList, CanRenewTogether
from tenure.stores.zookeeper import from_url
from tenure.testing import CONTRACT, RESTARTING, ContractBroken, Rig, check_promise
from tenure.testing.engines import ZooKeeperEnsemble
from tests.sharing import TICK_MS
from tests.zookeeper.zookeeper_rig import ZooKeeperRig

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

PARTS = 3
OTHERS = [promise for promise in CONTRACT if promise not in RESTARTING]


async def broken_promises(ensemble: ZooKeeperEnsemble, promises: list[str]) -> dict[str, str]:
    broken = dict.fromkeys(promises, "was not checked")

    @asynccontextmanager
    async def make() -> AsyncIterator[Rig]:
        yield ZooKeeperRig(ensemble)

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


@pytest.mark.parametrize("part", range(PARTS))
async def test_the_zookeeper_store_keeps_the_contract(part: int, ensemble: ZooKeeperEnsemble) -> None:
    promises = OTHERS[part::PARTS]
    assert len(promises) > 10
    assert await broken_promises(ensemble, promises) == {}


async def test_what_must_survive_does_survive_a_restart_of_all_servers(own_ensemble: ZooKeeperEnsemble) -> None:
    for promise in sorted(RESTARTING):
        assert await broken_promises(own_ensemble, [promise]) == {}


async def test_the_store_says_what_it_can_do(newest: ZooKeeperEnsemble) -> None:
    async with from_url(newest.url) as store:
        assert isinstance(store, CanRenewTogether)
        assert isinstance(store, CanAskToResign)
        assert isinstance(store, CanList)
        assert store.traits.queue
        # Two ticks more than the ttl make a session, which may have twenty.
        assert store.traits.ttl_max_ns == 18 * TICK_MS * 10**6
