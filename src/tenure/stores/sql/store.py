"""Elections in a SQL database: what an event loop sees of it. Runs on asyncio.

Rules of this file
1. Whatever is decided is decided by one guarded statement. What was seen before only says which one to send.
2. Whose clock ends a lease is the same question everywhere: the database's, or, with ``expiry=observer``, that of whoever has
   seen no change of the row for its ttl.
3. A claim of which no answer came is withdrawn with its bid, so that it has no effect however late it is carried out.
"""

import asyncio
import os
import secrets
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Final, Protocol, Self

from tenure.clock import BootClock, Clock
from tenure.errors import ConfigError, OutcomeUnknown, Refused, Unreachable
from tenure.model import Bid, Conflict, Document, Ended, Grant, Incumbent, Token, Version, Wait
from tenure.stores.base import ElectionStatus, Traits, Wake
from tenure.stores.documents import swapped
from tenure.stores.sql.lookout import Lookout
from tenure.stores.sql.places import Place, Places, Sightings
from tenure.stores.sql.rows import Ask, Lasting, Office, Taken, check_address, check_bid, check_text
from tenure.stores.sql.settings import SqlSettings

# What the doctor's own elections are called. It is not told of as an election, and its row stays: to delete one is a right that
# elections do not need.
TRIAL: Final = "tenure-doctor"
_TRIES_MAX: Final = 10  # how often a claim begins again because somebody else wrote meanwhile
_CALLS_PER_TTL: Final = (
    5  # A call must be given up before its holder stops waiting for it, which is a quarter of the ttl.
)
TTL_MIN_NS: Final = 500_000_000
_TTL_MAX_NS: Final = 7 * 24 * 3600 * 10**9
_TOGETHER_MAX: Final = 512  # rows that one statement locks
_SLACK_NS: Final = 100_000_000


class Engine(Protocol):
    """What a database is asked for. Every method raises StoreError and nothing else; each is carried out to its end."""

    async def open(self) -> str:
        """Connect, make sure that the tables are there, and return what tells this database from all others."""
        ...

    async def close(self) -> None: ...

    async def claim(self, ask: Ask, within_s: float) -> Taken | Office | None:
        """Take the row for a bid, or return who has it. None: it changed meanwhile."""
        ...

    async def renew(self, grants: list[Grant], within_s: float, *, observed: bool) -> Lasting:
        """Prolong all of these that last, and return those."""
        ...

    async def release(self, bid: Bid, marks: list[str], within_s: float) -> None:
        """Free the row if this bid has it. ``marks`` are of claims that must have no effect from now on."""
        ...

    async def proclaim(self, grant: Grant, address: str, within_s: float) -> bool: ...

    async def ask_to_resign(self, election: str, token: int, within_s: float) -> bool: ...

    async def look(self, elections: list[str] | None, operation: str, within_s: float) -> list[Office]:
        """Return these rows, or all; an election that has none is left out."""
        ...

    async def fetch(self, key: str, within_s: float) -> Document | None:
        """Return the row of a document."""
        ...

    async def write(self, key: str, document: Document, version: Version | None, within_s: float) -> bool:
        """Write the row of a document if it is at this version. False: it is not."""
        ...

    async def listen(self, lookout: Lookout) -> None:
        """See to it that ``lookout`` hears of releases, if this database can tell."""
        ...

    @property
    def wake(self) -> Wake: ...

    @property
    def token_source(self) -> str: ...


class SqlStore:
    """The five methods over such an engine. Used on one event loop, between ``async with`` and its end."""

    def __init__(self, engine: Engine, settings: SqlSettings, clock: Clock | None = None) -> None:
        self._engine, self.sql = engine, settings
        self._clock = clock or BootClock()
        self._places, self._seen = Places(), Sightings()
        self._lookout = Lookout(self._left, settings.poll_s)
        self._open, self._pid, self._identity = False, 0, ""

    async def __aenter__(self) -> Self:
        if self._pid:
            raise ConfigError("store", self.address, "was opened before: make a new one")
        self._open, self._pid = True, os.getpid()
        async with AsyncExitStack() as unless_it_answers:
            unless_it_answers.push_async_exit(self)
            self._identity = await self._engine.open()
            unless_it_answers.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._pid != os.getpid():
            return  # A fork has the sockets and must leave them alone.
        self._open = False
        await self._lookout.end(Unreachable(self.address, "changed", "the store was closed"))
        await self._engine.close()

    @property
    def traits(self) -> Traits:
        polls_ns = round(self.sql.poll_s * 10**9) if self.sql.observed else 0
        return Traits(
            queue=False,
            wake=self._engine.wake,
            expiry=self.sql.expiry,
            token_source=self._engine.token_source,
            ttl_min_ns=TTL_MIN_NS,
            ttl_max_ns=_TTL_MAX_NS,
            # That of which nobody is told is seen when somebody looks.
            expiry_slack_ns=_SLACK_NS + polls_ns,
        )

    @property
    def address(self) -> str:
        return self.sql.address

    @property
    def identity(self) -> str:
        """What tells this database from all others, known once the store is open."""
        self._check_open("identity")
        return self._identity

    # The office

    async def claim(self, bid: Bid) -> Grant | Wait:
        self._check("claim", bid)
        if not TTL_MIN_NS <= bid.ttl_ns <= _TTL_MAX_NS:
            detail = f"a ttl of {bid.ttl_ns / 1e9:g} s is not between {TTL_MIN_NS / 1e9:g} s and 7 days"
            raise Refused(self.address, "claim", detail)
        place = self._places.enter_bid(bid)
        for _ in range(_TRIES_MAX):
            ask = await self._ask_for(place, bid)
            if isinstance(ask, Wait):
                return ask
            sent_at = self._clock.now()
            try:
                answer = await self._engine.claim(ask, self._within_s(bid))
            except (OutcomeUnknown, asyncio.CancelledError):  # Who is cancelled does not hear what comes of it.
                place.in_doubt.add(bid.serial)
                raise
            if isinstance(answer, Taken):
                return self._granted(place, bid, answer, sent_at)
            if isinstance(answer, Office):
                self._seen.see(answer, self._clock.now())
                return Wait(bid, answer.incumbent if self._left_ns(answer) > 0 else None)
        raise Unreachable(self.address, "claim", f"others came between {_TRIES_MAX} times: claim again")

    async def _ask_for(self, place: Place, bid: Bid) -> Ask | Wait:
        """Return what to ask for. Only an observer has to look first: it is the one who knows whose lease is over."""
        if not self.sql.observed:
            return Ask(bid)
        now = self._clock.now()
        ask = Ask(bid, observed=True, goes_on=not (place.bid == bid and place.lapsed(now)))
        office = await self._read_row(bid.election, "claim", self._within_s(bid))
        if office is None or office.holder is None:
            return ask
        if self._left_ns(office) <= 0:
            return replace(ask, seen=(office.token, office.version))
        if office.holder != bid.holder or office.serial > bid.serial:
            return Wait(bid, office.incumbent)
        return ask

    def _granted(self, place: Place, bid: Bid, taken: Taken, sent_at: int) -> Grant:
        self._seen.see_version(bid.election, taken.token, taken.version, self._clock.now())
        if place.bid == bid:
            place.resign_asked = place.resign_asked and place.token == taken.token
            place.token, place.proven_at = taken.token, sent_at
        # An answer says that the row is ours. A repeat that was lost may still come, and then does what this one did.
        return Grant(bid, Token(taken.token))

    async def renew(self, grant: Grant) -> Grant | Ended:
        (answer,) = await self.renew_together([grant])
        return answer

    async def renew_together(self, grants: list[Grant]) -> list[Grant | Ended]:
        """Renew many tenures by one statement. If it fails, all of them may have been renewed, or none."""
        for grant in grants:
            self._check("renew", grant.bid)
        answers: list[Grant | Ended] = []
        for first in range(0, len(grants), _TOGETHER_MAX):
            answers += await self._renew(grants[first : first + _TOGETHER_MAX])
        return answers

    async def _renew(self, grants: list[Grant]) -> list[Grant | Ended]:
        sent_at = self._clock.now()
        asked = [grant for grant in grants if not self._is_over(grant, sent_at)]
        lasting: Lasting = {}
        if asked:
            within_s = min(self._within_s(grant.bid) for grant in asked)
            lasting = await self._engine.renew(asked, within_s, observed=self.sql.observed)
        answers: list[Grant | Ended] = []
        for grant in grants:
            found = lasting.get((grant.bid.election, grant.token)) if grant in asked else None
            place = self._places.holding(grant)
            if found is not None:
                self._seen.see_version(grant.bid.election, grant.token, found[0], self._clock.now())
                if place is not None:
                    place.proven_at, place.resign_asked = sent_at, found[1]
            answers.append(Ended(grant.bid, grant.token) if found is None else grant)
        return answers

    def _is_over(self, grant: Grant, now: int) -> bool:
        """Say whether a tenure is over whatever the row says, which only an observer knows."""
        place = self._places.holding(grant)
        return self.sql.observed and (place is None or place.lapsed(now))

    async def proclaim(self, grant: Grant, address: str) -> Grant | Ended:
        self._check("proclaim", grant.bid)
        check_address(self.address, "proclaim", address)
        over = self._is_over(grant, self._clock.now())
        if over or not await self._engine.proclaim(grant, address, self._within_s(grant.bid)):
            return Ended(grant.bid, grant.token)
        return Grant(replace(grant.bid, advertise=address), grant.token)

    async def release(self, bid: Bid) -> None:
        self._check("release", bid)
        place = self._places.find(bid)
        marks: list[str] = []
        if place is not None and place.in_doubt:
            serials = sorted(serial for serial in place.in_doubt if serial <= bid.serial)
            marks = [Ask(replace(bid, serial=serial)).mark for serial in serials]
        await self._engine.release(bid, marks, self._within_s(bid))
        self._places.leave(bid)

    # Those who have not the office

    async def changed(self, wait: Wait) -> None:
        self._check("changed", wait.bid)
        await self._engine.listen(self._lookout)
        self._check_open("changed")  # It may have been closed meanwhile, and nobody would end a wait that begins now.
        await self._lookout.wait(wait.bid.election)

    async def _left(self, elections: list[str]) -> dict[str, int]:
        rows = {office.election: office for office in await self._engine.look(elections, "changed", self.sql.timeout_s)}
        now = self._clock.now()
        for office in rows.values():
            self._seen.see(office, now)
        return {name: self._left_ns(rows[name]) if name in rows else 0 for name in elections}

    def _left_ns(self, office: Office) -> int:
        """Return for how long whoever the row names is still in office, as the one says who judges it."""
        if office.holder is None:
            return 0
        if self.sql.observed:
            return self._seen.left_ns(office, self._clock.now())
        # One that no clock of ours ends is looked at again and again.
        return _TTL_MAX_NS if office.remaining_ns is None else office.remaining_ns

    async def _read_row(self, election: str, operation: str, within_s: float) -> Office | None:
        rows = await self._engine.look([election], operation, within_s)
        for office in rows:
            self._seen.see(office, self._clock.now())
        return rows[0] if rows else None

    async def read(self, election: str) -> Incumbent | None:
        self._check_open("read")
        check_text(self.address, "read", election)
        office = await self._read_row(election, "read", self.sql.timeout_s)
        return None if office is None or self._left_ns(office) <= 0 else office.incumbent

    async def ask_to_resign(self, election: str) -> Incumbent | None:
        """Leave a word in the row, which its holder finds at its next renewal."""
        incumbent = await self.read(election)
        if incumbent is None:
            return None
        asked = await self._engine.ask_to_resign(election, incumbent.token, self.sql.timeout_s)
        return incumbent if asked else None

    def resign_asked(self, grant: Grant) -> bool:
        place = self._places.holding(grant)
        return place is not None and place.resign_asked

    async def elections(self) -> list[ElectionStatus]:
        """Return every row, and who of this process stands by: a row names no others."""
        self._check_open("elections")
        standbys = self._places.standbys()
        rows = await self._engine.look(None, "elections", self.sql.timeout_s)
        return [
            office.status(standbys.get(office.election, ()), over=self._left_ns(office) <= 0)
            for office in sorted(rows, key=lambda office: office.election)
            if office.election != TRIAL
        ]

    # Documents

    async def fetch(self, key: str) -> Document | None:
        self._check_open("fetch")
        check_text(self.address, "fetch", key)
        return await self._engine.fetch(key, self.sql.timeout_s)

    async def swap(self, key: str, value: bytes, version: Version | None) -> Document | Conflict:
        self._check_open("swap")
        check_text(self.address, "swap", key)
        return await swapped(self, self._write_document, key, value, version)

    async def _write_document(self, key: str, value: bytes, version: Version | None) -> Version | None:
        # By chance and not by a counter, which goes back with a backup, or where a replica is promoted that missed the last writes.
        document = Document(value, Version(secrets.token_hex(8)))
        return document.version if await self._engine.write(key, document, version, self.sql.timeout_s) else None

    def _within_s(self, bid: Bid) -> float:
        return min(self.sql.timeout_s, bid.ttl_ns / 1e9 / _CALLS_PER_TTL)

    def _check(self, operation: str, bid: Bid) -> None:
        self._check_open(operation)
        check_bid(self.address, operation, bid)

    def _check_open(self, operation: str) -> None:
        if not self._open:
            raise Unreachable(self.address, operation, "the store is not open: use async with")
        if self._pid != os.getpid():
            rule = f"was opened in process {self._pid}, of which this one is a fork: open it again here"
            raise ConfigError("store", self.address, rule)
