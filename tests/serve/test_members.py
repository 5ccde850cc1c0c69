"""The servers of a store, asked one by one: on the page, and as a metric that an alert is made of."""

import asyncio
from collections.abc import Callable

import pytest

import tenure
from tenure.office.opened import run_there
from tenure.stores.examining import CanSeeMembers
from tenure.stores.memory import MemoryEngine
from tenure.testing.engines import EtcdCluster, ZooKeeperEnsemble
from tenure.testing.engines.cluster import Cluster
from tests.serve.inside import CountingStore, Inside, inside

_PATIENCE_S = 60.0


class ThreeServers(CountingStore):
    """A store of three servers, of which one is silent."""

    async def members(self) -> dict[str, str | None]:
        return {"h1": None, "h2": None, "h3": "connection refused"}


async def _until(looks: Callable[[], bool]) -> None:
    async with asyncio.timeout(_PATIENCE_S):
        while not looks():  # noqa: ASYNC110  (nothing wakes us for it)
            await asyncio.sleep(0.01)


def test_a_silent_server_is_on_the_page_and_in_the_metrics() -> None:
    async def test(here: Inside) -> None:
        await here.until(200)
        await here.look()
        await _until(lambda: here.sidecar.board.as_json()["store"]["members"] is not None)
        shown = (await here.client.get("/v1/board")).json()
        assert shown["store"]["members"] == [
            {"name": "h1", "ok": True},
            {"name": "h2", "ok": True},
            {"name": "h3", "ok": False},
        ]
        assert shown["store"]["quorum"] == 2
        told = shown["headline"]
        assert (told["level"], told["text"]) == ("warn", "The store has no node to spare: 1 of 3 is down")
        assert told["also"] == ["The only election has a leader"]
        scraped = (await here.client.get("/metrics")).text
        (line,) = [
            line for line in scraped.splitlines() if line.startswith("tenure_store_findings{") and "members" in line
        ]
        assert 'level="warning"' in line
        assert line.endswith(" 1.0")

    async def main() -> None:
        async with inside(store=ThreeServers(MemoryEngine()), stand=("jobs",)) as here:
            await test(here)

    asyncio.run(main())


@pytest.mark.parametrize("cluster_of", [EtcdCluster, ZooKeeperEnsemble], ids=["etcd", "zookeeper"])
def test_a_server_that_is_killed_is_told_from_those_that_answer(cluster_of: Callable[[], Cluster]) -> None:
    async def main(cluster: Cluster) -> None:
        async with tenure.open_store(cluster.url) as opened:
            store = opened.store
            assert isinstance(store, CanSeeMembers)
            before: dict[str, str | None] = await run_there(opened.office, store.members())
            assert list(before.values()) == [None, None, None]
            cluster.nodes[0].kill()
            after: dict[str, str | None] = await run_there(opened.office, store.members())
            assert sorted(silence is None for silence in after.values()) == [False, True, True]

    with cluster_of() as cluster:
        asyncio.run(main(cluster))
