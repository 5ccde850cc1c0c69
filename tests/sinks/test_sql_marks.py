"""Databases as marks of services and workers: the rule, and that a known token is not written again."""

import asyncio
from typing import Any

import pytest

from tenure.errors import StaleToken, UnverifiedToken
from tenure.model import Token
from tenure.sinks import MySQLSink, Orders, PostgresSink, PsycopgSink, PyMySQLSink
from tenure.sinks.http import Presented
from tenure.sinks.http.header import value_of
from tenure.sinks.marks import admit
from tenure.testing.engines import MariaDbCluster, PostgresCluster
from tenure.web import FencedWSGI, Guard, Route

FENCE = "etcd://h1/marks"


async def highest_after_use(mark: Any, fence: str) -> object:
    await admit(mark, fence, Token(3), None)
    await admit(mark, fence, Token(3), lambda *_: False)  # It is known, so nobody is asked.
    with pytest.raises(StaleToken, match="token 2 is stale: the highest seen is 3"):
        await admit(mark, fence, Token(2), None)
    with pytest.raises(UnverifiedToken):
        await admit(mark, fence, Token(2**62), lambda *_: False)
    await admit(mark, fence, Token(4), lambda *_: True)
    highest = await _finished(mark.highest(fence))
    await _finished(mark.close())
    return highest


async def _finished(answer: Any) -> object:
    return await answer if asyncio.iscoroutine(answer) else answer


@pytest.mark.parametrize("kind", [PostgresSink, PsycopgSink])
def test_postgresql_is_a_mark(kind: Any, postgresql: PostgresCluster) -> None:
    async def run() -> object:
        return await highest_after_use(kind(postgresql.url), f"{FENCE}-{kind.__name__}")

    assert asyncio.run(run()) == 4


@pytest.mark.parametrize("kind", [MySQLSink, PyMySQLSink])
def test_mysql_is_a_mark(kind: Any, mariadb: MariaDbCluster) -> None:
    async def run() -> object:
        return await highest_after_use(kind(mariadb.url), f"{FENCE}-{kind.__name__}")

    assert asyncio.run(run()) == 4


def test_a_known_token_is_not_written_again(postgresql: PostgresCluster) -> None:
    version = "SELECT xmin FROM tenure_fence.fences WHERE fence = 'etcd://h1/marks'"
    with PsycopgSink(postgresql.url) as mark:
        guard = Guard([Route("/", FENCE)], mark)
        app = FencedWSGI(_answering, guard)
        assert _ask(app, 7) == "200 OK"
        before = postgresql.sql(version)
        assert [_ask(app, 7) for _ in range(20)] == ["200 OK"] * 20
        assert postgresql.sql(version) == before
        assert _ask(app, 6) == "409 Conflict"


def test_a_worker_keeps_its_mark_in_a_database(postgresql: PostgresCluster) -> None:
    with PsycopgSink(postgresql.url) as mark:
        orders = Orders(mark)
        orders.accept(Presented(Token(5), f"{FENCE}-orders"))
    with PsycopgSink(postgresql.url) as mark, pytest.raises(StaleToken):
        Orders(mark).accept(Presented(Token(4), f"{FENCE}-orders"))


def _answering(_: Any, start_response: Any) -> list[bytes]:
    start_response("200 OK", [])
    return [b""]


def _ask(app: FencedWSGI, token: int) -> str:
    told: list[str] = []
    value = value_of(Presented(Token(token), FENCE))
    request = {"REQUEST_METHOD": "POST", "PATH_INFO": "/entries", "HTTP_TENURE_TOKEN": value}
    parts = app(request, lambda status, *_: told.append(status))  # type: ignore[arg-type]
    list(parts)
    getattr(parts, "close", lambda: None)()
    return told[0]
