"""A Kubernetes namespace as a store: one Lease for each election, taken and kept by compare-and-swap. Runs on asyncio.

Rules of this file
1. Whatever is decided is decided by a write that names the version that it is based on. What was seen, in an answer or by
   the watch, only says which write to try.
2. A tenure of ours is over once a ttl has passed since the last write that proved it was sent, whatever the Lease says.
3. What was begun for a bid is brought to its end, one thing after the other, also if its caller does not wait for it: a
   release that overtook a claim on its way would leave an office behind that nobody knows of. A renewal is the exception: it
   makes nothing, and if it is overtaken it is refused, as its version is not that of the Lease any more.
4. A Lease is never deleted: it is what makes tokens rise.
"""

import asyncio
import os
import random
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import Final, Self

from tenure.clients.kubernetes import Conflict, KubernetesClient, NotThere, Settings
from tenure.clients.kubernetes.client import Object
from tenure.clients.kubernetes.settings import RESOURCE_VERSION
from tenure.clients.kubernetes.watch import Watch
from tenure.clock import BootClock, Clock
from tenure.errors import ConfigError, OutcomeUnknown, Refused, Unreachable
from tenure.model import Bid, Ended, Grant, Incumbent, Wait
from tenure.stores.base import ElectionStatus, Group, Traits
from tenure.stores.examining import Finding
from tenure.stores.kubernetes.documents import DocumentKeeper
from tenure.stores.kubernetes.examine import examine
from tenure.stores.kubernetes.group import LeaseGroup, renewed_together
from tenure.stores.kubernetes.lease import Lease, number_in
from tenure.stores.kubernetes.leases import Leases, traits_of
from tenure.stores.kubernetes.names import check_name
from tenure.stores.kubernetes.places import Place, Places, asks_after_s, deadline_s, left_s
from tenure.stores.kubernetes.sightings import Sightings
from tenure.stores.turns import Busy, Turns

# How often something is written again because somebody else wrote meanwhile.
_TRIES_MAX: Final = 10


class KubernetesStore(DocumentKeeper):
    """Elections in one namespace. Used on one event loop, between ``async with`` and its end."""

    def __init__(self, settings: Settings, *, clock: Clock | None = None) -> None:
        client = KubernetesClient(settings.access, address=settings.address, timeout_s=settings.timeout_s)
        super().__init__(client, settings)
        self._clock = clock or BootClock()
        self._by_version = settings.tokens_from == RESOURCE_VERSION
        self._seen = Sightings(self._clock, self._rewound)
        self._leases = Leases(self.client, settings.namespace, self._seen)
        self._watch = Watch(self.client, self._leases.path, self._hear, self._seen.doubt_all)
        self._places, self._turns = Places(), Turns()
        self._open, self._pid = False, 0

    async def __aenter__(self) -> Self:
        await self.client.__aenter__()
        self._open, self._pid = True, os.getpid()
        async with AsyncExitStack() as unless_it_answers:
            unless_it_answers.push_async_exit(self)
            self._seen.identity = await self._leases.identity()
            unless_it_answers.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._open = False
        async with AsyncExitStack() as closing:  # Each step is taken, also if the one before it is cancelled.
            closing.push_async_callback(self.client.__aexit__)
            closing.push_async_callback(self._watch.end)
            await self._turns.all_ended()

    @property
    def traits(self) -> Traits:
        return traits_of(by_version=self._by_version)

    @property
    def identity(self) -> str:
        """The uid of the namespace, known once the store is open. A namespace that is made anew has another, and new fences."""
        return f"kubernetes/{self._seen.identity}"

    def _hear(self, what: str, thing: Object) -> None:
        name = str(thing["metadata"].get("name", ""))
        if not self._seen.has_seen(name, number_in(thing)):
            self._seen.hear(what, name, Lease(thing))

    def _rewound(self) -> None:
        self._watch.restart()

    # The office

    async def claim(self, bid: Bid) -> Grant | Wait:
        name = self._check("claim", bid.election)
        if not self.traits.ttl_min_ns <= bid.ttl_ns <= self.traits.ttl_max_ns:
            detail = f"a ttl of {bid.ttl_ns / 1e9:g} s is not between 1 s and 7 days, which a Lease can have"
            raise Refused(self.address, "claim", detail)
        await self._watch.begin()
        await self._places.earlier_ended(bid)
        place = self._places.find(bid)
        if place is None or place.bid.serial < bid.serial:
            sighting = self._seen.find(name) or await self._leases.look(name, "claim", left_s(deadline_s(bid)))
            place = self._places.enter_bid(bid, sighting)
        if place.bid.serial > bid.serial:
            return Wait(bid, await self.read(bid.election))
        return await self._turns.alone(place, self._claim(place))

    async def _claim(self, place: Place) -> Grant | Wait:
        bid, fresh = place.bid, False
        until_s = deadline_s(bid)
        for _ in range(_TRIES_MAX):
            lease, now = place.sighting.lease, self._clock.now()
            office, free, done = place.sighting.office, now >= place.sighting.over_at(), False
            if lease is not None and lease.is_by(bid.holder):
                if lease.serial > bid.serial:
                    return Wait(bid, self._incumbent(bid.election, lease))
                goes_on = lease.serial == bid.serial and lease.token(by_version=self._by_version) > place.over
                if goes_on and not free and not place.lapsed(now):
                    done = await self._write(place, self._kept(place, lease), lease, "claim", until_s) is not None
                else:
                    done = await self._take(place, lease, until_s)
            elif free or office is None or office.is_by(bid.holder):
                done = await self._take(place, lease, until_s)
            elif fresh:
                self._leases.check_sane(place.name, office)
                return Wait(bid, self._incumbent(bid.election, office))
            if done and place.token is not None:
                return Grant(bid, place.token)
            await self._leases.look(place.name, "claim", left_s(until_s))
            fresh = True
        raise Unreachable(self.address, "claim", f"others came between {_TRIES_MAX} times: claim again")

    async def _take(self, place: Place, lease: Lease | None, until_s: float) -> bool:
        """Begin a new tenure. False: the Lease was not as we thought."""
        place.end()
        transitions = self._leases.next_transitions(place.name, lease)
        body = self._leases.base(place.name, lease).taken(place.bid, transitions)
        taken = await self._write(place, body, lease, "claim", until_s)
        if taken is None or not self._by_version:
            return taken is not None
        # No write can name its own version, so a second one does.
        return await self._write(place, self._kept(place, taken), taken, "claim", until_s) is not None

    def _kept(self, place: Place, lease: Lease) -> Object:
        """Return the Lease as the tenure of this place goes on in it."""
        token = place.token or lease.token(by_version=self._by_version)
        # Put right, if somebody has set it back; and kept, if somebody has raised it, so that the next token is above that.
        transitions = lease.transitions if self._by_version else max(token, lease.transitions)
        counted = not self._by_version and token == transitions
        note = replace(lease.note, advertised=place.bid.advertise, token=None if counted else token)
        return lease.renewed(place.bid, note, transitions)

    async def _write(
        self, place: Place, body: Object, lease: Lease | None, operation: str, until_s: float
    ) -> Lease | None:
        """Write the Lease of a place that takes or keeps its office. None: it was not as we thought."""
        sent_at = self._clock.now()
        try:
            written = await self._leases.write(
                place.name, body, operation=operation, new=lease is None, within_s=left_s(until_s)
            )
        except Conflict:
            return None
        except NotThere:
            if lease is None:
                raise  # It is the namespace that is not there.
            return None
        except OutcomeUnknown:
            if place.token is None:
                place.doubt = "" if lease is None else lease.version
            raise
        place.doubt = None
        if not self._by_version or written.note.token is not None:
            place.token, place.proven_at = place.token or written.token(by_version=self._by_version), sent_at
            place.resign_asked = written.note.resign_asked
        return written

    async def renew(self, grant: Grant) -> Grant | Ended:
        return await self.renew_by(grant, deadline_s(grant.bid))

    async def renew_by(self, grant: Grant, until_s: float) -> Grant | Ended:
        """Renew a tenure, as ``renew`` does, by this time of the event loop."""
        self._check_open("renew")
        place = self._places.find(grant.bid)
        try:
            if place is not None and await self._turns.passing(place, self._renew(place, grant, until_s), until_s):
                return grant
        except Busy:
            raise Unreachable(self.address, "renew", "another request about it does not end") from None
        return Ended(grant.bid, grant.token)

    async def renew_together(self, grants: list[Grant]) -> list[Grant | Ended]:
        return await renewed_together(self, grants)

    def group(self, within_ns: int) -> Group:
        """Return a group whose renewal is a request for each, some at once: a Lease is an object of its own."""
        return LeaseGroup(self, within_ns)

    async def _renew(self, place: Place, grant: Grant, until_s: float) -> bool:
        for attempt in range(_TRIES_MAX):
            lease = await self._held(place, grant, "renew", until_s, look=attempt > 0)
            if lease is None:
                return False
            if await self._write(place, self._kept(place, lease), lease, "renew", until_s) is not None:
                return True
        raise self._crowded("renew")

    async def _held(self, place: Place, grant: Grant, operation: str, until_s: float, *, look: bool) -> Lease | None:
        """Return the Lease that a place holds under this grant. None: that tenure is over.

        What is remembered may give a write to try. That somebody is deposed is never said from memory.
        """
        if not place.holds(grant, self._clock.now()):
            return None
        if look or place.lease is None:
            await self._leases.look(place.name, operation, left_s(until_s))
        return place.lease

    async def proclaim(self, grant: Grant, address: str) -> Grant | Ended:
        self._check("proclaim", grant.bid.election)
        place = self._places.find(grant.bid)
        if place is not None and await self._turns.alone(place, self._proclaim(place, grant, address)):
            return grant
        return Ended(grant.bid, grant.token)

    async def _proclaim(self, place: Place, grant: Grant, address: str) -> bool:
        until_s = deadline_s(place.bid)
        for attempt in range(_TRIES_MAX):
            lease = await self._held(place, grant, "proclaim", until_s, look=attempt > 0)
            if lease is None:
                return False
            with suppress(Conflict, NotThere):
                body = lease.noted(replace(lease.note, advertised=address))
                await self._leases.write(place.name, body, operation="proclaim", within_s=left_s(until_s))
                place.bid = replace(place.bid, advertise=address)
                return True
        raise self._crowded("proclaim")

    async def release(self, bid: Bid) -> None:
        self._check("release", bid.election)
        place = self._places.find(bid)
        if place is not None and place.bid == bid:
            # Also if its caller is cancelled while it waits for a claim to end: nobody would ask for it again.
            await asyncio.shield(self._turns.start(self._turns.alone(place, self._leave(place))))

    async def _leave(self, place: Place) -> None:
        until_s = deadline_s(place.bid)
        try:
            if place.doubt is not None or (place.token is not None and place.lease is None):
                await self._leases.look(place.name, "release", left_s(until_s))
            for _ in range(_TRIES_MAX):
                lease = place.sighting.lease
                body = self._as_left(place, lease)
                if body is None:
                    return
                with suppress(Conflict, NotThere):
                    await self._leases.write(
                        place.name, body, operation="release", new=lease is None, within_s=left_s(until_s)
                    )
                    return
                await self._leases.look(place.name, "release", left_s(until_s))
            raise self._crowded("release")
        finally:
            self._places.forget(place)

    def _as_left(self, place: Place, lease: Lease | None) -> Object | None:
        """Return what to write so that nothing is left of this place. None: nothing is."""
        if lease is not None and lease.is_of(place.bid):
            return lease.left()
        # A claim that is still on its way would be carried out if the Lease stays as it is: so it must not.
        if place.doubt is not None and place.doubt == ("" if lease is None else lease.version):
            return self._leases.base(place.name, lease).closed(place.bid)
        return None

    # Those who have not the office

    async def changed(self, wait: Wait) -> None:
        name = self._check("changed", wait.bid.election)
        await self._watch.begin()
        sighting = self._seen.find(name)
        if sighting is None:
            return  # Nobody has looked since it was forgotten. Claiming does.
        sighting.user_count += 1
        try:
            # In doubt, only claiming helps, which looks: a release may be among what was missed.
            while (left_ns := sighting.over_at() - self._clock.now()) > 0 and not sighting.in_doubt:
                if sighting.office is not None and sighting.office.is_by(wait.bid.holder):
                    return  # It is in office itself, or was under another serial.
                with suppress(TimeoutError):
                    async with asyncio.timeout(left_ns / 1e9):
                        await sighting.news().wait()
        finally:
            sighting.user_count -= 1
        await asyncio.sleep(asks_after_s(random.random()))

    async def read(self, election: str) -> Incumbent | None:
        sighting = await self._leases.look(self._check("read", election), "read")
        if sighting.lease is None or self._clock.now() >= sighting.over_at():
            return None
        return self._incumbent(election, sighting.lease)

    async def ask_to_resign(self, election: str) -> Incumbent | None:
        """Leave a word in the Lease. Refused if the incumbent is no program of ours, which would not read it."""
        name = self._check("ask_to_resign", election)
        for _ in range(_TRIES_MAX):
            sighting = await self._leases.look(name, "ask_to_resign")
            lease = sighting.lease
            if lease is None or self._clock.now() >= sighting.over_at():
                return None
            if not lease.is_ours:
                who = f"the incumbent of {election!r} is not a program of ours ({lease.holder.host})"
                raise Refused(self.address, "ask_to_resign", f"{who}: ask it in its own way")
            with suppress(Conflict, NotThere):
                body = lease.noted(replace(lease.note, resign_asked=True))
                await self._leases.write(name, body, operation="ask_to_resign")
                return self._incumbent(election, lease)
        raise self._crowded("ask_to_resign")

    def resign_asked(self, grant: Grant) -> bool:
        place = self._places.find(grant.bid)
        return place is not None and place.holds(grant, self._clock.now()) and place.resign_asked

    async def elections(self) -> list[ElectionStatus]:
        """Return an election for each Lease of the namespace, and who of this process stands by: a Lease names no others.

        How long each has lasted, and will last, is by its holder's time of day.
        """
        self._check_open("elections")
        return await self._leases.all(self._places.standbys(), by_version=self._by_version)

    async def examine(self, ttl_ns: int) -> list[Finding]:
        return await examine(self, ttl_ns)

    def _incumbent(self, election: str, lease: Lease) -> Incumbent:
        return lease.incumbent(election, by_version=self._by_version)

    def _crowded(self, operation: str) -> Unreachable:
        return Unreachable(self.address, operation, f"others wrote to it {_TRIES_MAX} times meanwhile: try again")

    def _check(self, operation: str, election: str) -> str:
        self._check_open(operation)
        return check_name(self.address, operation, election)

    def _check_open(self, operation: str) -> None:
        if not self._open:
            raise Unreachable(self.address, operation, "the store is not open: use async with")
        if self._pid != os.getpid():
            rule = f"was opened in process {self._pid}, of which this one is a fork: open it again here"
            raise ConfigError("store", self.address, rule)
