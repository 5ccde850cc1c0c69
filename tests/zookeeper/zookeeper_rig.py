"""What the tests of the ZooKeeper store and sink share: the rig of the contract, and eyes and hands of an operator."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

import anyio
from anyio import to_thread

from tenure.clients.zookeeper import Code, Fault, Session, settings_of
from tenure.clients.zookeeper.wire import Request, delete, get_children, sync
from tenure.clock import BootClock
from tenure.errors import OutcomeUnknown, Unreachable
from tenure.model import Bid, Ended, Grant, Holder, Wait
from tenure.stores.base import Store
from tenure.stores.zookeeper import ZooKeeperStore, from_url
from tenure.testing.engines import ZooKeeperEnsemble
from tests.sharing import TICK_MS

Answer = TypeVar("Answer")

TTL_NS = TICK_MS * 17_500_000  # nearly the longest that such ticks allow, so that a busy machine keeps it
# Far more than anything takes that is waited for; a machine with all cores busy is ten times slower than an idle one.
LIMIT_S = 60


@asynccontextmanager
async def operator(url: str) -> AsyncIterator[Session]:
    """A session of somebody who looks and deletes by hand."""
    session = Session(settings_of(url), 4000, BootClock(), patience_s=10)
    await session.open()
    try:
        yield session
    finally:
        await session.close()


async def latest(session: Session, request: Request[Answer]) -> Answer:
    """Ask a session's server once it has caught up: what another session wrote since this one began may be news to it."""
    await session.ask(sync("/"))
    return await session.ask(request)


async def children_of(url: str, election: str) -> list[str]:
    async with operator(url) as session:
        try:
            return sorted((await session.ask(get_children(f"/{election}")))[0])
        except Fault as fault:
            if fault.code == Code.NO_NODE:
                return []
            raise


async def delete_children(url: str, election: str) -> None:
    async with operator(url) as session:
        for name in await children_of(url, election):
            with suppress(Fault):  # It may have gone by itself, or have children.
                await session.ask(delete(f"/{election}/{name}"))


async def until(seen: Callable[[], Awaitable[bool]]) -> None:
    """Wait for something that will happen; fails if it does not."""
    with anyio.fail_after(LIMIT_S):
        while not await seen():  # noqa: ASYNC110  (another process does it)
            await anyio.sleep(0.02)


def bid(election: str, holder: Holder | None = None, serial: int = 1, ttl_ns: int = TTL_NS) -> Bid:
    return Bid(election, holder or Holder.fresh(), serial, ttl_ns)


async def wins(store: Store, asked: Bid) -> Grant:
    answer = await store.claim(asked)
    assert isinstance(answer, Grant)
    return answer


async def waits(store: Store, asked: Bid) -> Wait:
    answer = await store.claim(asked)
    assert isinstance(answer, Wait)
    return answer


async def takes_over(store: Store, wait: Wait) -> Grant:
    """Stand by until the office is free, and take it."""
    answer: Grant | Wait = wait
    with anyio.fail_after(LIMIT_S):
        while isinstance(answer, Wait):
            await store.changed(answer)
            answer = await claimed(store, answer.bid)
    return answer


async def claimed(store: Store, asked: Bid) -> Grant | Wait:
    """Claim as the office does: again and again, until there is a definite answer."""
    with anyio.fail_after(LIMIT_S):
        while True:
            try:
                return await store.claim(asked)
            except (Unreachable, OutcomeUnknown):
                await anyio.sleep(0.02)


async def renewed(store: Store, grant: Grant) -> Grant | Ended:
    """Renew as the office does: again and again, until there is a definite answer."""
    with anyio.fail_after(LIMIT_S):
        while True:
            try:
                return await store.renew(grant)
            except (Unreachable, OutcomeUnknown):
                await anyio.sleep(0.02)


async def move(store: ZooKeeperStore, grant: Grant, endpoint: str) -> None:
    """Have the session of a tenure at this server, and the tenure go on."""
    session = session_of(store, grant.bid)
    with anyio.fail_after(LIMIT_S):
        while server_of(session) != endpoint:
            assert session._link is not None
            session._link.abort("moved by hand")
            assert await renewed(store, grant) == grant


def session_of(store: ZooKeeperStore, asked: Bid) -> Session:
    """The session that a bid's node lives by."""
    place = store._roster.places.find(asked)
    assert place is not None
    assert place.lease is not None
    return place.lease.session


def server_of(session: Session) -> str:
    """The endpoint of the server that a session is connected to."""
    return session._endpoints[0]


class ZooKeeperRig:
    """One ensemble in real time."""

    # Nearly the longest that such ticks allow. With 2 s a busy machine was late enough for a session to end.
    ttl_ns = TTL_NS

    def __init__(self, ensemble: ZooKeeperEnsemble) -> None:
        self.ensemble = ensemble

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Store]:
        async with from_url(self.ensemble.url) as store:
            yield store

    async def delete_record(self, election: str) -> None:
        await delete_children(self.ensemble.url, election)
        async with operator(self.ensemble.url) as session:
            with suppress(Fault):
                await session.ask(delete(f"/{election}"))

    async def restart(self) -> None:
        await to_thread.run_sync(self.ensemble.restart)

    async def pass_time(self, ns: int) -> None:
        await asyncio.sleep(ns / 1e9)
