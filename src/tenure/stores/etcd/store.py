"""The store: the methods of ``stores/base`` as transactions of etcd. Runs on asyncio.

It promises what the cluster promises: a create revision is given out once, in one order, by consensus. It does not
promise anything after a snapshot was restored: the revisions of the copy are given out again. A store that has seen
larger ones refuses to go on, and so do sinks; a process that starts afterwards cannot know.

A claim is one transaction that puts the key, or finds it, and reads who is first and who is next before it; beside it
goes one renewal of the lease. So an office is granted only by an answer in which the own key was there and the oldest.
"""

import asyncio
import os
from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack
from operator import attrgetter
from types import TracebackType
from typing import Final, Self

from tenure.clients.etcd.client import EtcdClient
from tenure.clients.etcd.failures import LeaseGone
from tenure.clients.etcd.messages import Delete, Put, Range, Txn, TxnAnswer, created, modified
from tenure.clock import BootClock, Clock
from tenure.errors import ConfigError, OutcomeUnknown, Refused, StoreError
from tenure.model import Bid, Conflict, Document, Grant, Incumbent, Version, Wait, token
from tenure.stores.base import ElectionStatus, Expiry, Traits, Wake
from tenure.stores.etcd import documents
from tenure.stores.etcd.examine import examine, members_of
from tenure.stores.etcd.layout import Names, found
from tenure.stores.etcd.leases import Lease, Leases, Place
from tenure.stores.etcd.roll import call_the_roll
from tenure.stores.etcd.survey import leader_of, leave_a_word, list_elections, proclaim
from tenure.stores.examining import Finding
from tenure.stores.sharing.store import SharingStore

# How often a claim begins again within one call: its lease was over, or its key was somebody's who is gone.
_TRIES_MAX: Final = 4

_TRAITS: Final = Traits(
    queue=True,
    wake=Wake.WATCH,
    expiry=Expiry.ENGINE,
    token_source="the create revision of the holder's own key",
    ttl_min_ns=10**9,
    ttl_max_ns=7 * 24 * 3600 * 10**9,
    # The engine counts whole seconds and at least one and a half of its election timeouts (2 s as shipped), looks for
    # leases that are over twice a second, and ends them by consensus. This is for as long as its leader stays: a new one
    # begins all leases anew, so that what it takes to elect it and a whole ttl come on top.
    expiry_slack_ns=2 * 10**9,
)


class EtcdStore(SharingStore[Place, Lease]):
    """Elections in an etcd cluster: ``async with EtcdStore(client) as store``. ``namespace`` is empty or ends in a slash."""

    _over, _tries_max = LeaseGone, _TRIES_MAX

    def __init__(self, client: EtcdClient, *, namespace: str = "", clock: Clock | None = None) -> None:
        super().__init__(client, BootClock() if clock is None else clock)
        self._client, self._namespace = client, namespace
        self._leases: Leases = Leases(client, namespace, self._clock, self._give_up)
        self._pid = 0  # of the process that opened it; none has this number

    async def __aenter__(self) -> Self:
        self._pid = os.getpid()
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._is_forked:
            return  # What is under way, and the connection, are the other process's.
        async with AsyncExitStack() as closing:  # Each step is taken, also if the one before it is cancelled.
            closing.push_async_callback(self._client.__aexit__, kind, error, traceback)
            closing.push_async_callback(self._leases.close)
            await self._turns.all_ended()

    @property
    def _is_forked(self) -> bool:
        return self._pid not in (0, os.getpid())

    def _check_process(self) -> None:
        if self._is_forked:
            rule = f"was opened in process {self._pid}, of which this one is a fork: open it again after the fork"
            raise ConfigError("store", self.address, rule)

    @property
    def traits(self) -> Traits:
        return _TRAITS

    @property
    def address(self) -> str:
        return self._client.address

    @property
    def identity(self) -> str:
        # The same election has the same fence, whether a part of its name stands in the URL or not.
        return f"etcd/{self._client.cluster_id:016x}/{self._namespace}".removesuffix("/")

    # The office

    async def claim(self, bid: Bid) -> Grant | Wait:
        if not _TRAITS.ttl_min_ns <= bid.ttl_ns <= _TRAITS.ttl_max_ns:
            rule = f"a ttl of {bid.ttl_ns / 1e9:g} s is not between {_TRAITS.ttl_min_ns / 1e9:g} s and a week"
            raise Refused(self.address, "claim", rule)
        return await super().claim(bid)

    def _new_place(self, bid: Bid) -> Place:
        return Place(bid)

    def _beaten(self) -> StoreError:
        return OutcomeUnknown(self.address, "claim", "the key changed hands with every try")

    async def _ask(self, place: Place, lease: Lease, asked_at: int) -> Grant | Wait | None:
        """Put the key or find it, and see where it stands. None: it is not what it was thought to be; ask again."""
        if lease.gone:
            raise LeaseGone(self.address, "claim")
        # In one piece with what is asked next: a second one costs more than all that is done here. It is waited for
        # afterwards, and mostly has its answer by then: one server answers it, and a put takes two.
        renewing, names = self._leases.begin(lease, asked_at), place.names_on(lease)
        try:
            answer = await (self._find(place, lease, names) if place.token else self._put(place, lease, names))
        except LeaseGone:
            self._leases.lose(lease)
            raise
        except OutcomeUnknown:
            place.unanswered = True
            raise
        try:
            await self._leases.renew(lease, asked_at, renewing)  # A place without the lease's word for it is none.
            if answer is None:
                return None
            lease.read_term = answer.term
            self._leases.check_term(lease)
            return await self._judge(place, lease, names, answer)
        except LeaseGone:
            raise
        except StoreError as error:  # Whatever became of this request, the key has been put.
            raise OutcomeUnknown(self.address, "claim", error.detail) from error

    async def _put(self, place: Place, lease: Lease, names: Names) -> TxnAnswer | None:
        key, value = names.key(lease.number), place.value
        put, oldest = Put(key, value, lease.number), names.oldest()
        last_two = Range(names.prefix, oldest.end, limit=2, newest_first=True)
        txn = Txn((created(key, 0),), (put, oldest, last_two), (Range(key),))
        answer = await self._client.txn(txn, operation="claim")
        if answer.succeeded:
            place.token = place.modified = answer.revision
            place.resign_asked, place.looked_in = False, lease.roll_number  # A word was left in an earlier key.
            return answer
        (there,) = found(answer, 0)
        if there.value == value:  # An earlier try has arrived, whose answer was lost.
            place.token = there.create_revision
            # One that is on no lease of ours must be looked at: it fits no revision. (0 would fit if it were deleted next.)
            place.modified = there.mod_revision if there.lease == lease.number else -1
        else:  # Nobody else's key has our lease in its name: somebody wrote it by hand.
            gone = Txn((created(key, there.create_revision),), (Delete(key),), ())
            await self._client.txn(gone, operation="claim")
        return None

    async def _find(self, place: Place, lease: Lease, names: Names) -> TxnAnswer | None:
        unchanged = modified(names.key(lease.number), place.modified)
        txn = Txn((unchanged,), (names.oldest(), names.before(place.token)), ())
        answer = await self._client.txn(txn, operation="claim")
        if answer.succeeded:
            return answer
        # Deleted, by hand or with its lease; or written over, and then it is put back on its lease.
        if await call_the_roll(self._client, lease, [place]):
            place.token = 0
        return None

    async def _judge(self, place: Place, lease: Lease, names: Names, answer: TxnAnswer) -> Grant | Wait | None:
        """Say what an answer means whose last two parts are the first key of the queue, and those next to ours."""
        near, key = [*found(answer, -2), *found(answer, -1)], names.key(lease.number)
        if not all(kv.key == key or names.has(kv.key) for kv in near):  # Another election is named below this one.
            everybody = await self._client.range(names.everybody(), operation="claim")
            near = names.candidates(everybody.kvs)
            if not any(kv.key == key and kv.create_revision == place.token for kv in near):
                place.token = 0
                return None
        before = [kv for kv in near if kv.create_revision < place.token]
        place.leading = not before
        if not before:
            place.ahead = None
            return Grant(place.bid, token(place.token))
        before.sort(key=attrgetter("create_revision"))
        place.ahead = before[-1].key, answer.revision
        return Wait(place.bid, names.incumbent(before[0]))

    async def _look(self, lease: Lease, places: Sequence[Place], asked_at: int) -> set[Place]:
        roll = asyncio.ensure_future(call_the_roll(self._client, lease, places))
        try:
            await self._leases.renew(lease, asked_at)
            gone = await roll
            self._leases.check_term(lease)
            return gone
        finally:
            roll.cancel()
            await asyncio.gather(roll, return_exceptions=True)

    async def _proclaim(self, place: Place, address: str) -> bool:
        return await proclaim(self._client, place, address)

    async def _withdraw(self, place: Place, lease: Lease) -> None:
        await self._client.txn(Txn((), (Delete(place.key_on(lease)),), ()), operation="release")

    # Those who have not the office

    def _turn_of(self, place: Place) -> Awaitable[None] | None:
        if place.ahead is None or place.lease is None or place.lease.gone:
            return None  # Whatever it waited for has come, or it has to stand anew.
        return self._client.deleted(*place.ahead)

    async def read(self, election: str) -> Incumbent | None:
        names = Names.of(self._namespace, election)
        leader = await leader_of(self._client, names, "read")
        return None if leader is None else names.incumbent(leader)

    async def elections(self) -> list[ElectionStatus]:
        return await list_elections(self._client, self._namespace)

    async def ask_to_resign(self, election: str) -> Incumbent | None:
        return await leave_a_word(self._client, Names.of(self._namespace, election))

    async def fetch(self, key: str) -> Document | None:
        return await documents.fetch(self._client, self._namespace, key)

    async def swap(self, key: str, value: bytes, version: Version | None) -> Document | Conflict:
        return await documents.swap(self._client, self._namespace, key, value, version)

    async def examine(self, ttl_ns: int) -> list[Finding]:
        return await examine(self, self._client, ttl_ns)

    async def members(self) -> dict[str, str | None]:
        return await members_of(self._client)
