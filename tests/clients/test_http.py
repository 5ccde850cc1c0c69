"""What becomes of a request over HTTP: it is sent once, and whoever asked is told whether anybody has seen it."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trustme

from tenure.clients.http import Http, Lost, NotSent

_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def play(story: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await story

    asyncio.run(bounded())


class Server:
    """Answers one request after another with what it is given; with nothing, it hangs up instead."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.requests: list[str] = []  # first lines
        self.connection_count = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connection_count += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.requests.append(head.split(b"\r\n")[0].decode())
                lengths = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
                await reader.readexactly(int(lengths[0].split(b":")[1]) if lengths else 0)
                answer = self.answers.pop(0)
                if not answer:
                    return
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


class Plain(Server):
    """Says that it does not understand, whatever it is told."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.0 400 Bad Request\r\n\r\n")
        writer.close()


@asynccontextmanager
async def served(server: Server, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    async with listening:
        yield f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST"])
def test_a_request_on_a_kept_connection_that_hangs_up_is_not_sent_again(method: str) -> None:
    async def story() -> None:
        server = Server(_OK, b"", _OK)
        async with served(server) as endpoint, Http() as http:
            url = f"http://{endpoint}/x"
            assert (await http.ask(method, url, within_s=10, body=b"1")).body == b"ok"
            with pytest.raises(Lost, match="lost before an answer"):
                await http.ask(method, url, within_s=10, body=b"2")
            assert len(server.requests) == 2
            assert server.connection_count == 1
            assert (await http.ask(method, url, within_s=10, body=b"3")).status == 200
            assert len(server.requests) == 3

    play(story())


def test_a_redirect_is_an_answer_and_is_not_followed() -> None:
    async def story() -> None:
        moved = b"HTTP/1.1 307 Moved\r\nLocation: /y\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"
        server = Server(moved, _OK)
        async with served(server) as endpoint, Http() as http:
            answer = await http.ask("PUT", f"http://{endpoint}/x", within_s=10, params={"q": "ä b"})
            assert (answer.status, answer.headers["location"]) == (307, "/y")
            assert server.requests == ["PUT /x?q=%C3%A4+b HTTP/1.1"]

    play(story())


def test_what_nobody_has_seen_is_told_apart_from_what_has_no_answer() -> None:
    async def story() -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        listening = await asyncio.start_server(silent, "127.0.0.1", 0)
        endpoint = f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        async with listening, Http() as http:
            with pytest.raises(Lost, match=r"no answer within 0.2 s"):
                await http.ask("PUT", f"http://{endpoint}/x", within_s=0.2)
            listening.close()
            await listening.wait_closed()
            with pytest.raises(NotSent, match="nobody listens"):
                await http.ask("PUT", f"http://{endpoint}/x", within_s=5)
            with pytest.raises(NotSent, match="no such host"):
                await http.ask("PUT", "http://nowhere.invalid/x", within_s=20)
        with pytest.raises(NotSent, match="not open"):
            await http.ask("PUT", f"http://{endpoint}/x", within_s=5)

    play(story())


def test_a_request_that_is_cancelled_leaves_no_connection() -> None:
    async def story() -> None:
        ended = asyncio.Event()
        begun = asyncio.Event()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            begun.set()
            await reader.read()  # Ends when the client hangs up.
            ended.set()
            writer.close()

        listening = await asyncio.start_server(silent, "127.0.0.1", 0)
        endpoint = f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        async with listening, Http() as http:
            asking = asyncio.create_task(http.ask("GET", f"http://{endpoint}/x", within_s=60))
            await begun.wait()
            asking.cancel()
            await asyncio.wait([asking])
            assert asking.cancelled()
            await ended.wait()

    play(story())


def test_a_certificate_that_is_not_trusted_is_told_in_words() -> None:
    authority, stranger = trustme.CA(), trustme.CA()

    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(serving)

    def trusting(one: trustme.CA) -> ssl.SSLContext:
        made = ssl.create_default_context()
        one.configure_trust(made)
        return made

    async def story() -> None:
        async with served(Server(_OK, _OK), serving) as endpoint:
            async with Http(trusting(authority)) as http:
                assert (await http.ask("GET", f"https://{endpoint}/", within_s=10)).status == 200
            async with Http(trusting(stranger)) as http:
                with pytest.raises(NotSent, match=r"not trusted.*check ca"):
                    await http.ask("PUT", f"https://{endpoint}/", within_s=10)
        async with served(Plain()) as endpoint, Http(trusting(authority)) as http:
            with pytest.raises(NotSent, match="does not speak TLS"):
                await http.ask("PUT", f"https://{endpoint}/", within_s=10)

    play(story())
