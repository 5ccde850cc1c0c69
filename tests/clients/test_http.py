"""What becomes of a request over HTTP: it is sent once, and whoever asked is told whether anybody has seen it."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trustme

from tenure.clients.http import Answer, Http, Lost, NotSent

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


def trusting(one: trustme.CA) -> ssl.SSLContext:
    made = ssl.create_default_context()
    one.configure_trust(made)
    return made


def serving_as(name: str, authority: trustme.CA) -> ssl.SSLContext:
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(name).configure_cert(made)
    return made


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


def test_a_certificate_that_is_not_trusted_is_told_in_words() -> None:
    authority, stranger = trustme.CA(), trustme.CA()

    serving = serving_as("127.0.0.1", authority)

    async def story() -> None:
        async with served(Server(_OK, _OK), serving) as endpoint:
            async with Http(trusting(authority)) as http:
                assert (await http.ask("GET", f"https://{endpoint}/", within_s=10)).status == 200
            async with Http(trusting(stranger)) as http:
                with pytest.raises(NotSent, match=r"not trusted.*check ca"):
                    await http.ask("PUT", f"https://{endpoint}/", within_s=10)
            async with Http(trusting(authority)) as http:
                elsewhere = endpoint.replace("127.0.0.1", "localhost")
                with pytest.raises(
                    NotSent, match=r"for another host \(Hostname mismatch.*\): write the name that it has"
                ):
                    await http.ask("PUT", f"https://{elsewhere}/", within_s=10)
        async with served(Plain()) as endpoint, Http(trusting(authority)) as http:
            with pytest.raises(NotSent, match="does not speak TLS"):
                await http.ask("PUT", f"https://{endpoint}/", within_s=10)

    play(story())


def test_connections_are_kept_apart_by_the_certificate_that_they_show() -> None:
    authority = trustme.CA()

    async def story() -> None:
        server = Server(*[_OK] * 4)
        async with served(server, serving_as("127.0.0.1", authority)) as endpoint, Http() as http:
            one, other = trusting(authority), trusting(authority)
            for tls in (one, other, one, other):
                await http.ask("GET", f"https://{endpoint}/", within_s=10, tls=tls)
            assert server.connection_count == 2

    play(story())


def test_a_connection_is_kept_only_if_both_sides_know_where_an_answer_ends() -> None:
    async def story() -> None:
        leaving = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
        chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
        server = Server(leaving, chunked, _OK, _OK + b"HTTP/1.1 200 OK\r\n", _OK)
        async with served(server) as endpoint, Http() as http:
            counts = []
            for _ in range(5):  # The fourth says more than it was asked.
                assert (await http.ask("GET", f"http://{endpoint}/", within_s=10)).body == b"ok"
                counts.append(server.connection_count)
            assert counts == [1, 2, 2, 2, 3]

    play(story())


def test_when_one_connection_is_silent_the_others_that_were_kept_are_left_too() -> None:
    async def story() -> None:
        go_on, server = asyncio.Event(), Server(_OK, _OK, _OK)
        answered = server.serve

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await go_on.wait()
            await answered(reader, writer)

        server.serve = serve  # type: ignore[method-assign]
        async with served(server) as endpoint, Http() as http:
            both = [asyncio.create_task(http.ask("GET", f"http://{endpoint}/", within_s=20)) for _ in range(2)]
            await asyncio.sleep(0)
            go_on.set()
            await asyncio.gather(*both)
            assert server.connection_count == 2
            server.answers[:0] = [b"HTTP/1.1 102 Processing\r\n\r\n"]  # and nothing more
            with pytest.raises(Lost, match="no answer within"):
                await http.ask("GET", f"http://{endpoint}/", within_s=0.2)
            assert (await http.ask("GET", f"http://{endpoint}/", within_s=20)).status == 200
            assert server.connection_count == 3

    play(story())


@pytest.mark.parametrize(
    ("path", "headers"),
    [("x y", {}), ("x\r\nHost: evil", {}), ("ä", {}), ("x", {"A": "b\r\nC: d"}), ("x", {"A": "\u20ac"})],
)
def test_nothing_in_a_name_or_a_token_becomes_a_request(path: str, headers: dict[str, str]) -> None:
    async def story() -> None:
        server = Server(_OK)
        async with served(server) as endpoint, Http() as http:
            with pytest.raises(NotSent, match="no URL"):
                await http.ask("GET", f"http://{endpoint}/{path}", within_s=10, headers=headers)
            assert server.requests == []

    play(story())


def test_an_answer_that_goes_on_is_given_line_by_line_and_has_no_end_that_nobody_told() -> None:
    async def story() -> None:
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        lines = [b"x" * 3_000_000, b"two", b"three"]
        whole = b"\n".join(lines) + b"\n"
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (whole[:7], whole[7:]))
        server = Server(
            head + chunks + b"0\r\n\r\n", head + b"4\r\none\n\r\n", b"HTTP/1.1 410 Gone\r\nContent-Length: 1\r\n\r\nx"
        )
        async with served(server) as endpoint, Http() as http:
            async with http.stream(f"http://{endpoint}/", within_s=10, idle_s=10) as said:
                assert not isinstance(said, Answer)
                assert [line async for line in said] == lines
            async with http.stream(f"http://{endpoint}/", within_s=10, idle_s=0.2) as said:
                assert not isinstance(said, Answer)
                assert await anext(said) == b"one"
                with pytest.raises(Lost, match=r"nothing was heard for 0.2 s"):
                    await anext(said)
            async with http.stream(f"http://{endpoint}/", within_s=10, idle_s=10) as said:
                assert isinstance(said, Answer)
                assert (said.status, said.body) == (410, b"x")

    play(story())


class Proxy(Server):
    """Passes on what it is asked to, and remembers the heads; ``refusal`` is said instead."""

    def __init__(self, refusal: bytes = b"") -> None:
        super().__init__()
        self.refusal = refusal
        self.heads: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        if self.refusal:
            writer.write(self.refusal)
            writer.close()
            return
        method, target, _ = head.split(b"\r\n")[0].split()
        where = target if method == b"CONNECT" else target.split(b"/")[2]
        host, port = where.decode().rsplit(":", 1)
        there, to_there = await asyncio.open_connection(host, int(port))
        if method == b"CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            to_there.write(head)

        async def pass_on(one: asyncio.StreamReader, other: asyncio.StreamWriter) -> None:
            try:
                while data := await one.read(65536):
                    other.write(data)
            except (ConnectionError, ssl.SSLError):
                pass
            finally:
                other.transport.abort()

        await asyncio.gather(pass_on(reader, to_there), pass_on(there, writer))


@pytest.mark.parametrize("proxy_scheme", ["http", "https"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_is_gone_through_and_hears_its_password(scheme: str, proxy_scheme: str) -> None:
    authority = trustme.CA()
    tls = serving_as("127.0.0.1", authority)

    async def story() -> None:
        server, proxy = Server(_OK, _OK), Proxy()
        async with (
            served(server, tls if scheme == "https" else None) as endpoint,
            served(proxy, tls if proxy_scheme == "https" else None) as by,
            Http(trusting(authority), proxy=f"{proxy_scheme}://ada:a%40b@{by}") as http,
        ):
            for _ in range(2):
                assert (await http.ask("GET", f"{scheme}://{endpoint}/x", within_s=20)).body == b"ok"
            assert len(proxy.heads) == 1
            first = f"CONNECT {endpoint}" if scheme == "https" else f"GET http://{endpoint}/x"
            assert proxy.heads[0].startswith(f"{first} HTTP/1.1\r\nHost: {endpoint}\r\n".encode())
            assert b"\r\nProxy-Authorization: Basic YWRhOmFAYg==\r\n" in proxy.heads[0]
            assert len(server.requests) == 2

    play(story())


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n", "answered 407 Proxy Auth"),
        (b"SSH-2.0\r\n", "no HTTP/1"),
        (b"\r", "no HTTP/1"),
    ],
)
def test_a_proxy_that_lets_nobody_through_has_passed_nothing_on(refusal: bytes, told: str) -> None:
    async def story() -> None:
        async with served(Proxy(refusal)) as by, Http(proxy=f"http://{by}") as http:
            with pytest.raises(NotSent, match=told):
                await http.ask("PUT", "https://127.0.0.1:1/x", within_s=10)

    play(story())
