"""A service on asyncio whose durable mark is in a real PostgreSQL. It serves whom the mark lets through, and checks nothing itself."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from secrets import token_hex
from typing import Any

import httpx
import pytest

from tenure.model import Token
from tenure.sinks import PostgresSink
from tenure.sinks.http import Presented
from tenure.sinks.http.header import value_of
from tenure.testing.engines import PostgresCluster
from tenure.web import FencedASGI, Guard, Route

AT_ONCE = 20
Ask = Callable[[int], Awaitable[httpx.Response]]


@pytest.fixture
def fence() -> str:
    return f"etcd://h1/{token_hex(4)}"


@pytest.fixture
def served() -> list[int]:
    """The tokens under which the service did what it was asked."""
    return []


@asynccontextmanager
async def service(
    cluster: PostgresCluster, fence: str, served: list[int], **options: Any
) -> AsyncIterator[tuple[Ask, PostgresSink]]:
    """One process of the service, and its mark."""
    async with PostgresSink(cluster.url) as mark:

        async def app(scope: Any, _: Any, send: Any) -> None:
            served.append(scope["tenure"].token)
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        fenced = FencedASGI(app, Guard([Route("/", fence)], mark, **options))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(fenced), base_url="http://service") as client:

            async def ask(token: int) -> httpx.Response:
                value = value_of(Presented(Token(token), fence))
                return await client.post("/entries", headers={"Tenure-Token": value})

            yield ask, mark


def test_the_mark_is_durable_shared_by_processes_and_written_once_for_each_token(
    postgresql: PostgresCluster, fence: str, served: list[int]
) -> None:
    version = f"SELECT xmin FROM tenure_fence.fences WHERE fence = '{fence}'"  # noqa: S608

    async def run() -> None:
        async with (
            service(postgresql, fence, served) as (ask, _),
            service(postgresql, fence, served) as (ask_another, __),
        ):
            assert (await ask(7)).status_code == 200
            before = await asyncio.to_thread(postgresql.sql, version)
            answers = await asyncio.gather(*(each(7) for each in [ask, ask_another] * AT_ONCE))
            assert {answer.status_code for answer in answers} == {200}
            assert await asyncio.to_thread(postgresql.sql, version) == before
            assert (await ask(9)).status_code == 200
            await asyncio.to_thread(postgresql.restart)
            for each in (ask, ask_another):
                stale = await each(8)
                assert (stale.status_code, stale.headers["tenure-highest"]) == (409, "9")

    asyncio.run(run())
    assert served == [7] * (1 + 2 * AT_ONCE) + [9]


def test_a_token_that_nobody_confirms_raises_nothing(
    postgresql: PostgresCluster, fence: str, served: list[int]
) -> None:
    async def run() -> None:
        async with service(postgresql, fence, served, verify=lambda _, token: token < 100) as (ask, mark):
            assert (await ask(3)).status_code == 200
            assert (await ask(2**62)).status_code == 403
            assert await mark.highest(fence) == 3
            assert (await ask(4)).status_code == 200

    asyncio.run(run())
    assert served == [3, 4]


def test_a_mark_that_cannot_be_asked_lets_nobody_through(
    postgresql: PostgresCluster, fence: str, served: list[int]
) -> None:
    async def run() -> None:
        async with service(postgresql, fence, served) as (ask, _):
            assert (await ask(3)).status_code == 200
            await asyncio.to_thread(postgresql.nodes[0].kill)
            for token in (3, 4):
                assert (await ask(token)).status_code == 503
            await asyncio.to_thread(postgresql.mend)
            assert (await ask(4)).status_code == 200
            assert (await ask(3)).status_code == 409

    try:
        asyncio.run(run())
    finally:
        postgresql.mend()
    assert served == [3, 4]
