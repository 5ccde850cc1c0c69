"""The ZooKeeper sink keeps the contract, and what only ZooKeeper can do to it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
from anyio import to_thread
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tenure.clients.zookeeper import Code, Fault
from tenure.clients.zookeeper.paths import make_path
from tenure.clients.zookeeper.wire import (
    ANYBODY,
    Request,
    check,
    create,
    delete,
    get_children,
    get_data,
    set_data,
)
from tenure.errors import OutcomeUnknown, Refused, StaleToken, Unreachable
from tenure.model import Token
from tenure.sinks.base import Bound, Verify
from tenure.sinks.zookeeper import ZooKeeperSink
from tenure.testing import SINK_CONTRACT, check_sink_promise
from tenure.testing.engines import ZooKeeperEnsemble
from tests.proxy import Proxy
from tests.zookeeper.zookeeper_rig import latest, operator

pytestmark = pytest.mark.anyio

DATA = "/sink-data"


class ZooKeeperSinkRig:
    """One ensemble. Every fence has a node, below which each write makes one more."""

    def __init__(self, ensemble: ZooKeeperEnsemble) -> None:
        self.ensemble = ensemble

    @asynccontextmanager
    async def open(self, verify: Verify | None = None) -> AsyncIterator[ZooKeeperSink]:
        async with ZooKeeperSink(self.ensemble.url, verify=verify) as sink:
            yield sink

    def path(self, fence: str) -> str:
        return f"{DATA}/{quote(fence, safe='')}"

    async def write(self, client: ZooKeeperSink, term: Bound, value: str) -> None:
        async with operator(self.ensemble.url) as session:
            await make_path(session, self.path(term.fence), ANYBODY)
        await client.bind(term).create(f"{self.path(term.fence)}/n-", value.encode(), sequential=True)

    async def read_all(self, fence: str) -> list[str]:
        async with operator(self.ensemble.url) as session:
            try:
                names, _ = await latest(session, get_children(self.path(fence)))
            except Fault:
                return []
            return [(await session.ask(get_data(f"{self.path(fence)}/{name}")))[0].decode() for name in sorted(names)]

    async def crash_between_check_and_write(self, term: Bound, value: str) -> None:
        """Both are one request, which is lost on its way."""
        async with Proxy(self.ensemble.endpoints[0]) as proxy:
            sink = ZooKeeperSink(f"zookeeper://{proxy.endpoint}", timeout="2")
            async with sink:
                proxy.hold_requests()
                with suppress(OutcomeUnknown, Unreachable):
                    await self.write(sink, term, value)

    async def restart(self) -> None:
        await to_thread.run_sync(self.ensemble.restart)


def term(fence: str, token: int) -> Bound:
    return SimpleNamespace(fence=fence, token=token)


@pytest.mark.parametrize("promise", SINK_CONTRACT)
async def test_the_zookeeper_sink_keeps_each_promise(promise: str, ensemble: ZooKeeperEnsemble) -> None:
    @asynccontextmanager
    async def make() -> AsyncIterator[ZooKeeperSinkRig]:
        yield ZooKeeperSinkRig(ensemble)

    await check_sink_promise(promise, make)


async def test_a_callers_own_multi_is_carried_out_as_a_whole_or_not_at_all(newest: ZooKeeperEnsemble) -> None:
    async with ZooKeeperSink(newest.url) as sink, operator(newest.url) as session:
        await make_path(session, "/sink-multi", ANYBODY)
        bound = sink.bind(term("multi", 1))
        await bound.multi(create("/sink-multi/a", b"1", ANYBODY), create("/sink-multi/b", b"1", ANYBODY))
        with pytest.raises(Refused, match="part 2"):
            await bound.multi(set_data("/sink-multi/a", b"2"), check("/sink-multi/b", 7))
        await sink.seal("multi", Token(2))
        with pytest.raises(StaleToken):
            await bound.multi(set_data("/sink-multi/a", b"3"), delete("/sink-multi/b"))
        assert (await latest(session, get_data("/sink-multi/a")))[0] == b"1"
        assert (await sink.bind(term("multi", 2)).set("/sink-multi/a", b"4", 0)).version == 1
        await sink.bind(term("multi", 2)).delete("/sink-multi/b")


async def test_another_client_is_fenced_by_the_node_that_the_sink_names(newest: ZooKeeperEnsemble) -> None:
    client = KazooClient(newest.url.removeprefix("zookeeper://"))
    await to_thread.run_sync(client.start)
    try:
        async with ZooKeeperSink(newest.url) as sink:
            await sink.seal("kazoo", Token(1))

            def write(value: bytes) -> list[object]:
                transaction = client.transaction()
                transaction.check(sink.guard(term("kazoo", 1)), -1)
                transaction.create(f"/sink-kazoo-{value.decode()}", value)
                return list(transaction.commit())

            assert (await to_thread.run_sync(write, b"one"))[1] == "/sink-kazoo-one"
            await sink.seal("kazoo", Token(2))
            assert isinstance((await to_thread.run_sync(write, b"two"))[0], NoNodeError)
            assert client.exists("/sink-kazoo-two") is None
    finally:
        await to_thread.run_sync(client.stop)
        client.close()


async def test_a_fence_that_was_deleted_and_made_anew_still_refuses_who_was_succeeded(
    newest: ZooKeeperEnsemble,
) -> None:
    async with ZooKeeperSink(newest.url) as sink, operator(newest.url) as session:
        await sink.seal("anew", Token(1))
        old = sink.guard(term("anew", 1))
        for path in (old, old.rpartition("/")[0]):
            await session.ask(delete(path))
        await sink.seal("anew", Token(2))  # Its version is what the old one's was.
        with pytest.raises(StaleToken):
            await sink.bind(term("anew", 1)).create("/sink-anew")


async def test_seals_that_race_leave_the_highest(newest: ZooKeeperEnsemble) -> None:
    async with ZooKeeperSink(newest.url) as sink, ZooKeeperSink(newest.url) as other:
        tokens = [3, 9, 5, 7, 1, 8]
        outcomes = await asyncio.gather(
            *((sink, other)[token % 2].seal("race", Token(token)) for token in tokens), return_exceptions=True
        )
        assert all(outcome is None or isinstance(outcome, StaleToken) for outcome in outcomes)
        assert outcomes[tokens.index(9)] is None
        with pytest.raises(StaleToken):
            await sink.seal("race", Token(8))


async def test_a_fence_that_holds_no_number_is_said_to_be_broken(newest: ZooKeeperEnsemble) -> None:
    async with ZooKeeperSink(newest.url) as sink, operator(newest.url) as session:
        await sink.seal("broken", Token(1))
        await session.ask(set_data(sink.guard(term("broken", 1)).rpartition("/")[0], b"many"))
        with pytest.raises(Refused, match="mend it"):
            await sink.seal("broken", Token(2))


async def test_a_fence_that_a_user_made_is_closed_to_all_others(newest: ZooKeeperEnsemble) -> None:
    # The nodes above all fences belong to whoever came first, so the user has a place of its own.
    url = f"{newest.url}/sink-closed"
    async with (
        ZooKeeperSink(url.replace("://", "://ada:sesame@")) as ada,
        ZooKeeperSink(url) as anybody,
        operator(newest.url) as session,
    ):
        await ada.seal("closed", Token(5))
        mark = ada.guard(term("closed", 5))
        fence = mark.rpartition("/")[0]
        attempts: tuple[Request[Any], ...] = (
            get_data(fence),
            set_data(fence, b"9"),
            create(f"{fence}/9", b"", ANYBODY),
            delete(mark),
            set_data(mark, b""),
            create(f"{fence}-too", b"", ANYBODY),
        )
        for attempt in attempts:
            with pytest.raises(Fault) as refused:
                await latest(session, attempt)
            assert refused.value.code == Code.NO_AUTH
        with pytest.raises(Refused, match="the ACL of a node refuses us"):
            await anybody.seal("closed", Token(9))
        with pytest.raises(Refused, match="the ACL of a node refuses us"):
            await anybody.bind(term("closed", 9)).create("/sink-forged")
        await ada.bind(term("closed", 5)).create("/sink-allowed")
        await ada.seal("closed", Token(6))
