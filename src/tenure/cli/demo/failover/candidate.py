"""A candidate of the failover: a brain that leads two workers, and that can be asked over HTTP while it leads.

It uses what any program would: ``Election.lead`` with ``prepare=``, a sink, channels to workers. Told ``h`` on its standard input, it gets
its next delivery ready, the tenure checked, and sends it only when it is told ``g``: whatever is frozen there will send it when it wakes.
"""

import argparse
import hashlib
import json
import os
import sqlite3
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, NoReturn
from urllib.parse import quote

import anyio
from anyio import to_thread

import tenure
from tenure.apps.control import Delivery, HttpChannel, Order, deliver_to_all
from tenure.cli.demo.failover.setting import ELECTION, Pace
from tenure.cli.demo.happening import What
from tenure.cli.demo.telling import ToldStore, end_with_the_director, say
from tenure.model import Token
from tenure.sinks import SQLiteSink
from tenure.sinks.http import Presented
from tenure.web.serving import serving

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

_STDIN: Final = 0
_PARTS: Final = 50  # in which the feed is read and the cache is filled, one after the other


class Brain:
    """What a leader decides by: the feed as it was read, and a cache of what follows from it."""

    def __init__(self, feed: Path) -> None:
        self._feed = sqlite3.connect(feed, isolation_level=None, check_same_thread=False)
        self._facts: dict[int, str] = {}
        self._cache: dict[int, str] = {}

    async def load(self, within_s: float) -> None:
        """Read the feed, all of it, spread over a time: real rows, read as slowly as those of a large database."""
        (last,) = self._feed.execute("SELECT max(position) FROM feed").fetchone()
        step = -(-last // _PARTS)

        def read(part: int) -> None:
            rows = "SELECT position, fact FROM feed WHERE position > ? AND position <= ?"
            self._facts.update(self._feed.execute(rows, (part * step, (part + 1) * step)))

        await _spread(within_s, read)

    async def warm(self, within_s: float) -> None:
        """Fill the cache, spread over a time likewise."""
        facts = list(self._facts.items())
        step = -(-len(facts) // _PARTS)
        await _spread(within_s, lambda part: self._think(facts[part * step : (part + 1) * step]))

    def read_on(self) -> None:
        """Take in what has been written since: a few rows, at once."""
        at = max(self._facts, default=0)
        new = self._feed.execute("SELECT position, fact FROM feed WHERE position > ?", (at,)).fetchall()
        self._facts.update(new)
        self._think(new)

    def is_whole(self) -> bool:
        """Say whether all of the feed is here, and thought through."""
        (count,) = self._feed.execute("SELECT count(*) FROM feed").fetchone()
        return (len(self._facts), len(self._cache)) == (count, count)

    def _think(self, facts: Sequence[tuple[int, str]]) -> None:
        self._cache.update((position, hashlib.sha256(fact.encode()).hexdigest()) for position, fact in facts)


async def _spread(within_s: float, work: Callable[[int], object]) -> None:
    began = anyio.current_time()
    for part in range(_PARTS):
        work(part)
        await anyio.sleep_until(began + within_s * (part + 1) / _PARTS)


class Candidate:
    """One that stands; in office it leads the workers."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._pace, self._is_warm = Pace(given.factor), given.standby == "warm"
        # The first leader of the story has led for long: what it took to get ready is not measured.
        self._share = 0 if given.first else 1
        self._brain, self._feed = Brain(given.feed), SQLiteSink(given.feed)
        self._channels = {worker.partition("=")[0]: HttpChannel(worker.partition("=")[2]) for worker in given.worker}
        self._term: tenure.Tenure | None = None  # while it serves
        self._store, self._holds, self._go = given.store, threading.Event(), SimpleQueue[None]()

    def listen(self) -> NoReturn:
        """Take the director's orders until there is none any more. Runs on a thread of its own."""
        while word := os.read(_STDIN, 1):
            (self._holds.set if word == b"h" else partial(self._go.put, None))()
        os._exit(0)

    def answer(self, _: "WSGIEnvironment", start_response: "StartResponse") -> list[bytes]:
        """Answer a client: the leader does, and nobody else."""
        term = self._term
        leads = term is not None and term.valid
        body = json.dumps({"token": term.token if term is not None and leads else None}).encode()
        start_response("200 OK" if leads else "503 Service Unavailable", [("Content-Length", str(len(body)))])
        return [body]

    async def stand(self) -> None:
        threading.Thread(target=self.listen, daemon=True).start()
        with serving(self.answer) as url:
            async with tenure.open_store(f"sqlite://{quote(str(self._store))}") as opened:
                election = tenure.Election(ToldStore(opened.store), ELECTION, timing=self._pace.timing, advertise=url)
                prepare: Callable[[tenure.Standby], Awaitable[object]] | None = self._follow if self._is_warm else None
                await election.lead(self._lead, sinks=[self._feed], prepare=prepare)

    async def _follow(self, standby: tenure.Standby) -> None:
        await self._get_ready()
        standby.ready()
        say(What.READY)
        while True:
            await anyio.sleep(self._pace.round_s)
            self._brain.read_on()

    async def _get_ready(self) -> None:
        budget = self._pace.cold
        await self._brain.load(budget.load_s * self._share)
        say(What.LOADED)
        await self._brain.warm(budget.warm_s * self._share)

    async def _lead(self, term: tenure.Tenure) -> None:
        about = {"token": int(term.token)}
        say(What.LEADS, **about)
        if not self._is_warm:
            await self._get_ready()
        self._brain.read_on()  # The seal has shut out the one before: this is all that there will be of it.
        assert self._brain.is_whole(), "a leader that does not know everything must not decide"
        if self._is_warm:
            say(What.LOADED, **about)
        say(What.WARMED, **about)
        self._term = term
        say(What.SERVES, **about)
        try:
            while True:
                # In a thread, as blocking work is. Cancellation waits for it and cannot stop it: what was about to be sent when the
                # process fell asleep is sent when it wakes.
                await to_thread.run_sync(self._round, term)
                await anyio.sleep(self._pace.round_s)
        finally:
            self._term = None

    def _round(self, term: tenure.Tenure) -> None:
        if not term.valid:
            return
        deliveries = {name: self._delivery(name, term.token) for name in self._channels}
        if self._holds.is_set():
            say(What.READY, token=int(term.token))
            self._go.get()
            # As a leader does that looked at its clock before it fell asleep, and not after.
            anyio.run(self._deliver_late, Presented(Token(term.token), term.fence), deliveries)
            return
        with self._feed.transaction(term) as feed:
            feed.execute("INSERT INTO feed (fact, token) VALUES (?, ?)", (f"decided under {term.token}", term.token))
        for name, outcome in anyio.run(deliver_to_all, term, self._channels, deliveries).items():
            if isinstance(outcome, tenure.TenureError):
                raise outcome
            say(What.DELIVERED, token=int(term.token), worker=name)

    def _delivery(self, worker: str, token: int) -> Delivery:
        # All of its orders, every time: one that every leader gives, and one that only this one does.
        standing, own = (
            Order(f"{worker} works on", {"rate": "standing"}),
            Order(f"{worker} of {token}", {"once": token}),
        )
        return Delivery((standing, own), complete=True)

    async def _deliver_late(self, term: Presented, deliveries: dict[str, Delivery]) -> None:
        for name, channel in self._channels.items():
            try:
                await channel.deliver(term, deliveries[name])
            except tenure.StaleToken as stale:
                say(What.REFUSED, token=int(term.token), worker=name, highest=stale.highest)
            else:
                say(What.DELIVERED, token=int(term.token), worker=name)


def main() -> None:
    """Stand for election until the director is gone."""
    parser = argparse.ArgumentParser()
    parser.add_argument("store", type=Path)
    parser.add_argument("feed", type=Path)
    parser.add_argument("factor", type=float)
    parser.add_argument("standby", choices=("cold", "warm"))
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--worker", action="append", default=[])
    end_with_the_director()
    try:
        anyio.run(Candidate(parser.parse_args()).stand)
    except tenure.TenureError as error:
        sys.exit(f"{error}")  # The director reads the last line of standard error.


if __name__ == "__main__":
    main()
