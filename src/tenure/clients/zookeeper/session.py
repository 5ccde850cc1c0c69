"""One session of the engine, over as many connections as it takes. Runs on asyncio.

Rules of this file
1. A Session is one session of the engine and never becomes another: once that has ended it stays over, whatever number a
   server would give to a new one.
2. Nothing hangs. A server that leaves a request unanswered for longer than ``patience_s`` is left for another one, and
   whoever waits for an answer is told that there is none.
3. Nothing is sent twice. What was asked on a connection that broke is the caller's to judge: only the caller knows how to
   find out what came of it.
4. A watch ends with its connection, and its watcher is told so (``Event.LOST``).
5. A session keeps the length that it began with. A server that gives it less is left for another one, with which the old
   length holds again.
6. A session that no server has taken up for as long as it lasts is over. Nobody believes in it by then, and some servers
   will never take it: those whose data were lost hang up on whoever has seen more than they have.
7. A session that nobody keeps connected is over, whatever ended its keeper. Who has it would wait for a connection for
   ever, and nobody would open another session. The engine, which cannot be told, ends it when its time is over.

Why not kazoo: docs/adr/0014.
"""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from tenure.clients.unreached import by_what_they_did
from tenure.clients.zookeeper.faults import NotReached, SessionOver, why_not
from tenure.clients.zookeeper.link import Link, LinkLost
from tenure.clients.zookeeper.reaching import reach
from tenure.clients.zookeeper.settings import Settings
from tenure.clients.zookeeper.wire import CLOSE, NO_PASSWORD, Code, Event, Fault, Request, Welcome, greeting
from tenure.clock import Clock

T = TypeVar("T")
Watcher = Callable[[Event], None]

# After every server was tried in vain: long enough to cost nothing, short against any ttl.
_PAUSE_MIN_S: Final = 0.02
_PAUSE_MAX_S: Final = 1.0
_CLOSE_WITHIN_S: Final = 1.0
_PINGS_PER_TIMEOUT: Final = 3
_LOOKS_PER_PATIENCE: Final = 4


class Session:
    """Ask on it with ``ask``, or with several ``send`` in a row, which the engine carries out in that order."""

    def __init__(
        self,
        settings: Settings,
        timeout_ms: int,
        clock: Clock,
        *,
        patience_s: float,
        ping_every_s: float | None = None,
    ) -> None:
        self._settings, self._clock = settings, clock
        self._patience_s, self._ping_every_s = patience_s, ping_every_s
        self._welcome = Welcome(timeout_ms, 0, NO_PASSWORD)
        self._seen_zxid = 0
        self._endpoints = list(settings.endpoints)
        random.shuffle(self._endpoints)  # So that a thousand processes do not all begin with the first.
        self._watchers: dict[str, tuple[Watcher, ...]] = {}
        self._link: Link | None = None
        self._settled = asyncio.Event()  # there is a link, or there will never be one
        self._task: asyncio.Task[None] | None = None
        self._beat: asyncio.TimerHandle | None = None
        self._troubles: dict[str, str] = {}
        self.over: str | None = None  # why it has ended
        self.on_link: Callable[[], None] | None = None  # called whenever there is a new connection

    @property
    def id(self) -> int:
        """The engine's number of this session, by which it owns its ephemeral nodes."""
        return self._welcome.session

    @property
    def timeout_ms(self) -> int:
        """After how long without a word the engine ends it: what was asked for, as far as the engine agreed."""
        return self._welcome.timeout_ms

    async def open(self) -> None:
        """Begin the session. Raises NotReached once every server was tried in vain."""
        link = await self._try_each()
        if link is None:
            raise NotReached(self._tried())
        self._use(link)
        self._task = asyncio.get_running_loop().create_task(self._keep_linked(link))
        self._task.add_done_callback(self._left_alone)
        self._look()

    async def close(self) -> None:
        """End the session, and with it every ephemeral node, as far as a server can be told within a second."""
        link = self._link
        try:
            if link is not None and self.over is None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_CLOSE_WITHIN_S):
                        await link.send(CLOSE)
        finally:
            await self.abandon()

    async def abandon(self) -> None:
        """Leave the server without a word: what lives by the session ends when the session's time is over."""
        self._end("the store is closed")
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._link is not None:  # The task would have told the watchers.
            self._lose(self._link, "the store is closed")

    # Asking

    async def linked(self) -> None:
        """Return once something can be sent. Raises SessionOver or NotReached."""
        # Its end is told in the next turns of the event loop. Who asks again at once would keep them from coming.
        while self.over is None and self._link is not None and self._link.closing:
            await asyncio.wait([self._link.ended])
        if not self._settled.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self._patience_s):
                    await self._settled.wait()
        if self.over is not None:
            raise SessionOver(self.over)
        if self._link is None:
            raise NotReached(self._tried())

    def send(self, request: Request[T], watcher: Watcher | None = None) -> "asyncio.Future[T | Fault | LinkLost]":
        """Send at once; await ``linked`` before. ``watcher`` is told of the next event at ``request.watched``."""
        if self._link is None:
            answer: asyncio.Future[T | Fault | LinkLost] = asyncio.get_running_loop().create_future()
            answer.set_result(LinkLost(self.over or "the connection broke", in_doubt=False))
            return answer
        if watcher is not None:
            self._watchers[request.watched] = (*self._watchers.get(request.watched, ()), watcher)
        return self._link.send(request)

    async def result(self, answer: "asyncio.Future[T | Fault | LinkLost]") -> T:
        """Return the answer. Raises Fault, LinkLost or SessionOver."""
        value = await answer
        if not isinstance(value, Fault | LinkLost):
            return value
        try:
            if isinstance(value, Fault) and value.code == Code.SESSION_EXPIRED:
                self._end("the session has expired")
                raise SessionOver("the session has expired") from value
            if isinstance(value, Fault) and value.code == Code.SESSION_MOVED and self._link is not None:
                self._link.abort("the session was moved to another connection")
            raise value
        finally:
            # What is raised knows this frame, which must not know it: that would be garbage until somebody looks for cycles.
            del value, answer

    async def ask(self, request: Request[T], watcher: Watcher | None = None) -> T:
        """Send one request and return its answer."""
        await self.linked()
        return await self.result(self.send(request, watcher))

    def unwatch(self, path: str, watcher: Watcher) -> None:
        """Tell ``watcher`` nothing any more."""
        others = tuple(one for one in self._watchers.pop(path, ()) if one != watcher)
        if others:
            self._watchers[path] = others

    @property
    def heard_at(self) -> int:
        """When the last thing was sent that the server has answered: whatever it tells of next is not older."""
        return 0 if self._link is None else self._link.heard_at

    def heard_within(self, ns: int) -> bool:
        """Say whether something was sent in the last ``ns`` that the server has answered, if only that we are there."""
        return self._link is not None and self._clock.now() - self.heard_at <= ns

    def has_run_for(self, ns: int) -> bool:
        """Say whether the server has answered all the while in the last ``ns``, so often that it cannot have stood still.

        That is: for no longer than two pings are apart.
        """
        return self._link is not None and self._clock.now() - self._link.runs_since >= ns

    # Connections

    async def _keep_linked(self, link: Link) -> None:
        while True:
            self._lose(link, await link.ended)
            found = await self._find_link()
            if found is None:
                return
            link = found
            self._use(link)

    def _left_alone(self, keeper: "asyncio.Task[None]") -> None:
        """End the session if its keeper did not end with it, and do what the keeper would have done."""
        if not keeper.cancelled() and (error := keeper.exception()) is not None:
            self._end(f"nobody keeps the session connected any more: {error!r}")
            if self._link is not None:
                self._lose(self._link, "the session is over")

    async def _find_link(self) -> Link | None:
        """Try until there is a server that answers. None: the session is over."""
        pause_s = 0.0
        # Not before those who wait for a connection have been told why there is none.
        give_up_at = self._clock.now() + int(max(self.timeout_ms / 1000, self._patience_s) * 1e9)
        while self.over is None:
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
            link = await self._try_each()
            if link is not None:
                return link
            pause_s = min(max(_PAUSE_MIN_S, 2 * pause_s), _PAUSE_MAX_S)
            if self._clock.now() > give_up_at:
                self._end(f"no server has taken the session up while it lasts: {self._tried()}")
        return None

    async def _try_each(self) -> Link | None:
        """Try every server once, the one that was left last."""
        self._troubles.clear()
        for _ in range(len(self._endpoints)):
            if self.over is not None:
                break
            endpoint = self._endpoints[0]
            try:
                async with asyncio.timeout(min(self._settings.timeout_s, self._patience_s)):
                    return await self._reach(endpoint)
            # RuntimeError: no thread was left to look up the name.
            except (OSError, ValueError, RuntimeError, Fault, LinkLost) as error:
                self._troubles[endpoint] = why_not(error, over_tls=self._settings.tls is not None)
            self._endpoints.append(self._endpoints.pop(0))
        return None

    def _tried(self) -> str:
        return by_what_they_did(self._troubles.items())

    async def _reach(self, endpoint: str) -> Link | None:
        old = self._welcome
        hello = greeting(old.timeout_ms, old.session, old.password, self._seen_zxid)
        link, welcome = await reach(endpoint, self._settings, self._clock, hello, self._tell)
        # A server that knows nothing of the session says 0; some other engines give a new one under the same roof.
        if welcome.timeout_ms <= 0 or (old.session and welcome.session != old.session):
            link.abort("the session is over")
            self._end("the session has expired")
            return None
        if old.session and welcome.timeout_ms < old.timeout_ms:
            link.abort("it gives a shorter session")
            raise ConnectionError(
                f"it gives a session of {welcome.timeout_ms} ms, and this one began with {old.timeout_ms}: "
                f"have the same maxSessionTimeout on every server"
            )
        self._welcome = welcome
        return link

    def _use(self, link: Link) -> None:
        self._link = link
        link.gap_max_ns = int(2 * self._ping_every() * 1e9)
        self._settled.set()
        if self.on_link is not None:
            self.on_link()

    def _lose(self, link: Link, why: str) -> None:
        self._seen_zxid = max(self._seen_zxid, link.seen_zxid)
        self._link = None
        self._troubles = {self._endpoints[0]: why}
        self._endpoints.append(self._endpoints.pop(0))
        if self.over is None:
            self._settled.clear()
        watchers, self._watchers = self._watchers, {}
        for watcher in [one for each in watchers.values() for one in each]:
            watcher(Event.LOST)

    def _end(self, why: str) -> None:
        if self.over is None:
            self.over = why
            self._settled.set()
            if self._beat is not None:
                self._beat.cancel()
            if self._link is not None:
                self._link.abort(why)

    def _tell(self, kind: int, path: str) -> None:
        for watcher in self._watchers.pop(path, ()):
            watcher(Event(kind))

    def _ping_every(self) -> float:
        return self._ping_every_s or self.timeout_ms / 1000 / _PINGS_PER_TIMEOUT

    def _look(self) -> None:
        """Ping if nothing else was sent for a while, and leave a server that does not answer."""
        ping_every_s = self._ping_every()
        look_every_s = min(ping_every_s / 2, self._patience_s / _LOOKS_PER_PATIENCE)
        # First: whatever goes wrong below, the next look is taken. Without looks nothing is pinged, and no server that is mute is left.
        self._beat = asyncio.get_running_loop().call_later(look_every_s, partial(self._look))
        link, now = self._link, self._clock.now()
        if link is not None:
            if link.silent_for_ns() > self._patience_s * 1e9:
                link.abort(f"{self._endpoints[0]} did not answer for {self._patience_s:g} s")
            elif now - link.sent_at >= ping_every_s * 1e9 / 2:
                link.ping()
