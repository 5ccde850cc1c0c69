"""Whoever leaves in the middle leaves no connection behind."""

import asyncio
from contextlib import suppress

import pytest

from tenure.clients.http import Http, Lost, NotSent
from tests.clients.test_http import play


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


@pytest.mark.parametrize("turns", range(6))
def test_a_client_that_is_closed_while_it_connects_leaves_no_connection(turns: int) -> None:
    async def story() -> None:
        hung_up = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(ConnectionError):
                await reader.read()
            hung_up.set()
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with Http() as http:
                asking = asyncio.create_task(http.ask("GET", f"http://127.0.0.1:{port}/x", within_s=20))
                for _ in range(turns):
                    await asyncio.sleep(0)
            with pytest.raises((NotSent, Lost)):
                await asking
            if turns:
                await hung_up.wait()

    play(story())
