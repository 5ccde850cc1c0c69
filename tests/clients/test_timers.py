"""Timers that others live by: one that has failed comes again."""

import asyncio
from collections import deque
from typing import Any, cast

import pytest

from tenure.clients.http import Http
from tenure.clients.zookeeper import LinkLost, Session, Settings, settings_of
from tenure.clients.zookeeper.wire import sync
from tenure.clock import Clock
from tenure.errors import ClockError
from tenure.model import Bid, Holder
from tenure.stores.zookeeper.leases import Place
from tenure.stores.zookeeper.roster import Roster
from tests.clients.leaping_loop import Heard, LeapingLoop, play_leaping
from tests.clients.test_http import served
from tests.clients.test_zookeeper_asking import serving
from tests.leaping import LeapingClock

_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
KEPT_S = 50.0
PATIENCE_S = 0.3
LIMIT_S = 20
TTL_S = 5
AGAIN_S = 31  # by when a sweep that has failed has come again


class Moody(LeapingClock):
    """Fails once when it is told to."""

    fails = False

    def now(self) -> int:
        if self.fails:
            self.fails = False
            raise ClockError(1, 2)
        return super().now()


def hear_complaints() -> "asyncio.Queue[BaseException]":
    """Return what the loop complains of from now on."""
    heard: asyncio.Queue[BaseException] = asyncio.Queue()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.put_nowait(context["exception"]))
    return heard


def test_a_server_of_zookeeper_that_is_mute_is_left_although_a_look_at_it_has_failed() -> None:
    async def story() -> None:
        clock, complaints = Moody(), hear_complaints()
        async with serving() as (server,):
            session = Session(settings_of(f"zookeeper://{server.endpoint}"), 1000, clock, patience_s=PATIENCE_S)
            await session.open()
            clock.fails = True
            assert isinstance(await complaints.get(), ClockError)
            server.mute = True
            with pytest.raises(LinkLost, match="did not answer"):
                await session.ask(sync("/"))
            await session.abandon()

    asyncio.run(story())


class Leaving(Roster):
    """Says when a place was left."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        super().__init__(settings, clock)
        self.left = asyncio.Event()

    async def leave(self, place: Place) -> None:
        await super().leave(place)
        self.left.set()


def test_a_place_that_nobody_asks_for_is_given_up_although_a_sweep_has_failed() -> None:
    async def story(loop: LeapingLoop) -> None:
        clock, complaints = Moody(), hear_complaints()
        async with asyncio.timeout(TTL_S + AGAIN_S + LIMIT_S):
            roster = Leaving(settings_of("zookeeper://127.0.0.1"), clock)
            roster.enter(Bid("office", Holder.fresh(), 1, TTL_S * 10**9))
            clock.ahead_ns, clock.fails = TTL_S * 10**9, True
            loop.leap(TTL_S)
            assert isinstance(await complaints.get(), ClockError)
            assert len(roster.places) == 1
            loop.leap(AGAIN_S)
            await roster.left.wait()
            assert len(roster.places) == 0
            await roster.close()

    play_leaping(story)


class Broken:
    """A connection that cannot be closed at the first try."""

    idle_since_s = 0.0

    def __init__(self) -> None:
        self.tries = 0

    def close(self) -> None:
        self.tries += 1
        if self.tries == 1:
            raise ZeroDivisionError


def test_connections_that_are_idle_are_left_although_one_could_not_be() -> None:
    async def story(loop: LeapingLoop) -> None:
        server, complaints, broken = Heard(_OK, _OK), hear_complaints(), Broken()
        async with served(server) as endpoint, Http() as http, asyncio.timeout(2 * KEPT_S + LIMIT_S):
            await http.ask("GET", f"http://{endpoint}/", within_s=300)
            http._idle = {("nowhere", None): deque([cast("Any", broken)]), **http._idle}
            loop.leap(KEPT_S)
            assert isinstance(await complaints.get(), ZeroDivisionError)
            http._idle.pop(("nowhere", None))
            await http.ask("GET", f"http://{endpoint}/", within_s=300)
            server.went.clear()
            loop.leap(KEPT_S)
            await server.went.wait()

    play_leaping(story)
