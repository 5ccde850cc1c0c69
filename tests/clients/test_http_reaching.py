"""How a host is reached: by any of its addresses; and a name that nobody can have is no such host."""

import asyncio
import socket
import ssl
from typing import Any

import pytest

from tenure.clients.http import Http, NotSent
from tests.clients.leaping_loop import LeapingLoop, Mute, play_leaping
from tests.clients.test_http import Server, play, served

_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
REFUSES, LEADS_NOWHERE, ANSWERS = "127.0.0.2", "192.0.2.1", "127.0.0.1"


class Resolving(LeapingLoop):
    """Knows one host, with several addresses of which one takes all the time in the world."""

    addresses: tuple[str, ...] = ()

    def __init__(self) -> None:
        super().__init__()
        self.tried: list[str] = []
        self.lost = asyncio.Event()

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        assert host == "engine.example"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in self.addresses]

    async def create_connection(self, made: Any, host: Any = None, port: Any = None, **_: Any) -> Any:  # type: ignore[override]
        self.tried.append(host)
        if host == LEADS_NOWHERE:
            self.lost.set()
            await asyncio.Event().wait()
        # Nothing is to be looked up for an address, and this loop knows one host only.
        connected = socket.socket()
        connected.setblocking(False)
        try:
            await self.sock_connect(connected, (host, port))
        except OSError:
            connected.close()
            raise
        return await super().create_connection(made, sock=connected)


def test_an_address_that_refuses_is_followed_by_the_next_of_the_same_host() -> None:
    class Loop(Resolving):
        addresses = REFUSES, ANSWERS

    async def story(loop: LeapingLoop) -> None:
        async with served(Server(_OK)) as endpoint, Http() as http:
            port = endpoint.rpartition(":")[2]
            answer = await http.ask("GET", f"http://engine.example:{port}/", within_s=60)
            assert answer.body == b"ok"
        assert isinstance(loop, Resolving)
        assert loop.tried == [REFUSES, ANSWERS]

    play_leaping(story, Loop)


def test_an_address_that_leads_nowhere_leaves_time_for_the_next() -> None:
    class Loop(Resolving):
        addresses = LEADS_NOWHERE, ANSWERS

    async def story(loop: LeapingLoop) -> None:
        assert isinstance(loop, Resolving)
        async with served(Server(_OK)) as endpoint, Http() as http:
            url = f"http://engine.example:{endpoint.rpartition(':')[2]}/"
            asking = asyncio.create_task(http.ask("GET", url, within_s=1000))
            await loop.lost.wait()
            loop.leap(500)
            assert (await asking).body == b"ok"
        assert loop.tried == [LEADS_NOWHERE, ANSWERS]

    play_leaping(story, Loop)


def test_a_host_none_of_whose_addresses_answers_is_told_with_what_the_last_one_did() -> None:
    class Loop(Resolving):
        addresses = REFUSES, REFUSES

    async def story(_: LeapingLoop) -> None:
        # Bound and not listening, so that nobody else gets it meanwhile.
        with socket.socket() as bound:
            bound.bind((REFUSES, 0))
            async with Http() as http:
                with pytest.raises(NotSent, match="nobody listens on that port"):
                    await http.ask("PUT", f"http://engine.example:{bound.getsockname()[1]}/", within_s=60)

    play_leaping(story, Loop)


@pytest.mark.parametrize("host", ["kube..example", "a" * 64 + ".example", ".example"])
def test_a_name_that_nobody_can_have_is_no_such_host_wherever_it_stands(host: str) -> None:
    async def story() -> None:
        async with Http() as http, Http(proxy=f"http://{host}:1") as proxied:
            for client, server in ((http, f"http://{host}:1/"), (proxied, "http://127.0.0.1:1/")):
                with pytest.raises(NotSent, match="no such host"):
                    await client.ask("PUT", server, within_s=20)

    play(story())


@pytest.mark.parametrize("name", ["kube..example", "a" * 64, ".example"])
def test_a_name_that_no_certificate_can_be_for_is_told(name: str) -> None:
    async def story() -> None:
        server = Mute()
        async with served(server) as endpoint, Http(ssl.create_default_context(), server_name=name) as http:
            with pytest.raises(NotSent, match="no certificate can be for the name"):
                await http.ask("PUT", f"https://{endpoint}/", within_s=20)
            await server.went.wait()

    play(story())
