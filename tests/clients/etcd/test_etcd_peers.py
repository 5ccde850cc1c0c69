"""Whatever answers in place of an etcd: one line that says what to do, and never another kind of error."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.clients.etcd.client import EtcdClient
from tenure.clients.etcd.http2 import FRAME, PREFACE, Flag, Headers, Kind, frame, header_block
from tenure.clients.etcd.stream import Lost, NotSent, Said, Stream, framed
from tenure.clients.etcd.transport import Connection
from tenure.clients.etcd.watches import Watches
from tenure.errors import ConfigError, OutcomeUnknown, Refused, StoreError, Unreachable
from tenure.testing.engines import EtcdCluster
from tests.clients.etcd.etcd_client_rig import armed, fresh_key, play, put, until

if TYPE_CHECKING:
    from tenure.clients.etcd.link import Link

GREETING = frame(Kind.SETTINGS, 0, 0, b"")
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Ask = Callable[[EtcdClient], Awaitable[None]]


def told(talk: Talk) -> StoreError:
    """What a client is told that opens a connection to a server which behaves like ``talk``."""
    errors = []

    async def story() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(ConnectionError):
                await talk(reader, writer)
            writer.transport.abort()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(StoreError) as caught:
            async with EtcdClient([f"127.0.0.1:{port}"], address="etcd://somebody", call_timeout_s=2):
                pass
        errors.append(caught.value)
        server.close()
        await until(lambda: len(asyncio.all_tasks()) == 1)

    play(story())
    assert "\n" not in str(errors[0])
    return errors[0]


def saying(*answers: bytes) -> Talk:
    """A server that says the first when it was greeted and the others when it was called, and listens until the client goes."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(PREFACE))
        writer.writelines(answers[:1])
        if answers[1:]:
            await reader.readuntil(b"Maintenance/Status")
            writer.writelines(answers[1:])
        await reader.read()

    return talk


def opening(*endpoints: str) -> StoreError:
    errors = []

    async def story() -> None:
        with pytest.raises(StoreError) as caught:
            async with EtcdClient(endpoints, address="etcd://somebody"):
                pass
        errors.append(caught.value)

    play(story())
    return errors[0]


def test_a_closed_port_is_told() -> None:
    error = opening("127.0.0.1:1")
    assert isinstance(error, Unreachable)
    assert "127.0.0.1:1: nobody listens on that port" in str(error)


def test_a_host_that_does_not_exist_is_told() -> None:
    error = opening("nobody.invalid")
    assert isinstance(error, Unreachable)
    assert "nobody.invalid:2379: no such host" in str(error)


def test_every_endpoint_that_was_tried_is_told() -> None:
    error = str(opening("127.0.0.1:1", "nobody.invalid"))
    assert "127.0.0.1:1: nobody listens" in error
    assert "nobody.invalid:2379: no such host" in error


def test_a_server_that_speaks_http_1_is_told() -> None:
    error = told(saying(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    assert isinstance(error, Unreachable)
    assert "is it an etcd 3.4 or newer, and its client port?" in str(error)


def test_a_server_that_speaks_something_else_is_told() -> None:
    error = told(saying(b"220 mail.example.org ESMTP\r\n"))
    assert isinstance(error, Unreachable)
    assert "that port speaks no gRPC" in str(error)


def test_a_server_that_hangs_up_without_a_word_is_told() -> None:
    async def talk(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(PREFACE))

    error = told(talk)
    assert isinstance(error, Unreachable)
    assert "use etcds://" in str(error)


def test_a_server_that_says_nothing_at_all_is_told() -> None:
    error = told(saying())
    assert isinstance(error, Unreachable)
    assert "no answer within" in str(error)


def test_a_server_that_speaks_http_2_and_no_grpc_is_told() -> None:
    block = header_block(((":status", "404"), ("content-type", "text/html")))
    error = told(saying(GREETING, frame(Kind.HEADERS, Flag.END_HEADERS | Flag.END_STREAM, 1, block)))
    assert isinstance(error, Refused)
    assert "that is no etcd 3.4 or newer: it answered HTTP status 404 and text/html" in str(error)


def test_an_answer_that_cannot_be_read_leaves_the_outcome_unknown() -> None:
    head = frame(Kind.HEADERS, Flag.END_HEADERS, 1, header_block(((":status", "200"),)))
    data = frame(Kind.DATA, 0, 1, b"\0\0\0\0\1\xff")
    tail = frame(Kind.HEADERS, Flag.END_HEADERS | Flag.END_STREAM, 1, header_block((("grpc-status", "0"),)))
    assert isinstance(told(saying(GREETING, head, data, tail)), OutcomeUnknown)


def test_a_call_that_the_server_refused_unseen_was_not_sent() -> None:
    refused = frame(Kind.RST_STREAM, 0, 1, (7).to_bytes(4, "big"))
    leaving = frame(Kind.GOAWAY, 0, 0, bytes(8))  # the last stream that it looked at is 0
    assert isinstance(told(saying(GREETING, refused)), Unreachable)
    assert isinstance(told(saying(GREETING, leaving)), Unreachable)


def test_a_call_that_the_server_broke_off_may_have_been_carried_out() -> None:
    reset = frame(Kind.RST_STREAM, 0, 1, (2).to_bytes(4, "big"))
    leaving = frame(Kind.GOAWAY, 0, 0, (1).to_bytes(4, "big") + bytes(4))
    assert isinstance(told(saying(GREETING, reset)), OutcomeUnknown)
    assert isinstance(told(saying(GREETING, leaving)), OutcomeUnknown)


def ended_call(number: int, status: str, text: str) -> bytes:
    said = ((":status", "200"), ("content-type", "application/grpc"), ("grpc-status", status), ("grpc-message", text))
    return frame(Kind.HEADERS, Flag.END_HEADERS | Flag.END_STREAM, number, header_block(said))


async def learn(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Be a learner: tell how it is, and leave everything else to the others."""
    with suppress(ConnectionError, asyncio.IncompleteReadError):
        await reader.readexactly(len(PREFACE))
        writer.write(GREETING)
        while True:
            high, low, kind, _, number = FRAME.unpack(await reader.readexactly(FRAME.size))
            payload = await reader.readexactly((high << 16) + low)
            if kind == Kind.HEADERS and b"Maintenance/Status" in payload:
                head = frame(Kind.HEADERS, Flag.END_HEADERS, number, header_block(((":status", "200"),)))
                writer.write(head + frame(Kind.DATA, 0, number, framed(b"")) + ended_call(number, "0", ""))
            elif kind == Kind.HEADERS:
                writer.write(ended_call(number, "9", "etcdserver: rpc not supported for learner"))
    writer.transport.abort()


async def puts(client: EtcdClient) -> None:
    await put(client, fresh_key())


async def renews(client: EtcdClient) -> None:
    assert await client.lease_renew(1) == 0  # There is no such lease; a learner could not tell.


async def waits(client: EtcdClient) -> None:
    wait = asyncio.create_task(client.deleted(fresh_key(), 1 << 40))
    await armed(client)
    wait.cancel()
    await asyncio.wait([wait])


@pytest.mark.parametrize("ask", [puts, renews, waits])
def test_what_a_learner_turns_away_is_asked_of_the_next_member(etcd: EtcdCluster, ask: Ask) -> None:
    async def story() -> None:
        server = await asyncio.start_server(learn, "127.0.0.1", 0)
        learner, member = f"127.0.0.1:{server.sockets[0].getsockname()[1]}", etcd.endpoints[0]
        client = EtcdClient([learner, member], address=etcd.url)
        client._endpoints.sort(key=lambda endpoint: str(endpoint) != learner)
        async with client:
            assert client.endpoint == learner
            await ask(client)
            assert client.endpoint == member
        server.close()

    play(story())


class Polite:
    """A member that ends every watch at once, and says that all is well. It stands for the link and its connection."""

    heard_at_s = 0.0

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.opened_count = 0

    def check(self, _: str) -> None: ...

    async def attempt(self, _: str, send: Callable[["Polite", Headers], Awaitable[object]]) -> object:
        return await send(self, ())

    async def open(self, _path: str, _headers: Headers, on_message: Callable[[bytes], None]) -> Stream:
        self.opened_count += 1
        stream = Stream(1, 0, on_message)
        stream.finish(None)
        return stream

    def send(self, _: Stream, *_messages: bytes) -> None: ...

    def reset(self, _: Stream) -> None: ...


def test_a_member_that_ends_every_watch_without_an_error_is_asked_less_and_less_often() -> None:
    async def story() -> None:
        member = Polite()
        watches = Watches(cast("Link", member), idle_s=10)
        wait = asyncio.create_task(watches.deleted(b"key", 1))
        await until(lambda: member.opened_count > 3)
        assert watches._failure_count >= 3  # Every one of them doubles the pause before the next.
        wait.cancel()
        await asyncio.wait([wait])
        assert watches._task is not None
        watches._task.cancel()
        await asyncio.wait([watches._task])

    play(story())


@pytest.mark.parametrize(
    "text", ["", "host:", ":2379", "host:port", "host:0", "host:65536", "[::1", "[::1]2379", "a:1:2"]
)
def test_an_address_that_cannot_be_meant_is_told(text: str) -> None:
    with pytest.raises(ConfigError, match="endpoint"):
        EtcdClient([text], address="etcd://somebody")


FRAMES = st.builds(frame, st.integers(0, 12), st.integers(0, 255), st.integers(0, 7), st.binary(max_size=40))


@given(st.lists(FRAMES | st.binary(max_size=30), max_size=8))
def test_whatever_a_peer_sends_a_call_ends_in_one_of_its_three_ways_or_waits(sent: list[bytes]) -> None:
    async def story() -> None:
        connection = Connection("host:2379", "http")
        connection.data_received(GREETING)
        call = asyncio.create_task(connection.call("/path", (), b"message"))
        await asyncio.sleep(0)
        for data in sent:
            if not connection.closed:
                connection.data_received(data)
        connection.abort("the end")
        (outcome,) = await asyncio.gather(call, return_exceptions=True)
        assert isinstance(outcome, bytes | NotSent | Lost | Said)

    asyncio.run(story())
