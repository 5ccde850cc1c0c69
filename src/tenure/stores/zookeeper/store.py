"""The store: the methods of ``stores/base`` as nodes of ZooKeeper. Runs on asyncio.

It promises what the ensemble promises: transactions are numbered in one order, by consensus, and an ephemeral node ends
with its session. The token of a tenure is the transaction that created its node. It does not promise anything after the
data of all servers was replaced by an older copy: the numbers of the copy are given out again.
"""

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Self

from tenure.clients.zookeeper import Code, Event, Fault, LinkLost, Session, SessionOver, Settings, told
from tenure.clients.zookeeper.asking import Asking
from tenure.clients.zookeeper.wire import exists
from tenure.clock import BootClock, Clock
from tenure.errors import ConfigError, Refused, Unreachable
from tenure.model import Bid, Conflict, Document, Ended, Grant, Incumbent, Version, Wait
from tenure.stores.base import ElectionStatus, Group, Traits
from tenure.stores.documents import swapped
from tenure.stores.entry import entry_of
from tenure.stores.examining import Finding
from tenure.stores.groups import PlacedGroup
from tenure.stores.zookeeper import documents
from tenure.stores.zookeeper.candidacy import Candidacy
from tenure.stores.zookeeper.ensemble import identity_of, longest_session_ms, tick_of, traits_of
from tenure.stores.zookeeper.examine import examine, members_of
from tenure.stores.zookeeper.leases import Lease, Place
from tenure.stores.zookeeper.names import check_bid, check_name
from tenure.stores.zookeeper.queue import incumbent, leader_of
from tenure.stores.zookeeper.roll import confirm
from tenure.stores.zookeeper.roster import Roster
from tenure.stores.zookeeper.survey import leave_a_word, list_elections, proclaim

# The session for whoever only asks: nothing lives by it, so it may end soon after its process. The ensemble makes of this
# the shortest that it gives.
_ASKING_MS: Final = 1


class ZooKeeperStore:
    """Elections in a ZooKeeper ensemble: ``async with ZooKeeperStore(settings) as store``."""

    def __init__(self, settings: Settings, *, clock: Clock | None = None) -> None:
        self._settings = settings
        self._clock = BootClock() if clock is None else clock
        self._roster = Roster(settings, self._clock)
        self._candidacy = Candidacy(settings, self._clock, self._roster)
        self._asking = Asking(settings, _ASKING_MS, self._clock)
        self._traits: Traits | None = None
        self._identity = ""
        self._pid = 0  # of the process that opened it; none has this number

    async def __aenter__(self) -> Self:
        if self._pid:
            raise ConfigError("store", self.address, "was opened before: make a new one")
        self._pid = os.getpid()
        opened = False
        try:
            with told(self.address, "open"):
                session = await self._asking.session()
                self._identity = await identity_of(session, self._settings)
                longest_ms = await longest_session_ms(self._settings, self._clock)
            tick_ms = self._settings.tick_ms or tick_of(session.timeout_ms, longest_ms)
            self._traits = traits_of(self.address, tick_ms, longest_ms)
            self._roster.tick_ms = tick_ms
            opened = True
        finally:
            if not opened:
                await self._close()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every session by which nobody leads: whoever waits or has left is no more."""
        if self._pid == os.getpid():  # Else the sessions are those of the process that this one is a fork of.
            await self._close()

    async def _close(self) -> None:
        self._traits = None
        await self._roster.close()
        await self._asking.close()

    @property
    def traits(self) -> Traits:
        if self._traits is None:
            raise Unreachable(self.address, "traits", "the store is not open: use async with")
        return self._traits

    @property
    def address(self) -> str:
        return self._settings.address

    @property
    def identity(self) -> str:
        """A random name in a node of its own, made by whoever came first: ZooKeeper has none. Known once it is open.

        It belongs to the chroot, as elections do. If somebody deletes the node, stores that are opened afterwards make a
        new one, and with it new fences, which know of no older token: delete it only while nobody leads.
        """
        return f"zookeeper/{self._identity}"

    # The office

    async def claim(self, bid: Bid) -> Grant | Wait:
        traits, path = self._check("claim", bid.election)
        check_bid(self.address, "claim", bid)
        if not traits.ttl_min_ns <= bid.ttl_ns <= traits.ttl_max_ns:
            raise Refused(self.address, "claim", self._unfit(bid.ttl_ns, traits))
        with told(self.address, "claim"):
            for _ in range(2):
                # A session that is found to be over has deleted its nodes. There is nothing to doubt: begin with a new one.
                with suppress(SessionOver):
                    return await self._claim(bid, path)
            return await self._claim(bid, path)

    async def _claim(self, bid: Bid, path: str) -> Grant | Wait:
        self._check_open("claim")  # It may have been closed since, and what it had then is over for that reason.
        while (place := self._roster.places.find(bid)) is not None:
            if place.bid.serial > bid.serial:
                return Wait(bid, await self._incumbent(bid.election, path))
            if place.bid.serial == bid.serial and not place.leaving and not self._lapsed(place):
                break
            await self._roster.part(place)
        if place is None:
            place = self._roster.enter(bid)
        return await self._roster.stand(place, self._candidacy.stand)

    async def renew(self, grant: Grant) -> Grant | Ended:
        (answer,) = await self.renew_together([grant])
        return answer

    async def renew_together(self, grants: list[Grant]) -> list[Grant | Ended]:
        """Renew many tenures by one request for each ttl among them."""
        self._check_open("renew")
        places = [self.place_of(grant) for grant in grants]
        gone = await self.keep([place for place in places if place is not None])
        return [
            grant if place is not None and place not in gone and place.holds(grant) else Ended(grant.bid, grant.token)
            for grant, place in zip(grants, places, strict=True)
        ]

    def group(self, within_ns: int) -> Group:  # noqa: ARG002  (it is one request)
        """Return a group whose renewal is one request for each ttl in it."""
        return PlacedGroup(self)

    def place_of(self, grant: Grant) -> Place | None:
        """Return the place that holds ``grant``."""
        place = self._roster.places.find(grant.bid)
        return place if place is not None and place.holds(grant) else None

    async def keep(self, places: Sequence[Place]) -> set[Place]:
        """Renew the sessions of these places, and return which of them lead no more. One whose time is over is given up."""
        self._check_open("renew")
        now = self._clock.now()
        gone: set[Place] = set()
        by_lease: dict[Lease, list[Place]] = {}
        for place in places:
            if now >= place.heard_at + place.bid.ttl_ns:
                self._roster.give_up(place)
            if place.leaving or place.lease is None:
                gone.add(place)
            else:
                by_lease.setdefault(place.lease, []).append(place)
        with told(self.address, "renew"):
            for lease, held in by_lease.items():
                try:
                    await confirm(lease, held)
                except SessionOver:  # which has ended every tenure under it
                    gone.update(held)
        now = self._clock.now()
        for place in places:
            if place in gone or place.grant is None or place.leaving or not place.is_alive:
                gone.add(place)
            else:
                place.heard_at = now
        return gone

    async def proclaim(self, grant: Grant, address: str) -> Grant | Ended:
        self._check_open("proclaim")
        place = self._roster.places.find(grant.bid)
        if place is not None and place.lease is not None and place.holds(grant):
            said = replace(place.bid, advertise=address)
            with told(self.address, "proclaim"), suppress(SessionOver):
                if await proclaim(place.lease.session, place.node, entry_of(said)):
                    place.bid = said
                    return grant
        return Ended(grant.bid, grant.token)

    async def release(self, bid: Bid) -> None:
        self._check_open("release")
        place = self._roster.places.find(bid)
        if place is not None and place.bid == bid:
            with told(self.address, "release"):
                await self._roster.part(place)

    # Waiting and asking

    async def changed(self, wait: Wait) -> None:
        self._check_open("changed")
        place = self._roster.places.find(wait.bid)
        if place is None or place.bid != wait.bid:
            return  # It has lost its place, or never had one: only claiming gets it one.
        place.watch_count += 1
        try:
            with told(self.address, "changed"), suppress(SessionOver):
                while place.before and place.lease is not None and await self._still_there(place, place.lease.session):
                    pass
        finally:
            place.watch_count -= 1
            place.heard_at = self._clock.now()

    async def _still_there(self, place: Place, session: Session) -> bool:
        """Wait for news of the node before this one. True: there is none, only the connection broke."""
        heard: asyncio.Future[Event] = asyncio.get_running_loop().create_future()

        def hear(event: Event) -> None:
            if event is Event.DELETED:
                place.succeeds_at = session.heard_at
            if not heard.done():
                heard.set_result(event)

        path = f"{place.path}/{place.before}"
        try:
            await session.ask(exists(path, watch=True), hear)
            return await heard is Event.LOST
        except Fault as fault:
            if fault.code != Code.NO_NODE:
                raise
            return False
        except LinkLost:
            return True
        finally:
            session.unwatch(path, hear)

    async def read(self, election: str) -> Incumbent | None:
        _, path = self._check("read", election)
        with told(self.address, "read"):
            return await self._incumbent(election, path)

    async def _incumbent(self, election: str, path: str) -> Incumbent | None:
        found = await self._asking.ask(lambda session: leader_of(session, path))
        return None if found is None else incumbent(election, found[1], found[2])

    async def ask_to_resign(self, election: str) -> Incumbent | None:
        """Leave a word in the incumbent's node. Refused if the incumbent is no program of ours, which would not read it."""
        _, path = self._check("ask_to_resign", election)
        with told(self.address, "ask_to_resign"):
            return await self._asking.ask(lambda session: leave_a_word(session, self.address, election, path))

    def resign_asked(self, grant: Grant) -> bool:
        """Say whether the last renewal of this grant found such a word."""
        place = self._roster.places.find(grant.bid)
        return place is not None and place.holds(grant) and place.resign_asked

    async def elections(self) -> list[ElectionStatus]:
        """Return every election below the chroot: each node that has candidates as children, or had children and has none.

        A node that had children of another kind only is taken for one in which nobody stands.
        """
        self._check_open("elections")
        with told(self.address, "elections"):
            return await self._asking.ask(lambda session: list_elections(session, self.address, self._settings.chroot))

    async def fetch(self, key: str) -> Document | None:
        self._check_open("fetch")
        with told(self.address, "fetch"):
            return await self._asking.ask(lambda session: documents.fetch(session, self._settings, key))

    async def swap(self, key: str, value: bytes, version: Version | None) -> Document | Conflict:
        self._check_open("swap")
        return await swapped(self, self._write, key, value, version)

    async def _write(self, *what: Any) -> Version | None:
        with told(self.address, "swap"):
            return await self._asking.ask(lambda session: documents.write(session, self._settings, *what))

    async def examine(self, ttl_ns: int) -> list[Finding]:
        return await examine(self, self._settings, ttl_ns)

    async def members(self) -> dict[str, str | None]:
        return await members_of(self._settings)

    # Checks

    def _lapsed(self, place: Place) -> bool:
        """Say whether a tenure's time is over, although nobody has got round to giving it up."""
        return place.grant is not None and self._clock.now() >= place.ends_at()

    def _check(self, operation: str, election: str) -> tuple[Traits, str]:
        self._check_open(operation)
        return self.traits, check_name(self.address, operation, election, self._settings.chroot)

    def _check_open(self, operation: str) -> None:
        if self._traits is None:
            raise Unreachable(self.address, operation, "the store is not open: use async with")
        if self._pid != os.getpid():
            rule = f"was opened in process {self._pid}, of which this one is a fork: open it again here"
            raise ConfigError("store", self.address, rule)

    def _unfit(self, ttl_ns: int, traits: Traits) -> str:
        return (
            f"a ttl of {ttl_ns / 1e9:g} s is not between {traits.ttl_min_ns / 1e9:g} and {traits.ttl_max_ns / 1e9:g} s, "
            f"which the ensemble's tickTime and maxSessionTimeout allow"
        )
