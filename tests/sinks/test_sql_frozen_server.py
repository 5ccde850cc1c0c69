"""A server that is frozen, and so neither answers nor hangs up: whoever asks it is told so in time, and goes on once it is back."""

import asyncio
import io
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from tenure.errors import StoreError, Unreachable
from tenure.model import Token
from tenure.sinks import MySQLSink, PostgresSink, PsycopgSink, PyMySQLSink
from tenure.sinks.http import Presented
from tenure.sinks.http.header import value_of
from tenure.sinks.marks import admit
from tenure.sinks.postgresql import AsyncPsycopgSink
from tenure.testing.engines import MariaDbCluster, PostgresCluster
from tenure.testing.engines.cluster import Node
from tenure.web import FencedASGI, Guard, Route

PATIENCE_S = 60
AT_ONCE = 15  # More than a sink has connections.


@contextmanager
def frozen(node: Node) -> Iterator[None]:
    """Freeze a server, and be less patient with it: with one that runs, a busy machine may need all that a sink allows for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tenure.sinks.sql.flow._BUSY_S", 1.0)
        node.pause()
        try:
            yield
        finally:
            node.resume()


async def _closed(mark: Any) -> None:
    ended = mark.close()
    if asyncio.iscoroutine(ended):
        await ended


async def told_by(mark: Any, node: Node, fence: str) -> list[BaseException | None]:
    """Ask a mark in a server that is frozen, and then in one that runs on."""
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(admit(mark, fence, Token(3), None) for _ in range(AT_ONCE)))
        with frozen(node):
            # A known token, which is only read; and a new one, which would be sealed.
            asked = [admit(mark, fence, Token(token), None) for token in (3, 4) * AT_ONCE]
            told = await asyncio.gather(*asked, return_exceptions=True)
        await admit(mark, fence, Token(5), None)
    await _closed(mark)
    return told


def check(told: list[BaseException | None]) -> None:
    assert all(isinstance(error, StoreError) for error in told), told
    assert any(isinstance(error, Unreachable) for error in told), told
    assert any("in time" in str(error) for error in told), (
        told
    )  # Some wait for a connection, which a driver has other words for.


@pytest.mark.parametrize("kind", [PostgresSink, AsyncPsycopgSink, PsycopgSink])
def test_a_mark_in_a_frozen_postgresql_says_in_time_that_it_cannot_be_asked(
    kind: Any, postgresql: PostgresCluster
) -> None:
    async def run() -> list[BaseException | None]:
        return await told_by(kind(postgresql.url, wait_s=0.2), postgresql.nodes[0], f"frozen/{kind.__name__}")

    check(told := asyncio.run(run()))
    assert len(told) == 2 * AT_ONCE


@pytest.mark.parametrize("kind", [MySQLSink, PyMySQLSink])
def test_a_mark_in_a_frozen_mariadb_says_in_time_that_it_cannot_be_asked(kind: Any, mariadb: MariaDbCluster) -> None:
    async def run() -> list[BaseException | None]:
        return await told_by(kind(mariadb.url, wait_s=0.2), mariadb.nodes[0], f"frozen/{kind.__name__}")

    check(told := asyncio.run(run()))
    assert len(told) == 2 * AT_ONCE


def test_a_service_whose_mark_is_in_a_frozen_server_answers_503(postgresql: PostgresCluster) -> None:
    fence, served = "frozen/service", []

    async def app(scope: Any, _: Any, send: Any) -> None:
        served.append(scope["tenure"].token)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S), PostgresSink(postgresql.url, wait_s=0.2) as mark:
            fenced = FencedASGI(app, Guard([Route("/", fence)], mark))
            async with httpx.AsyncClient(transport=httpx.ASGITransport(fenced), base_url="http://service") as client:

                async def ask(token: int) -> int:
                    value = value_of(Presented(Token(token), fence))
                    return (await client.post("/entries", headers={"Tenure-Token": value})).status_code

                assert await ask(3) == 200
                with frozen(postgresql.nodes[0]):
                    assert await asyncio.gather(*(ask(3) for _ in range(AT_ONCE))) == [503] * AT_ONCE
                assert [await ask(4), await ask(3)] == [200, 409]

    asyncio.run(run())
    assert served == [3, 4]


WAYS: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "execute": lambda connection: connection.execute("SELECT 1", timeout=0.5),
    "fetch": lambda connection: connection.fetch("SELECT $1::int", 1, timeout=0.5),
    "executemany": lambda connection: connection.executemany("SELECT $1::int", [(1,)], timeout=0.5),
    "copy": lambda connection: connection.copy_to_table("frozen", source=io.BytesIO(b"1\n"), timeout=0.5),
    "copy out": lambda connection: connection.copy_from_query("SELECT 1", output=io.BytesIO(), timeout=0.5),
    "prepare": lambda connection: connection.prepare("SELECT 1", timeout=0.5),
}


@pytest.mark.parametrize("is_known", [False, True], ids=["new to the connection", "prepared there before"])
@pytest.mark.parametrize("way", WAYS)
def test_a_first_statement_ends_when_its_caller_wants_though_begin_is_sent_before_it(
    way: str, is_known: bool, postgresql: PostgresCluster
) -> None:
    fence = "frozen/first statement"
    term = SimpleNamespace(fence=fence, token=1)
    postgresql.sql("CREATE TABLE IF NOT EXISTS frozen (a int)")

    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S), PostgresSink(postgresql.url) as sink:
            await sink.seal(fence, Token(1))
            async with sink.transaction(term) as connection:
                if is_known:
                    await WAYS[way](connection)
            earlier = sink._idle[-1].raw
            began = time.monotonic()
            with frozen(postgresql.nodes[0]), pytest.raises(TimeoutError):  # noqa: PT012
                async with sink.transaction(term) as connection:
                    assert connection._con is earlier  # It begins with its first statement.
                    with pytest.raises(TimeoutError):
                        await WAYS[way](connection)
                    raise TimeoutError
            assert time.monotonic() - began < PATIENCE_S / 2
            async with sink.transaction(term) as connection:
                await WAYS[way](connection)

    asyncio.run(run())


@pytest.mark.parametrize("kind", [PsycopgSink, PyMySQLSink], ids=lambda kind: kind.__name__)
def test_a_thread_whose_block_fails_while_the_server_is_frozen_is_not_kept(
    kind: Any, postgresql: PostgresCluster, mariadb: MariaDbCluster
) -> None:
    server: Any = mariadb if kind is PyMySQLSink else postgresql
    term = SimpleNamespace(fence=f"frozen/rollback/{kind.__name__}", token=1)
    told: list[BaseException] = []

    def fail(sink: Any, is_inside: Event, may_fail: Event) -> None:
        with pytest.raises(ZeroDivisionError) as error, sink.transaction(term) as connection:  # noqa: PT012
            connection.cursor().execute("SELECT 1")
            is_inside.set()
            may_fail.wait(PATIENCE_S)
            raise ZeroDivisionError
        told.append(error.value)

    with kind(server.url, connections_max=1) as sink:
        sink.admit(term.fence, 1)
        is_inside, may_fail = Event(), Event()
        thread = Thread(target=fail, args=(sink, is_inside, may_fail))
        thread.start()
        assert is_inside.wait(PATIENCE_S)
        with frozen(server.nodes[0]):
            may_fail.set()
            thread.join(PATIENCE_S)
            assert len(told) == 1
        with sink.transaction(term) as connection:  # There is room, and a connection that nothing was left on.
            connection.cursor().execute("SELECT 1")
