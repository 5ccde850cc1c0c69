"""The store: the methods of ``stores/base`` as transactions of Consul. Runs on asyncio.

It promises what the servers promise: an index is given out once, in one order, by consensus. Every write of ours names the
index that it expects, so one that arrives late, after somebody else has written, does nothing.
"""

from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import Final, Self

from tenure.clients.consul.client import ConsulClient
from tenure.clock import BootClock, Clock
from tenure.errors import Refused, StoreError, Unreachable
from tenure.model import Bid, Conflict, Document, Grant, Incumbent, Version, Wait
from tenure.stores.base import ElectionStatus, Traits
from tenure.stores.consul import documents
from tenure.stores.consul.agent import lock_delay_ns, met, traits_of
from tenure.stores.consul.candidacy import Candidacy
from tenure.stores.consul.examine import examine
from tenure.stores.consul.layout import check_lock, incumbent_of, key_of
from tenure.stores.consul.roll import leave
from tenure.stores.consul.sessions import Place, Session, SessionGone, Sessions
from tenure.stores.consul.survey import leave_a_word, list_elections
from tenure.stores.consul.waits import Waits
from tenure.stores.documents import swapped
from tenure.stores.entry import entry_of
from tenure.stores.examining import Finding
from tenure.stores.sharing.store import SharingStore

# How often a claim begins again within one call: its session was over, or others came between. Where forty of one process
# come at once for a new key, each meets three: who made the key, who took it, and who was next.
_TRIES_MAX: Final = 6


class ConsulStore(SharingStore[Place, Session]):
    """Elections in Consul: ``async with ConsulStore(client) as store``."""

    _over, _tries_max = SessionGone, _TRIES_MAX
    shorter_ttl: Final = ", or lower session_ttl_min on the servers"  # what else there is to do for who wants one

    def __init__(self, client: ConsulClient, *, clock: Clock | None = None) -> None:
        super().__init__(client, BootClock() if clock is None else clock)
        self._client, self._settings = client, client.settings
        self._leases: Sessions = Sessions(client, self._clock, self._give_up, self._withdraw)
        self._waits = Waits(client)
        self._candidacy = Candidacy(client, self._leases, self._waits)
        self._traits: Traits | None = None
        self._identity: str | Refused = ""
        self._shortest_ns: int | None = None  # the shortest session; None: we may make none, as far as is known

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as unless_it_answers:
            await unless_it_answers.enter_async_context(self._client)
            self._shortest_ns, self._identity = await met(self._client)
            self._traits = traits_of(self._shortest_ns, self._settings.lock_delay_ns)
            unless_it_answers.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        async with AsyncExitStack() as closing:  # Each step is taken, also if the one before it is cancelled.
            closing.push_async_callback(self._client.__aexit__, kind, error, traceback)
            closing.push_async_callback(self._waits.close)
            closing.push_async_callback(self._leases.close)
            await self._turns.all_ended()

    @property
    def traits(self) -> Traits:
        if self._traits is None:
            raise Unreachable(self.address, "traits", "the store is not open: use async with")
        return self._traits

    @property
    def address(self) -> str:
        return self._client.address

    @property
    def identity(self) -> str:
        """A random name in a key of its own, made by whoever came first: Consul has none. Known once it is open.

        It belongs to the prefix, as elections do. If somebody deletes the key, stores that are opened afterwards make a new
        one, and with it new fences, which know of no older token: delete it only while nobody leads.
        """
        if isinstance(self._identity, Refused):
            raise self._identity
        return f"consul/{self._identity}"

    # The office

    async def claim(self, bid: Bid) -> Grant | Wait:
        traits = self.traits
        self._key(bid.election, "claim")
        # Whoever was not told what is possible, because it had no right to, had better hear that than a guess.
        if not (self._shortest_ns or 0) <= bid.ttl_ns <= traits.ttl_max_ns:
            shortest_s, longest_s = traits.ttl_min_ns / 1e9, traits.ttl_max_ns / 1e9
            rule = f"a ttl of {bid.ttl_ns / 1e9:g} s is not between {shortest_s:g} s and {longest_s:g} s"
            raise Refused(self.address, "claim", f"{rule}: use another, or set session_ttl_min of the servers")
        return await super().claim(bid)

    def _new_place(self, bid: Bid) -> Place:
        delay_ns = lock_delay_ns(self._settings.lock_delay_ns, fenced=bid.fenced)
        return Place(bid, self._key(bid.election, "claim"), entry_of(bid), delay_ns)

    def _beaten(self) -> StoreError:
        return Unreachable(self.address, "claim", f"others came between {_TRIES_MAX} times: claim again")

    async def _ask(self, place: Place, lease: Session, asked_at: int) -> Grant | Wait | None:
        return await self._candidacy.ask(place, lease, asked_at)

    async def _look(self, lease: Session, places: Sequence[Place], asked_at: int) -> set[Place]:
        return await self._candidacy.look(lease, places, asked_at)

    async def _proclaim(self, place: Place, address: str) -> bool:
        return await self._candidacy.proclaim(place, address)

    async def _withdraw(self, place: Place, lease: Session) -> None:
        await leave(self._client, lease, place)
        place.settle()

    # Those who have not the office

    def _turn_of(self, place: Place) -> Awaitable[None] | None:
        return None if place.token else self._candidacy.wait(place)

    async def read(self, election: str) -> Incumbent | None:
        pair = await self._client.get(self._key(election, "read"), operation="read")
        check_lock(pair, self.address, "read")
        return incumbent_of(election, pair)

    def _key(self, election: str, operation: str) -> str:
        return key_of(self._settings.prefix, election, self.address, operation)

    async def elections(self) -> list[ElectionStatus]:
        return await list_elections(self._client)

    async def ask_to_resign(self, election: str) -> Incumbent | None:
        return await leave_a_word(self._client, self._key(election, "ask to resign"), election)

    async def fetch(self, key: str) -> Document | None:
        return await documents.fetch(self._client, key)

    async def swap(self, key: str, value: bytes, version: Version | None) -> Document | Conflict:
        return await swapped(self, partial(documents.write, self._client), key, value, version)

    async def examine(self, ttl_ns: int) -> list[Finding]:
        return await examine(self, self._client, ttl_ns)
