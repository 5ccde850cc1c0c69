"""Two datacentres: by ``dc=`` one can look at the other one, and write to it, but not stand there."""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from tenure.errors import ConfigError, Refused, StaleToken
from tenure.model import Grant, Token
from tenure.sinks import ConsulSink
from tenure.stores.consul import from_url
from tenure.testing.engines import ConsulCluster, EngineFailed
from tests.etcd.etcd_faults import bid_of, play


@pytest.fixture(scope="module")
def east() -> Iterator[ConsulCluster]:
    with ConsulCluster(size=1, datacentre="east") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def west(east: ConsulCluster) -> Iterator[ConsulCluster]:
    with ConsulCluster(size=1, agent_count=1, datacentre="west", beside=east) as cluster:
        yield cluster


@pytest.fixture(params=["a server", "a client agent"])
def east_by_west(west: ConsulCluster, request: pytest.FixtureRequest) -> str:
    """How the eastern one is named at an agent of the western one."""
    node = west.nodes[0] if request.param == "a server" else west.agents[0]
    return f"consul://{node.endpoint}?dc=east"


def test_who_leads_in_another_datacentre_is_seen_from_here_and_leads_nothing_here(
    east: ConsulCluster, west: ConsulCluster, east_by_west: str
) -> None:
    async def story() -> None:
        async with from_url(east.url) as there, from_url(west.url) as here, from_url(east_by_west) as from_here:
            bid = bid_of("seen", ttl_s=60)
            grant = await there.claim(bid)
            assert isinstance(grant, Grant)
            incumbent = await from_here.read("seen")
            assert incumbent is not None
            assert (incumbent.holder, incumbent.token) == (bid.holder, grant.token)
            assert [status.election for status in await from_here.elections()] == ["seen"]
            assert from_here.identity == there.identity != here.identity
            assert await here.read("seen") is None
            # The same name is another election there.
            second = await here.claim(bid_of("seen", ttl_s=60))
            assert isinstance(second, Grant)
            await here.release(second.bid)
            await there.release(bid)
            assert await from_here.read("seen") is None

    play(story())


def test_who_stands_in_another_datacentre_is_told_in_one_line_to_name_its_agents(
    east: ConsulCluster, east_by_west: str
) -> None:
    async def story() -> None:
        async with from_url(east_by_west) as from_here, from_url(east.url) as there:
            with pytest.raises(Refused, match="name agents of that datacentre in the URL") as told:
                await from_here.claim(bid_of("stood", ttl_s=60))
            assert "\n" not in str(told.value)
            assert await there.read("stood") is None

    play(story())


def test_a_sink_writes_to_another_datacentre_and_is_fenced_there(
    east: ConsulCluster, west: ConsulCluster, east_by_west: str
) -> None:
    fence = f"abroad/{east_by_west}"
    old, new = (SimpleNamespace(fence=fence, token=token) for token in (1, 2))

    async def story() -> None:
        async with ConsulSink(east_by_west) as from_here, ConsulSink(east.url) as there:
            await from_here.bind(old).put("abroad/x", b"by the old one")
            assert await asyncio.to_thread(east.ctl, "kv", "get", "abroad/x") == "by the old one\n"
            with pytest.raises(EngineFailed):
                await asyncio.to_thread(west.ctl, "kv", "get", "abroad/x")
            await there.seal(new.fence, Token(new.token))
            with pytest.raises(StaleToken, match="highest seen is 2"):
                await from_here.bind(old).put("abroad/x", b"stale")
            await from_here.bind(new).put("abroad/x", b"by the new one")
            with pytest.raises(StaleToken, match="highest seen is 2"):
                await there.bind(old).put("abroad/x", b"stale")

    play(story())
    assert east.ctl("kv", "get", "abroad/x") == "by the new one\n"


def test_clusters_that_are_to_speak_to_each_other_must_be_in_a_datacentre_each(east: ConsulCluster) -> None:
    with pytest.raises(ConfigError, match="need one each"):
        ConsulCluster(beside=east)
    with pytest.raises(ConfigError, match="need one each"):
        ConsulCluster(datacentre="west", beside=ConsulCluster())
