"""Where an answer without a length ends: with its connection, if the server itself has said so."""

import asyncio
from collections.abc import Callable

import pytest
import trustme

from tenure.clients.http import Http, Lost
from tests.clients.test_http import Server, play, served, serving_as, trusting

Leave = Callable[[asyncio.StreamWriter], None]


class Endless(Server):
    """Answers with no word of where that ends, and leaves."""

    def __init__(self, leave: Leave) -> None:
        super().__init__()
        self.leave = leave

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nas far as this")
        await writer.drain()
        self.leave(writer)


def cut(writer: asyncio.StreamWriter) -> None:
    """End the connection below TLS, as anybody on the way can: what was sent arrives, and a farewell does not."""
    writer.transport.abort()


def farewell(writer: asyncio.StreamWriter) -> None:
    writer.close()


@pytest.mark.parametrize("leave", [farewell, cut])
def test_in_the_open_an_answer_ends_with_its_connection(leave: Leave) -> None:
    async def story() -> None:
        async with served(Endless(leave)) as endpoint, Http() as http:
            answer = await http.ask("GET", f"http://{endpoint}/", within_s=20)
            assert answer.body == b"as far as this"

    play(story())


def test_under_tls_an_answer_ends_with_the_farewell_of_its_server() -> None:
    authority = trustme.CA()

    async def story() -> None:
        tls = serving_as("127.0.0.1", authority)
        async with served(Endless(farewell), tls) as endpoint, Http(trusting(authority)) as http:
            assert (await http.ask("GET", f"https://{endpoint}/", within_s=20)).body == b"as far as this"

    play(story())


def test_under_tls_an_end_that_nobody_has_announced_is_no_end_of_an_answer() -> None:
    authority = trustme.CA()

    async def story() -> None:
        tls = serving_as("127.0.0.1", authority)
        async with served(Endless(cut), tls) as endpoint, Http(trusting(authority)) as http:
            with pytest.raises(Lost, match="lost before an answer came"):
                await http.ask("GET", f"https://{endpoint}/", within_s=20)

    play(story())
