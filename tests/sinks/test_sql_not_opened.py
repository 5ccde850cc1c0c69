"""What keeps a sink from a connection is told as an error of ours: nothing was sent."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest
import trustme

from tenure.errors import Unreachable
from tenure.model import Token
from tenure.sinks.mysql import MySQLSink, PyMySQLSink
from tenure.sinks.postgresql import AsyncPsycopgSink, PostgresSink
from tenure.sinks.postgresql.fenced_asyncpg import FencedConnection
from tests.clients.test_no_thread import NONE_LEFT, NoThreads
from tests.postgresql.test_postgresql_access import talker
from tests.postgresql.test_postgresql_odd import ODD, swept

__all__ = ["swept"]

AnySink = PostgresSink | AsyncPsycopgSink | MySQLSink
SINKS: dict[str, Callable[[], AnySink]] = {
    "asyncpg": lambda: PostgresSink("postgresql://u@engine.example/db"),
    "psycopg": lambda: AsyncPsycopgSink("postgresql://u@engine.example/db"),
    "asyncmy": lambda: MySQLSink("mysql://u@engine.example/db"),
}


@pytest.mark.parametrize("driver", SINKS)
def test_without_a_thread_to_look_up_its_name_the_server_of_a_sink_is_not_reached(driver: str) -> None:
    async def story() -> None:
        asyncio.get_running_loop().set_default_executor(NoThreads())
        async with SINKS[driver]() as sink:
            with pytest.raises(Unreachable, match=NONE_LEFT):
                await sink.seal("fence", Token(1))
            with pytest.raises(Unreachable, match=NONE_LEFT):
                await sink.highest("fence")
            with pytest.raises(Unreachable, match=NONE_LEFT):
                async with sink.transaction(SimpleNamespace(fence="fence", token=Token(1))):
                    pass

    asyncio.run(story())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.usefixtures("swept")
@pytest.mark.parametrize("kind", ODD)
def test_a_server_that_answers_oddly_is_one_that_was_not_reached(kind: str) -> None:
    async def story(port: int) -> None:
        async with PostgresSink(f"postgresql://u@127.0.0.1:{port}/db?sslmode=disable") as sink:
            with pytest.raises(Unreachable):
                await sink.seal("fence", Token(1))

    with talker(ODD[kind][0]) as port:
        asyncio.run(story(port))


# The server speaks first: how long, a number, and a greeting that breaks off.
ODD_GREETINGS = {
    "nothing": b"\0\0\0\0",
    "a version": b"\1\0\0\0\x0a",
    "half a name": b"\6\0\0\0\x0a8.0.1",
    "no text": b"\3\0\0\0\x0a\xff\xfe",
    "a web server's": b"HTTP/1.1 400 Bad Request\r\n\r\n",
}


@pytest.mark.parametrize("greeting", ODD_GREETINGS)
def test_a_server_that_greets_oddly_is_no_mysql_that_was_reached(greeting: str) -> None:
    async def story(port: int) -> None:
        url, words = f"mysql://u@127.0.0.1:{port}/db", r"as a MySQL or MariaDB does|sequence number wrong"
        async with MySQLSink(url) as waiting:
            with pytest.raises(Unreachable, match=words):
                await waiting.seal("fence", Token(1))
        with PyMySQLSink(url) as blocking, pytest.raises(Unreachable, match=words):
            await blocking.seal("fence", Token(1))

    with talker(ODD_GREETINGS[greeting], speaks_first=True) as port:
        asyncio.run(story(port))


class Told(asyncio.Protocol):
    """Knows of the end when asyncio tells it, as asyncpg does."""

    is_connected = True

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.is_connected = False


def test_a_session_that_was_lost_over_tls_has_something_unread_before_its_driver_knows() -> None:
    authority = trustme.CA()
    serving, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.issue_cert("engine.example").configure_cert(serving)
    authority.configure_trust(trusting)

    async def story() -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        accepting = loop.create_task(loop.connect_accepted_socket(asyncio.Protocol, theirs, ssl=serving))
        transport, told = await loop.create_connection(Told, sock=ours, ssl=trusting, server_hostname="engine.example")
        other, _ = await accepting
        raw = cast("FencedConnection", SimpleNamespace(_transport=transport, _ear=None))
        other.abort()
        said: list[bool] = []
        without_socket = 0
        while told.is_connected:
            said.append(FencedConnection.has_unread(raw))
            without_socket += transport.get_extra_info("socket") is None
            await asyncio.sleep(0)
        assert without_socket  # There was such a turn.
        assert said[-1] is True

    asyncio.run(story())
