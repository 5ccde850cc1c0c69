"""The etcd sink keeps the contract of sinks on every etcd that is at hand."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from anyio import to_thread

from tenure.clients.etcd.client import EtcdClient
from tenure.clients.etcd.messages import Put, Range, RangeAnswer, Txn, TxnAnswer, created, prefix_end
from tenure.clients.etcd.opening import client_of
from tenure.errors import OutcomeUnknown, Refused, StaleToken
from tenure.model import Token
from tenure.sinks import Bound, EtcdSink, Verify
from tenure.testing import SINK_CONTRACT, ContractBroken, check_sink_promise
from tenure.testing.engines import EtcdCluster
from tests.etcd.etcd_faults import until
from tests.proxy import Proxy


class Dying(EtcdClient):
    """A client of one server behind a proxy. So many of its transactions pass, and none that comes later arrives."""

    def __init__(self, proxy: Proxy, passing: int) -> None:
        super().__init__([proxy.endpoint], address="etcd://dying", call_timeout_s=1)
        self._proxy, self._passing = proxy, passing

    async def txn(self, txn: Txn, *, operation: str) -> TxnAnswer:
        if self._passing == 0:
            self._proxy.hold_requests()
        self._passing -= 1
        return await super().txn(txn, operation=operation)


class EtcdSinkRig:
    """Values as keys below the name of the fence, in the order of their revisions."""

    def __init__(self, cluster: EtcdCluster) -> None:
        self.cluster = cluster

    @asynccontextmanager
    async def open(self, verify: Verify | None = None) -> AsyncIterator[EtcdSink]:
        async with EtcdSink(self.cluster.url, verify=verify) as sink:
            yield sink

    async def write(self, client: EtcdSink, term: Bound, value: str) -> None:
        await client.bind(term).put(f"{term.fence}/{value}".encode(), value.encode())

    async def read_all(self, fence: str) -> list[str]:
        prefix = f"{fence}/".encode()
        async with client_of(self.cluster.url) as client:
            found = await client.range(Range(prefix, prefix_end(prefix), oldest_first=True), operation="read")
        return [kv.value.decode() for kv in found.kvs]

    async def crash_between_check_and_write(self, term: Bound, value: str) -> None:
        """Check and write are one request, which is lost on its way. A token that is new is found to be so by one before."""
        async with Proxy(self.cluster.endpoints[0]) as proxy, client_of(self.cluster.url) as direct:
            key, own = EtcdSink(direct).guard(term)
            found = (await direct.range(Range(key), operation="look")).kvs
            passing = 0 if found and found[0].value == own else 1
            async with Dying(proxy, passing) as client:
                with pytest.raises(OutcomeUnknown):
                    await self.write(EtcdSink(client), term, value)
                assert proxy.held_bytes > 0

    async def restart(self) -> None:
        await to_thread.run_sync(self.cluster.restart)


def test_every_promise_is_kept(cluster: EtcdCluster) -> None:
    @asynccontextmanager
    async def make() -> AsyncIterator[EtcdSinkRig]:
        yield EtcdSinkRig(cluster)

    async def broken() -> list[str]:
        told = []
        for name in SINK_CONTRACT:
            try:
                await check_sink_promise(name, make)
            except ContractBroken as error:
                told.append(str(error))
        return told

    assert asyncio.run(broken()) == []


def test_a_writer_that_dies_at_any_of_its_requests_has_neither_written_nor_raised_the_fence(
    cluster: EtcdCluster,
) -> None:
    async def run() -> None:
        async with client_of(cluster.url) as direct:
            sink = EtcdSink(direct)
            await sink.seal("dies", Token(1))
            for passing in range(2):
                async with Proxy(cluster.endpoints[0]) as proxy, Dying(proxy, passing) as client:
                    with pytest.raises(OutcomeUnknown):
                        await EtcdSink(client).bind(SimpleNamespace(fence="dies", token=3)).put(b"dies/x", b"3")
                await sink.bind(SimpleNamespace(fence="dies", token=1)).delete(b"dies/y")  # It is not 3.
                assert (await direct.range(Range(b"dies/x"), operation="read")).kvs == ()
            # Two requests are all that it takes: there is no third one that it could die before.
            async with Proxy(cluster.endpoints[0]) as proxy, Dying(proxy, 2) as client:
                await EtcdSink(client).bind(SimpleNamespace(fence="dies", token=3)).put(b"dies/x", b"3")
            with pytest.raises(StaleToken, match="highest seen is 3"):
                await sink.bind(SimpleNamespace(fence="dies", token=2)).delete(b"dies/x")
            assert (await direct.range(Range(b"dies/x"), operation="read")).kvs[0].value == b"3"

    asyncio.run(run())


def test_a_write_that_was_on_its_way_when_its_leader_was_succeeded_changes_nothing_when_it_arrives(
    cluster: EtcdCluster,
) -> None:
    old, new = (SimpleNamespace(fence="late", token=token) for token in (1, 2))

    async def run() -> None:
        async with (
            Proxy(cluster.endpoints[0]) as proxy,
            client_of(f"etcd://{proxy.endpoint}", timeout="40") as behind,
            client_of(cluster.url) as direct,
        ):
            await EtcdSink(behind).bind(old).put(b"late/x", b"1")
            proxy.hold_requests()
            write = asyncio.create_task(EtcdSink(behind).bind(old).put(b"late/x", b"stale"))
            await until(lambda: proxy.held_bytes > 0)
            await EtcdSink(direct).bind(new).put(b"late/x", b"2")
            proxy.deliver()
            with pytest.raises(StaleToken, match="highest seen is 2"):
                await write
            assert (await direct.range(Range(b"late/x"), operation="read")).kvs[0].value == b"2"

    asyncio.run(run())


def test_a_transaction_of_the_callers_own_is_fenced_in_both_its_branches(cluster: EtcdCluster) -> None:
    old, new = (SimpleNamespace(fence="both-branches", token=token) for token in (1, 2))

    async def run() -> None:
        async with EtcdSink(cluster.url) as sink:
            answer = await sink.bind(old).txn([created(b"bb/x", 0)], [Put(b"bb/x", b"1")], [Range(b"bb/x")])
            assert answer.succeeded
            answer = await sink.bind(old).txn([created(b"bb/x", 0)], [Put(b"bb/x", b"2")], [Range(b"bb/x")])
            assert not answer.succeeded
            assert isinstance(answer.answers[0], RangeAnswer)
            assert answer.answers[0].kvs[0].value == b"1"
            await sink.seal(new.fence, Token(new.token))
            for compare in ([created(b"bb/x", 0)], []):
                with pytest.raises(StaleToken, match="highest seen is 2"):
                    await sink.bind(old).txn(compare, [Put(b"bb/x", b"stale")], [Put(b"bb/x", b"stale")])
            found = await sink.bind(new).txn([], [Range(b"bb/x")])
            assert isinstance(found.answers[0], RangeAnswer)
            assert found.answers[0].kvs[0].value == b"1"

    asyncio.run(run())


def test_the_guard_holds_in_a_transaction_of_another_program(cluster: EtcdCluster) -> None:
    term = SimpleNamespace(fence="guarded", token=7)

    async def seal(token: int) -> tuple[bytes, bytes]:
        async with EtcdSink(cluster.url) as sink:
            await sink.seal(term.fence, Token(token))
            return sink.guard(term)

    def write(value: str) -> str:
        # etcdctl reads three paragraphs: what must hold, what then, what else.
        words = f'value("{key.decode()}") = "{digits.decode()}"\n\nput guarded/x {value}\n\n\n'
        return cluster.ctl("txn", stdin=words).splitlines()[0]

    key, digits = asyncio.run(seal(7))
    assert write("first") == "SUCCESS"
    asyncio.run(seal(8))
    assert write("stale") == "FAILURE"
    assert cluster.ctl("get", "guarded/x", "--print-value-only").strip() == "first"


def test_a_fence_that_somebody_wrote_over_is_refused_in_one_line(cluster: EtcdCluster) -> None:
    cluster.ctl("put", "tenure/fence/rubbish", "seven")

    async def run() -> None:
        async with EtcdSink(cluster.url) as sink:
            await sink.seal("rubbish", Token(9))

    with pytest.raises(Refused, match="'seven' where a number must be"):
        asyncio.run(run())
    cluster.ctl("del", "tenure/fence/rubbish")  # Whoever lists the fences of this cluster would stumble over it.


def test_a_fence_that_was_mended_by_hand_without_leading_zeros_lets_its_leader_write(cluster: EtcdCluster) -> None:
    term = SimpleNamespace(fence="mended", token=7)
    cluster.ctl("put", "tenure/fence/mended", "7")

    async def run() -> None:
        async with EtcdSink(cluster.url) as sink:
            await sink.seal(term.fence, Token(term.token))
            await sink.bind(term).put(b"mended/x", b"1")
            with pytest.raises(StaleToken, match="highest seen is 7"):
                await sink.seal(term.fence, Token(6))

    asyncio.run(run())
    assert cluster.ctl("get", "mended/x", "--print-value-only").strip() == "1"
