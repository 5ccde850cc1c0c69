"""The model store: an engine in a dictionary, and the store that speaks to it.

``MemoryEngine`` is the contract of ``stores/base`` as plain code without IO; the simulator runs it in virtual time.
``MemoryStore`` gives it the five async methods; users test their own code with it. Nothing here survives the process,
so it elects among the tasks of one event loop and never among machines.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import anyio

from tenure.clock import BootClock, Clock
from tenure.errors import ConfigError, Refused
from tenure.model import Bid, Conflict, Document, Ended, Grant, Incumbent, Token, Version, Wait
from tenure.stores.base import Expiry, Traits, Wake


@dataclass(slots=True)
class _Place:
    """A bid's place in the queue. It is kept while its watch is held, and for one ttl after it was last heard of."""

    bid: Bid
    heard_at: int
    watch_count: int = 0

    def kept(self, now: int) -> bool:
        return self.watch_count > 0 or now < self.heard_at + self.bid.ttl_ns


@dataclass(slots=True)
class _Record:
    """One election: the tenure in office, if any, and who waits."""

    grant: Grant | None = None
    expires_at: int = 0
    queue: list[_Place] = field(default_factory=list)


class MemoryEngine:
    """The engine: what would survive a restart of the store. Every method is atomic and takes the engine's own time."""

    def __init__(self, *, queue: bool = False) -> None:
        self.queue = queue
        self.identity = f"memory-{secrets.token_hex(8)}"
        self._records: dict[str, _Record] = {}
        # One counter for all elections, and no record holds it: it survives the deletion of any record.
        self._last_token = 0
        self._listeners: dict[str, list[Callable[[], None]]] = {}
        self._documents: dict[str, Document] = {}
        self._swap_count = 0  # Over all documents, likewise.

    def claim(self, bid: Bid, now: int) -> Grant | Wait:
        record = self._records.setdefault(bid.election, _Record())
        held = self.holding(bid.election, now)
        if held is not None and held.bid.holder == bid.holder:
            if bid.serial < held.bid.serial:
                return Wait(bid, self.read(bid.election, now))  # A late repeat of a bid that its holder has given up.
            if bid.serial == held.bid.serial:
                record.expires_at = now + bid.ttl_ns
                return held
            held = record.grant = None
            self._tell(bid.election)
        if self.queue and not self._take_place(record, bid, now):
            return Wait(bid, self.read(bid.election, now))
        if held is not None or not self._first_in_line(record, bid, now):
            return Wait(bid, self.read(bid.election, now))
        record.queue = [place for place in record.queue if place.bid != bid]
        record.grant = Grant(bid, self._next_token(bid))
        record.expires_at = now + bid.ttl_ns
        return record.grant

    def renew(self, grant: Grant, now: int) -> Grant | Ended:
        held = self.holding(grant.bid.election, now)
        if held is None or held != grant:
            return Ended(grant.bid, grant.token)
        self._records[grant.bid.election].expires_at = now + grant.bid.ttl_ns
        return held

    def proclaim(self, grant: Grant, address: str, now: int) -> Grant | Ended:
        if self.holding(grant.bid.election, now) != grant:
            return Ended(grant.bid, grant.token)
        said = Grant(replace(grant.bid, advertise=address), grant.token)
        self._records[grant.bid.election].grant = said
        return said

    def release(self, bid: Bid, now: int) -> None:
        record = self._records.get(bid.election)
        if record is None:
            return
        record.queue = [place for place in record.queue if place.bid != bid]
        held = self.holding(bid.election, now)
        if held is not None and held.bid == bid:
            record.grant = None
        self._tell(bid.election)

    def read(self, election: str, now: int) -> Incumbent | None:
        held = self.holding(election, now)
        return None if held is None else Incumbent(election, held.bid.holder, held.token, held.bid.advertise)

    def fetch(self, key: str) -> Document | None:
        return self._documents.get(key)

    def swap(self, key: str, value: bytes, version: Version | None) -> Document | Conflict:
        current = self._documents.get(key)
        if version != (None if current is None else current.version):
            return Conflict(current)
        self._swap_count += 1
        self._documents[key] = written = Document(value, Version(str(self._swap_count)))
        return written

    def may_help(self, wait: Wait, now: int) -> bool:
        """Say whether claiming again may help. A level, not an edge: no wake-up can be lost between answer and wait."""
        if self.holding(wait.bid.election, now) is not None:
            return False
        record = self._records.get(wait.bid.election)
        return record is None or self._first_in_line(record, wait.bid, now)

    def next_expiry(self, election: str, now: int) -> int | None:
        """Return when time alone will next change who may claim, or None."""
        record = self._records.get(election)
        if record is None:
            return None
        if self.holding(election, now) is not None:
            return record.expires_at
        ends = [place.heard_at + place.bid.ttl_ns for place in record.queue if not place.watch_count]
        return min((end for end in ends if end > now), default=None)

    def watching(self, bid: Bid, change: int, now: int) -> None:
        """Note that a watch for ``bid`` began (+1) or ended (-1): it keeps the bid's place in the queue."""
        record = self._records.get(bid.election)
        for place in record.queue if record else ():
            if place.bid == bid:
                # A watch may be older than the place: it began when there was none, and ends when there is.
                place.watch_count = max(0, place.watch_count + change)
                place.heard_at = now
        if change < 0:
            # From now on time alone ends the place. Who waits behind it may have found it kept a moment ago, and
            # would otherwise sleep on for ever.
            self._tell(bid.election)

    def delete(self, election: str) -> None:
        """Forget an election, as an operator would by hand. Tokens rise on all the same."""
        self._records.pop(election, None)
        self._tell(election)

    def listen(self, election: str, listener: Callable[[], None]) -> Callable[[], None]:
        """Call ``listener`` after whatever may have freed a place or the office; returns what ends that."""
        listeners = self._listeners.setdefault(election, [])
        listeners.append(listener)

        def unlisten() -> None:
            listeners.remove(listener)
            if not listeners:
                self._listeners.pop(election, None)

        return unlisten

    def holding(self, election: str, now: int) -> Grant | None:
        """Return the grant in office at ``now``."""
        record = self._records.get(election)
        if record is None or now >= record.expires_at:
            return None
        return record.grant

    def _next_token(self, _: Bid) -> Token:
        self._last_token += 1
        return Token(self._last_token)

    def _tell(self, election: str) -> None:
        for listener in tuple(self._listeners.get(election, ())):
            listener()

    def _take_place(self, record: _Record, bid: Bid, now: int) -> bool:
        """Give ``bid`` its place; False if its holder has queued with a later bid, of which this is a late forerunner."""
        for place in record.queue:
            if place.bid.holder == bid.holder and place.bid.serial >= bid.serial:
                place.heard_at = now
                return place.bid == bid
        record.queue = [place for place in record.queue if place.bid.holder != bid.holder]
        record.queue.append(_Place(bid, now))
        return True

    def _first_in_line(self, record: _Record, bid: Bid, now: int) -> bool:
        if not self.queue:
            return True
        record.queue = [place for place in record.queue if place.kept(now)]
        # Not in line at all (its place was lost): it must claim again to get one.
        return not any(place.bid == bid for place in record.queue) or record.queue[0].bid == bid


def from_url(url: str, *, queue: bool = False) -> "MemoryStore":
    """Return a store for ``memory://``: an engine of its own, which ends with the store."""
    if url != "memory://":
        raise ConfigError("store", url, "must be just memory://")
    return MemoryStore(MemoryEngine(queue=queue))


class MemoryStore:
    """The five methods over a MemoryEngine. Stores that share an engine are like processes that share a server."""

    def __init__(self, engine: MemoryEngine | None = None, clock: Clock | None = None) -> None:
        self._engine = MemoryEngine() if engine is None else engine
        self._clock: Clock = BootClock() if clock is None else clock

    @property
    def traits(self) -> Traits:
        return Traits(
            queue=self._engine.queue,
            wake=Wake.WATCH,
            expiry=Expiry.ENGINE,
            token_source="a counter of the engine, over all elections",
            ttl_min_ns=1_000_000,
            ttl_max_ns=7 * 24 * 3600 * 10**9,
            expiry_slack_ns=0,
        )

    @property
    def address(self) -> str:
        return "memory://"

    @property
    def identity(self) -> str:
        return self._engine.identity

    async def claim(self, bid: Bid) -> Grant | Wait:
        traits = self.traits
        if not traits.ttl_min_ns <= bid.ttl_ns <= traits.ttl_max_ns:
            detail = f"ttl of {bid.ttl_ns} ns is not between {traits.ttl_min_ns} and {traits.ttl_max_ns} ns"
            raise Refused(self.address, "claim", detail)
        return self._engine.claim(bid, self._clock.now())

    async def renew(self, grant: Grant) -> Grant | Ended:
        return self._engine.renew(grant, self._clock.now())

    async def proclaim(self, grant: Grant, address: str) -> Grant | Ended:
        return self._engine.proclaim(grant, address, self._clock.now())

    async def release(self, bid: Bid) -> None:
        self._engine.release(bid, self._clock.now())

    async def changed(self, wait: Wait) -> None:
        election = wait.bid.election
        self._engine.watching(wait.bid, +1, self._clock.now())
        try:
            # One reading of the clock per turn: a lease that ended between two would be neither held nor yet to end.
            while not self._engine.may_help(wait, now := self._clock.now()):
                await self._news(election, self._engine.next_expiry(election, now))
        finally:
            self._engine.watching(wait.bid, -1, self._clock.now())

    async def read(self, election: str) -> Incumbent | None:
        return self._engine.read(election, self._clock.now())

    async def fetch(self, key: str) -> Document | None:
        return self._engine.fetch(key)

    async def swap(self, key: str, value: bytes, version: Version | None) -> Document | Conflict:
        return self._engine.swap(key, value, version)

    async def _news(self, election: str, expiry: int | None) -> None:
        """Return when the engine told of a change, or at ``expiry``."""
        told = anyio.Event()
        unlisten = self._engine.listen(election, told.set)
        try:
            async with anyio.create_task_group() as waiting:
                if expiry is not None:
                    waiting.start_soon(self._tell_at, expiry, told)
                await told.wait()
                waiting.cancel_scope.cancel()
        finally:
            unlisten()

    async def _tell_at(self, instant: int, told: anyio.Event) -> None:
        await self._clock.sleep_until(instant)
        told.set()
