"""The Consul sink keeps the contract of sinks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from anyio import to_thread

from tenure.clients.consul.client import ConsulClient
from tenure.clients.consul.failures import Conflict
from tenure.clients.consul.messages import put, put_if_unchanged
from tenure.clients.consul.settings import settings_of
from tenure.errors import OutcomeUnknown, Refused, StaleToken
from tenure.model import Token
from tenure.sinks import Bound, ConsulSink, Verify
from tenure.sinks.consul import FENCES
from tenure.testing import SINK_CONTRACT, ContractBroken, check_sink_promise
from tenure.testing.engines import ConsulCluster, EngineFailed
from tests.proxy import Proxy


class ConsulSinkRig:
    """Values as keys below the name of the fence, in the order of their indexes."""

    def __init__(self, cluster: ConsulCluster) -> None:
        self.cluster = cluster

    @asynccontextmanager
    async def open(self, verify: Verify | None = None) -> AsyncIterator[ConsulSink]:
        async with ConsulSink(self.cluster.url, verify=verify) as sink:
            yield sink

    async def write(self, client: ConsulSink, term: Bound, value: str) -> None:
        await client.bind(term).put(f"{term.fence}/{value}", value.encode())

    async def read_all(self, fence: str) -> list[str]:
        async with ConsulClient(settings_of(self.cluster.url)) as client:
            # Not by its path: of one with .. in it Consul makes another.
            tree = {"KV": {"Verb": "get-tree", "Key": f"{fence}/"}}
            pairs = await client.txn([tree], operation="read")
        return [pair.value.decode() for pair in sorted(pairs, key=lambda pair: pair.modify_index)]

    async def crash_between_check_and_write(self, term: Bound, value: str) -> None:
        """Check and write are one request, which is lost on its way.

        A sink that knows its fence sends nothing else. One that does not has to ask for it first, and then that is lost: had it
        raised the fence before it died, the fence would be raised, as by any seal.
        """
        async with (
            Proxy(self.cluster.endpoints[0]) as proxy,
            ConsulSink(f"consul://{proxy.endpoint}?timeout=1") as sink,
        ):
            if await self._highest(term.fence) == term.token:
                await sink.seal(term.fence, Token(term.token))
                assert term.fence in sink._sealed
            else:
                await sink._client.leader()  # So that there is a connection whose requests can be kept back.
            proxy.hold_requests()
            with pytest.raises(OutcomeUnknown, match="no answer within"):
                await self.write(sink, term, value)
            assert proxy.held_bytes

    async def _highest(self, fence: str) -> int:
        async with ConsulClient(settings_of(self.cluster.url)) as client:
            pair = await client.get(f"{FENCES}{fence}", operation="read")
        return 0 if pair is None else int(pair.value)

    async def restart(self) -> None:
        await to_thread.run_sync(self._restart)

    def _restart(self) -> None:
        for node in self.cluster.nodes:
            node.kill()
        for node in self.cluster.nodes:
            node.start()
        self.cluster.leader()


def test_every_promise_is_kept(cluster: ConsulCluster) -> None:
    @asynccontextmanager
    async def make() -> AsyncIterator[ConsulSinkRig]:
        yield ConsulSinkRig(cluster)

    async def broken() -> list[str]:
        told = []
        for name in SINK_CONTRACT:
            try:
                await check_sink_promise(name, make)
            except ContractBroken as error:
                told.append(str(error))
        return told

    assert asyncio.run(broken()) == []


def test_a_transaction_of_the_callers_own_is_fenced_and_says_which_of_its_operations_was_refused(
    cluster: ConsulCluster,
) -> None:
    old, new = (SimpleNamespace(fence="own", token=token) for token in (1, 2))

    async def run() -> None:
        async with ConsulSink(cluster.url) as sink, ConsulSink(cluster.url) as another:
            results = await sink.bind(old).txn([put("own/x", b"1"), put("own/y", b"1")])
            assert [pair.key for pair in results] == ["own/x", "own/y"]
            with pytest.raises(Conflict) as told:
                await sink.bind(old).txn([put("own/x", b"2"), put_if_unchanged("own/y", b"2", 0, 0)])
            assert list(told.value.errors) == [1]
            await another.seal(new.fence, Token(new.token))
            for ops in ([put("own/x", b"stale")], [put_if_unchanged("own/y", b"stale", 0, 0)]):
                with pytest.raises(StaleToken, match="highest seen is 2"):
                    await sink.bind(old).txn(ops)
            await sink.bind(new).delete("own/y")

    asyncio.run(run())
    assert cluster.ctl("kv", "get", "own/x").strip() == "1"
    with pytest.raises(EngineFailed):
        cluster.ctl("kv", "get", "own/y")


def test_the_guard_holds_in_a_transaction_of_another_program(cluster: ConsulCluster) -> None:
    term = SimpleNamespace(fence="guarded", token=7)

    async def sealed(token: int) -> None:
        async with ConsulSink(cluster.url) as sink:
            await sink.seal(term.fence, Token(token))

    async def guard_of() -> object:
        async with ConsulSink(cluster.url) as sink:
            return await sink.guard(term)

    guard = asyncio.run(guard_of())
    cluster.api("PUT", "/v1/txn", [guard, put("guarded/x", b"first")])
    asyncio.run(sealed(8))
    with pytest.raises(EngineFailed, match="failed index check"):
        cluster.api("PUT", "/v1/txn", [guard, put("guarded/x", b"stale")])
    assert cluster.ctl("kv", "get", "guarded/x").strip() == "first"
    with pytest.raises(StaleToken):
        asyncio.run(guard_of())


def test_a_fence_that_somebody_wrote_over_is_refused_in_one_line(cluster: ConsulCluster) -> None:
    cluster.ctl("kv", "put", "tenure/fence/rubbish", "seven")

    async def run() -> None:
        async with ConsulSink(cluster.url) as sink:
            await sink.seal("rubbish", Token(9))

    with pytest.raises(Refused, match="'seven' where a number must be"):
        asyncio.run(run())


def test_a_fence_that_was_written_again_by_hand_lets_its_leader_write(cluster: ConsulCluster) -> None:
    term = SimpleNamespace(fence="mended", token=7)

    async def run() -> None:
        async with ConsulSink(cluster.url) as sink:
            await sink.bind(term).put("mended/x", b"1")
            await asyncio.to_thread(cluster.ctl, "kv", "put", "tenure/fence/mended", "7")
            await sink.bind(term).put("mended/x", b"2")
            with pytest.raises(StaleToken, match="highest seen is 7"):
                await sink.seal(term.fence, Token(6))

    asyncio.run(run())
    assert cluster.ctl("kv", "get", "mended/x").strip() == "2"
