"""What time does to a connection: one that nobody uses is left, and one that never stands has carried nothing."""

import asyncio
import ssl

import pytest

from tenure.clients.http import Http, NotSent
from tests.clients.leaping_loop import Heard, LeapingLoop, Mute, play_leaping
from tests.clients.test_http import Server, served

_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
# What is kept for longer may have been forgotten by a load balancer: docs/adr/0026-http-of-our-own.md.
KEPT_S = 50.0


def test_a_connection_that_was_not_used_for_50_s_is_not_used_again() -> None:
    async def story(loop: LeapingLoop) -> None:
        server = Server(*[_OK] * 3)
        async with served(server) as endpoint, Http() as http:
            counts = []
            for idle_s in (0.0, KEPT_S - 5, KEPT_S + 0.001):
                loop.leap(idle_s)
                # It is asked before the loop comes round, so nothing has been tidied up meanwhile.
                await http.ask("GET", f"http://{endpoint}/", within_s=300)
                counts.append(server.connection_count)
            assert counts == [1, 1, 2]

    play_leaping(story)


def test_a_connection_that_nobody_asks_for_any_more_is_left_after_50_s_too() -> None:
    async def story(loop: LeapingLoop) -> None:
        first, second = Heard(_OK), Heard(_OK, _OK)
        async with served(first) as one, served(second) as other, Http() as http:
            await http.ask("GET", f"http://{one}/", within_s=300)
            loop.leap(30)
            await http.ask("GET", f"http://{other}/", within_s=300)
            loop.leap(KEPT_S - 30)
            await first.went.wait()
            # The other one is kept, since it was used later, and left in its turn.
            await http.ask("GET", f"http://{other}/", within_s=300)
            assert second.connection_count == 1
            loop.leap(KEPT_S)
            await second.went.wait()
        assert (first.connection_count, second.connection_count) == (1, 1)

    play_leaping(story)


def test_one_that_is_closed_and_opened_again_leaves_idle_connections_as_before() -> None:
    async def story(loop: LeapingLoop) -> None:
        server, http = Heard(_OK, _OK), Http()
        async with served(server) as endpoint:
            async with http:
                await http.ask("GET", f"http://{endpoint}/", within_s=300)
            await server.went.wait()
            server.went.clear()
            async with http:
                await http.ask("GET", f"http://{endpoint}/", within_s=300)
                assert not server.went.is_set()
                loop.leap(KEPT_S)
                await server.went.wait()
            assert server.connection_count == 2

    play_leaping(story)


@pytest.mark.parametrize("how", ["ask", "stream"])
@pytest.mark.parametrize(
    ("connect_within_s", "passed_s"), [(1e6, 1850.0), (500.0, 600.0), (1e6, 5e4)], ids=["long", "short", "at once"]
)
def test_whatever_has_no_connection_in_time_was_not_sent(how: str, connect_within_s: float, passed_s: float) -> None:
    """A request has 2000 s here, and 1800 of them for its connection, if that is not given less.

    The last: the loop was busy for so long that the time for the connection and for the request are both over.
    """

    async def story(loop: LeapingLoop) -> None:
        server, tls = Mute(), ssl.create_default_context()
        async with served(server) as endpoint, Http(tls) as http:
            url = f"https://{endpoint}/"

            async def ask() -> None:
                if how == "ask":
                    await http.ask("PUT", url, within_s=2000, connect_within_s=connect_within_s)
                else:
                    async with http.stream(url, within_s=2000, idle_s=20):
                        pytest.fail("something was answered")

            asking = asyncio.create_task(ask())
            await server.came.wait()
            loop.leap(passed_s if how == "ask" else max(passed_s, 1850.0))
            with pytest.raises(NotSent, match="no connection in time"):
                await asyncio.wait_for(asking, 60)  # which is less than the rest of what the request has
            await server.went.wait()

    play_leaping(story)
