"""Connections of those who send half of something, nothing, or go without a word; and what the server takes them for."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest
from starlette.types import ASGIApp
from uvicorn import Config
from uvicorn.server import ServerState

from tenure.serve import connection
from tenure.serve.answers import Receive, Scope, Send, answer
from tenure.serve.app import Api
from tenure.serve.candidacy import Candidacy, State
from tenure.serve.connection import Connection, Connections
from tenure.serve.crowd import Crowd
from tenure.serve.listening import Place, forget, listen
from tenure.serve.streaming import PIPE, when_gone
from tests.serve.inside import BEARER, TOKEN, inside

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


async def hello(_: Scope, __: Receive, send: Send) -> None:
    await answer(send, 200, b"hello")


@asynccontextmanager
async def connected(
    app: ASGIApp = hello, connections: Connections | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Be connected with one that answers ``hello``."""
    config, connections = Config(app, log_config=None), connections or Connections()
    config.load()
    ours, theirs = socket.socketpair()
    loop = asyncio.get_running_loop()
    await loop.connect_accepted_socket(lambda: Connection(config, ServerState(), {}, connections=connections), theirs)
    reader, writer = await asyncio.open_connection(sock=ours)
    try:
        yield reader, writer
    finally:
        writer.close()


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param((b"GET / HT",), id="half of the first head"),
        pytest.param((GET + b"\r\n", b"GET / HT"), id="half of the second head"),
        pytest.param((GET + b"Content-Length: 100\r\n\r\n", b"x"), id="a body that nobody waits for"),
    ],
)
def test_who_sends_half_of_a_request_does_not_keep_its_connection(
    sent: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HEAD_WITHIN_S", 0.05)

    async def main() -> None:
        async with connected() as (reader, writer), asyncio.timeout(10):
            for part in sent[:-1]:
                writer.write(part)
                await reader.readuntil(b"hello")
            writer.write(sent[-1])
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)

    asyncio.run(main())


def test_who_is_quiet_between_two_requests_keeps_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_WITHIN_S", 0.05)

    async def main() -> None:
        async with connected() as (reader, writer), asyncio.timeout(10):
            for _ in range(3):
                writer.write(GET + b"\r\n")
                assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
                await asyncio.sleep(0.1)  # What must not happen would have by then.

    asyncio.run(main())


@pytest.mark.parametrize(
    ("error", "is_cut_off"),
    [
        (None, False),
        (ConnectionResetError(), False),
        (BrokenPipeError(), False),
        (TimeoutError(), True),
        (OSError(), True),
    ],
)
def test_a_client_is_gone_if_its_system_says_so_and_not_if_nobody_says_anything(
    error: Exception | None, is_cut_off: bool
) -> None:
    async def main() -> None:
        protocol = Connection(Config(hello, log_config=None), ServerState(), {}, connections=Connections())
        protocol.transport = asyncio.Transport()
        with suppress(NotImplementedError):  # It has nothing to close.
            protocol.connection_lost(error)
        assert protocol.is_cut_off is is_cut_off

    asyncio.run(main())


CHUNKED = b" HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        pytest.param((b"GET /health" + CHUNKED, b"zz\r\n"), b"200", id="after its answer"),
        pytest.param((b"GET /health" + CHUNKED + b"zz\r\n",), b"400", id="before its answer"),
        pytest.param((b"GET /v1/events" + CHUNKED, b"zz\r\n"), b"200", id="while it is being answered"),
        pytest.param((b"zz\r\n\r\n",), b"400", id="from the first word"),
    ],
)
def test_who_says_what_is_no_http_loses_its_connection_and_fills_no_log(
    sent: tuple[bytes, ...], answered: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with inside() as there, connected(Api(there.sidecar)) as (reader, writer), asyncio.timeout(10):
            writer.write(sent[0])
            assert answered in await reader.readline()
            writer.writelines(sent[1:])
            with suppress(ConnectionError):
                await reader.read()
            await asyncio.sleep(0)

    asyncio.run(main())
    assert [record for record in caplog.records if record.levelname not in {"DEBUG", "WARNING"}] == []


def test_who_is_cut_off_from_its_stream_keeps_what_it_was_promised() -> None:
    async def main() -> None:
        async with inside() as there:
            stood = await there.stand(keep_s=1, ttl_s=60)
            await there.wait(stood["id"])
            one: Candidacy = there.sidecar.register.get(str(stood["id"]))
            one.stream_opened()
            assert float(one.as_json()["valid_for_s"]) > 30  # type: ignore[arg-type]
            one.stream_closed(is_cut_off=True)
            lost = await there.wait(stood["id"], while_="leading")
            assert (lost["state"], lost["reason"]) == ("lost", "client-gone")
            one._due()  # It is silent for longer than its own time.
            await asyncio.sleep(0)
            assert float(lost["valid_for_s"]) > 30  # type: ignore[arg-type]
            assert not one._let_go.is_set()
            # It has lived: by its word it is over at once.
            ended = await there.client.delete(f"/v1/candidacies/{stood['id']}", headers=BEARER)
            assert ended.json()["state"] == "lost"
            assert one.over

    asyncio.run(main())


def test_one_that_is_dismissed_before_it_has_begun_has_ended_all_the_same() -> None:
    async def main() -> None:
        async with inside() as there:
            stood = await there.stand()
            standing = there.sidecar.register.get(str(stood["id"])).standing
            one = Candidacy(standing, there.sidecar.register.offices, 10, None)
            one.begin(lambda: None)
            one.dismiss("shutdown")
            async with asyncio.timeout(5):
                await one.differs(State.WAITING)
            assert (one.state, one.reason) == (State.ENDED, "shutdown")

    asyncio.run(main())


def test_a_unix_socket_of_who_came_after_is_not_removed_by_who_leaves(tmp_path: Path) -> None:
    place = Place(path=str(tmp_path / "sock"))
    leaving, its_place = listen(place)
    leaving.close()  # It listens no more, and still answers those who are connected.
    after, place_after = listen(place)
    forget(its_place)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(place.path)
    after.close()
    forget(place_after)
    assert not Path(place.path).exists()


async def large(_: Scope, __: Receive, send: Send) -> None:
    await answer(send, 200, bytes(4_000_000))


def test_who_does_not_read_its_answer_does_not_keep_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "READ_WITHIN_S", 0.05)

    async def main() -> None:
        connections = Connections()
        async with connected(large, connections) as (_, writer), asyncio.timeout(10):
            writer.write(GET + b"\r\n")
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            while not connections.unread:  # noqa: ASYNC110  (nobody tells)
                await asyncio.sleep(0)
            while connections.unread:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert len(connections.crowd) == 0

    asyncio.run(main())


def test_who_reads_slowly_gets_all_of_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "READ_WITHIN_S", 0.1)

    async def main() -> None:
        async with connected(large) as (reader, writer), asyncio.timeout(20):
            writer.write(GET + b"\r\n")
            await reader.readuntil(b"\r\n\r\n")
            for _ in range(40):
                assert await reader.readexactly(100_000) == bytes(100_000)
                await asyncio.sleep(0.01)  # In all of it four times what it may be still for.

    asyncio.run(main())


def test_answers_that_are_not_read_are_bounded_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "UNREAD_MAX", 2)

    async def main() -> None:
        connections = Connections()
        async with AsyncExitStack() as stack, asyncio.timeout(10):
            for _ in range(5):
                _, writer = await stack.enter_async_context(connected(large, connections))
                writer.transport.pause_reading()  # type: ignore[attr-defined]
                writer.write(GET + b"\r\n")
            while connections.closed_count < 3:  # noqa: ASYNC110
                await asyncio.sleep(0)
            assert len(connections.unread) == 2

    asyncio.run(main())


def test_who_comes_is_let_in_and_who_only_waits_goes(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        connections = Connections(Crowd(2, 1))
        async with AsyncExitStack() as stack, asyncio.timeout(10):
            silent = [(await stack.enter_async_context(connected(hello, connections)))[0] for _ in range(5)]
            reader, writer = await stack.enter_async_context(connected(hello, connections))
            writer.write(GET + b"\r\n")
            assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
            for one in silent[:4]:
                with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                    await one.readexactly(1)
            assert len(connections.crowd) == 2
        (said,) = [record.getMessage() for record in caplog.records if record.name == "tenure.serve"]
        assert "no room" in said, "once, and not for each of them"

    asyncio.run(main())


@pytest.mark.parametrize("has_to_go", [True, False])
def test_who_has_to_make_room_is_not_taken_for_somebody_who_has_gone(has_to_go: bool) -> None:
    async def main() -> None:
        connections, told = Connections(Crowd(1, 1)), asyncio.Queue[bool]()

        async def stream(scope: Scope, receive: Receive, _: Send) -> None:
            await told.put(False)
            await when_gone(receive)
            await told.put(scope["extensions"][PIPE].is_cut_off)

        async with AsyncExitStack() as stack, asyncio.timeout(10):
            _, writer = await stack.enter_async_context(connected(stream, connections))
            writer.write(GET + b"\r\n")
            await told.get()
            if has_to_go:
                await stack.enter_async_context(connected(hello, connections))
            else:
                writer.close()
            assert await told.get() is has_to_go

    asyncio.run(main())


def test_who_comes_back_and_does_not_read_what_it_has_missed_is_one_of_those_who_do_not_read() -> None:
    async def main() -> None:
        connections = Connections()
        async with inside() as there, connected(Api(there.sidecar), connections) as (_, writer), asyncio.timeout(10):
            hub = there.sidecar.hub
            since = hub.last_id
            for _ in range(20):
                hub.publish("fact", {"n": "x" * 100_000})
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            head = f"GET /v1/events?last_event_id={since} HTTP/1.1\r\nHost: localhost\r\n\r\n"
            writer.write(head.encode())
            while not connections.unread:  # noqa: ASYNC110  (nobody tells)
                await asyncio.sleep(0.01)
            (one,) = connections.unread
            assert one.pending_bytes() > 10**6

    asyncio.run(main())


def test_who_sends_a_wrong_token_is_one_of_the_others() -> None:
    async def main() -> None:
        connections = Connections(Crowd(1, 1))
        async with inside() as there, AsyncExitStack() as stack, asyncio.timeout(10):
            app = Api(there.sidecar)
            for token, status, count in (("wrong" * 4, b"401", 1), (TOKEN, b"404", 1), ("wrong" * 4, b"401", 2)):
                reader, writer = await stack.enter_async_context(connected(app, connections))
                head = f"POST /v1/candidacies/none/heartbeat HTTP/1.1\r\nAuthorization: Bearer {token}\r\nHost: localhost\r\n\r\n"
                writer.write(head.encode())
                assert status in await reader.readline()
                assert len(connections.crowd) == count

    asyncio.run(main())
