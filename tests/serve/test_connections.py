"""Connections of those who send half of something, nothing, or go without a word; and what the server takes them for."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from tenure.serve import running
from tenure.serve.answers import Receive, Scope, Send, answer
from tenure.serve.candidacy import Candidacy, State
from tenure.serve.listening import Place, forget, listen
from tests.serve.inside import BEARER, inside

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


async def hello(_: Scope, __: Receive, send: Send) -> None:
    await answer(send, 200, b"hello")


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Be connected with one that answers ``hello``."""
    config = Config(hello, log_config=None)
    config.load()
    ours, theirs = socket.socketpair()
    loop = asyncio.get_running_loop()
    await loop.connect_accepted_socket(lambda: running._Protocol(config, ServerState(), {}), theirs)
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
    monkeypatch.setattr(running, "_HEAD_WITHIN_S", 0.05)

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
    monkeypatch.setattr(running, "_HEAD_WITHIN_S", 0.05)

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
        protocol = running._Protocol(Config(hello, log_config=None), ServerState(), {})
        protocol.transport = asyncio.Transport()
        with suppress(NotImplementedError):  # It has nothing to close.
            protocol.connection_lost(error)
        assert protocol.is_cut_off is is_cut_off

    asyncio.run(main())


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
