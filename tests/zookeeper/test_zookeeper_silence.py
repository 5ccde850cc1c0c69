"""A network that is silent for longer than the session of whoever only asks, and for less than anybody loses patience."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from tenure.clients.zookeeper import Session
from tenure.clients.zookeeper.wire import ANYBODY, create
from tenure.model import Document
from tenure.stores.zookeeper import ZooKeeperStore, from_url
from tenure.testing.engines import ZooKeeperEnsemble
from tests.proxy import Proxy
from tests.zookeeper.zookeeper_rig import bid, children_of, until, wins

pytestmark = pytest.mark.anyio

TIMEOUT_S = "60"  # Far more than a session of two ticks, also on a busy machine.


@asynccontextmanager
async def behind_a_proxy(ensemble: ZooKeeperEnsemble) -> AsyncIterator[tuple[Proxy, ZooKeeperStore]]:
    async with (
        Proxy(ensemble.endpoints[0]) as proxy,
        from_url(f"zookeeper://{proxy.endpoint}", timeout=TIMEOUT_S) as store,
    ):
        yield proxy, store


async def outlast(proxy: Proxy, url: str, session: Session, meanwhile: Callable[[], Awaitable[object]]) -> None:
    """Be silent until the ensemble has ended the session, of which nobody hears."""
    name = f"session-{session.id}"
    await session.ask(create(f"/{name}", b"", ANYBODY, ephemeral=True))
    proxy.hold_requests()

    async def ended() -> bool:
        await meanwhile()
        return name not in await children_of(url, "")

    await until(ended)
    assert session.over is None


def break_off(proxy: Proxy, ensemble: ZooKeeperEnsemble) -> None:
    """End the silence: what is heard first is that the server has closed the connection."""
    proxy.turn_to(ensemble.endpoints[0])


async def sent(session: Session) -> None:
    """Wait until something is asked that has no answer."""
    while session._link is None or not session._link._asked:  # noqa: ASYNC110  (in a few turns of this loop)
        await asyncio.sleep(0)


@pytest.mark.parametrize("asked_in_it", [True, False], ids=["in it", "right after it"])
async def test_a_silence_that_outlasts_the_session_fails_no_question(
    newest: ZooKeeperEnsemble, *, asked_in_it: bool
) -> None:
    name = f"silence/{asked_in_it}"
    async with from_url(newest.url) as other, behind_a_proxy(newest) as (proxy, store):
        grant = await wins(other, bid(name))
        seen = await other.swap(name, b"seen", None)
        questions: dict[str, Callable[[], Awaitable[object]]] = {
            "read": lambda: store.read(name),
            "elections": store.elections,
            "fetch": lambda: store.fetch(name),
            "ask to resign": lambda: store.ask_to_resign(name),
            "swap": lambda: store.swap(f"{name}/new", b"x", None),
        }
        session = await store._asking.session()
        await outlast(proxy, newest.url, session, lambda: other.renew(grant))
        if not asked_in_it:
            break_off(proxy, newest)
        asked = asyncio.gather(*(ask() for ask in questions.values()), return_exceptions=True)
        if asked_in_it:
            await sent(session)
            break_off(proxy, newest)
        said = dict(zip(questions, await asked, strict=True))
        assert {what: one for what, one in said.items() if isinstance(one, Exception)} == {}
        assert said["fetch"] == seen
        assert isinstance(said["swap"], Document)
        assert session.over is not None
        assert await other.renew(grant) == grant
        assert other.resign_asked(grant)
