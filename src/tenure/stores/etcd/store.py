"""The store: the methods of ``stores/base`` as transactions of etcd. Runs on asyncio.

It promises what the cluster promises: a create revision is given out once, in one order, by consensus. It does not
promise anything after a snapshot was restored: the revisions of the copy are given out again. A store that has seen
larger ones refuses to go on, and so do sinks; a process that starts afterwards cannot know.

A claim is one transaction that puts the key, or finds it, and reads who is first and who is next before it; beside it
goes one renewal of the lease. So an office is granted only by an answer in which the own key was there and the oldest.
"""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack, suppress
from operator import attrgetter
from types import TracebackType
from typing import Final, Self

from tenure.clients.etcd.client import EtcdClient
from tenure.clients.etcd.failures import LeaseGone
from tenure.clients.etcd.messages import Delete, Put, Range, Txn, TxnAnswer, created, modified
from tenure.clock import BootClock, Clock
from tenure.errors import OutcomeUnknown, Refused, StoreError
from tenure.model import Bid, Ended, Grant, Holder, Incumbent, Wait, token
from tenure.stores.base import ElectionStatus, Expiry, Traits, Wake
from tenure.stores.entry import entry_of
from tenure.stores.etcd.examine import examine
from tenure.stores.etcd.layout import Names, found
from tenure.stores.etcd.leases import NEVER, Lease, Leases, Place
from tenure.stores.etcd.roll import call_the_roll
from tenure.stores.etcd.survey import leader_of, leave_a_word, list_elections, proclaim
from tenure.stores.examining import Finding
from tenure.stores.turns import Turns

# A standby asks again after at most two and a half ttl (``Timing.recheck_after_ns``); one that has not is no more.
_STANDBY_TTLS: Final = 3
# How often a claim begins again within one call: its lease was over, or its key was somebody's who is gone.
_TRIES_MAX: Final = 4
# A call must be given up, and its endpoint left, before the holder stops waiting for it: an attempt of ``Timing`` has a
# quarter of the ttl.
_CALLS_PER_TTL: Final = 5

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


class EtcdStore:
    """Elections in an etcd cluster: ``async with EtcdStore(client) as store``. ``namespace`` is empty or ends in a slash."""

    def __init__(self, client: EtcdClient, *, namespace: str = "", clock: Clock | None = None) -> None:
        self._client, self._namespace = client, namespace
        self._clock = BootClock() if clock is None else clock
        self._leases = Leases(client, self._clock, self._give_up)
        self._places: dict[tuple[str, Holder], Place] = {}
        self._ttls: Counter[int] = Counter()  # how many places have which ttl
        self._call_timeout_s = client.call_timeout_s
        self._turns = Turns()

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        async with AsyncExitStack() as closing:  # Each step is taken, also if the one before it is cancelled.
            closing.push_async_callback(self._client.__aexit__, kind, error, traceback)
            closing.push_async_callback(self._leases.close)
            await self._turns.all_ended()

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
        asked_at = self._clock.now()
        if not _TRAITS.ttl_min_ns <= bid.ttl_ns <= _TRAITS.ttl_max_ns:
            rule = f"a ttl of {bid.ttl_ns / 1e9:g} s is not between {_TRAITS.ttl_min_ns / 1e9:g} s and a week"
            raise Refused(self.address, "claim", rule)
        while (answer := await self._claim(bid, asked_at)) is None:
            pass  # Its place was given up while it waited to use it.
        return answer

    async def _claim(self, bid: Bid, asked_at: int) -> Grant | Wait | None:
        who = bid.election, bid.holder
        while (place := self._places.get(who)) is not None and place.bid.serial < bid.serial:
            await self._turns.alone(place, self._leave(place))
        if place is not None and place.bid.serial > bid.serial:
            return Wait(bid, await self.read(bid.election))
        if place is None:
            place = self._places[who] = Place(bid, Names.of(self._namespace, bid.election), entry_of(bid).encode())
            self._count(bid.ttl_ns, 1)
        return await self._turns.alone(place, self._stand(place, asked_at))

    async def _stand(self, place: Place, asked_at: int) -> Grant | Wait | None:
        if not self._stands(place):
            return None
        # Also if this fails: it may come to stand without ever hearing of it, and goes on asking.
        place.due_at = asked_at + _STANDBY_TTLS * place.bid.ttl_ns
        for _ in range(_TRIES_MAX):
            try:
                lease = place.lease or await self._leases.take(place)
                answer = await self._ask(place, lease, asked_at)
            except LeaseGone:
                # A put on a lease that is over is refused, whenever it lands.
                self._leases.detach(place, lingers=False)
                continue
            if answer is not None:
                ttls = 1 if place.leading else _STANDBY_TTLS
                place.due_at = self._clock.now() + ttls * place.bid.ttl_ns
                return answer
        raise OutcomeUnknown(self.address, "claim", "the key changed hands with every try")

    async def _ask(self, place: Place, lease: Lease, asked_at: int) -> Grant | Wait | None:
        """Put the key or find it, and see where it stands. None: it is not what it was thought to be; ask again."""
        if lease.gone:
            raise LeaseGone(self.address, "claim")
        renewal = asyncio.ensure_future(self._leases.renew(lease, asked_at))
        try:
            await asyncio.sleep(0)  # So that both go out in one piece: a second one costs more than a turn of the loop.
            if place.revision:
                answer = await self._find(place, lease)
            else:
                answer = await self._put(place, lease)
        except LeaseGone:
            self._leases.lose(lease)
            raise
        except OutcomeUnknown:
            place.unsure = True
            raise
        finally:
            if not renewal.done():  # Mostly it is: one server answers it, and a put takes two.
                await asyncio.wait([renewal])
            renewal.exception()  # Looked at also if the request itself has failed.
        try:
            renewal.result()  # A place without the lease's word for it is none.
            return None if answer is None else await self._judge(place, answer)
        except LeaseGone:
            raise
        except StoreError as error:  # Whatever became of this request, the key has been put.
            raise OutcomeUnknown(self.address, "claim", error.detail) from error

    async def _put(self, place: Place, lease: Lease) -> TxnAnswer | None:
        names, put = place.names, Put(place.key, place.value, lease.number)
        last_two = Range(names.prefix, names.end, limit=2, newest_first=True)
        txn = Txn((created(place.key, 0),), (put, names.oldest(), last_two), (Range(place.key),))
        answer = await self._client.txn(txn, operation="claim")
        if answer.succeeded:
            place.revision = place.modified = answer.revision
            place.resign_asked = False  # That was said to an earlier key.
            return answer
        (there,) = found(answer, 0)
        if there.value == place.value:  # An earlier try has arrived, whose answer was lost.
            place.revision = there.create_revision
            place.modified = there.mod_revision if there.lease == lease.number else 0
        else:  # Nobody else's key has our lease in its name: somebody wrote it by hand.
            gone = Txn((created(place.key, there.create_revision),), (Delete(place.key),), ())
            await self._client.txn(gone, operation="claim")
        return None

    async def _find(self, place: Place, lease: Lease) -> TxnAnswer | None:
        names = place.names
        txn = Txn((modified(place.key, place.modified),), (names.oldest(), names.before(place.revision)), ())
        answer = await self._client.txn(txn, operation="claim")
        if answer.succeeded:
            return answer
        # Deleted, by hand or with its lease; or written over, and then it is put back on its lease.
        if not await call_the_roll(self._client, lease, [place]):
            place.revision = 0
        return None

    async def _judge(self, place: Place, answer: TxnAnswer) -> Grant | Wait | None:
        """Say what an answer means whose last two parts are the first key of the queue, and those next to ours."""
        near = [*found(answer, -2), *found(answer, -1)]
        if not all(place.names.has(kv.key) for kv in near):  # Another election is named below this one.
            everybody = await self._client.range(place.names.everybody(), operation="claim")
            near = place.names.candidates(everybody.kvs)
            if not any(kv.key == place.key and kv.create_revision == place.revision for kv in near):
                place.revision = 0
                return None
        before = sorted((kv for kv in near if kv.create_revision < place.revision), key=attrgetter("create_revision"))
        place.leading = not before
        if not before:
            place.ahead = b""
            return Grant(place.bid, token(place.revision))
        place.ahead, place.seen_at = before[-1].key, answer.revision
        return Wait(place.bid, place.names.incumbent(before[0]))

    async def renew(self, grant: Grant) -> Grant | Ended:
        (answer,) = await self.renew_together([grant])
        return answer

    async def renew_together(self, grants: list[Grant]) -> list[Grant | Ended]:
        asked_at = self._clock.now()
        places = [self._held(grant) for grant in grants]
        by_lease: dict[Lease, list[Place]] = {}
        for place in places:
            if place is not None and place.lease is not None:
                by_lease.setdefault(place.lease, []).append(place)
        kept: set[Place] = set()
        for answer in await asyncio.gather(*(self._keep(*lease, asked_at) for lease in by_lease.items())):
            kept |= answer
        return [
            grant if place is not None and place in kept and place.holds(grant) else Ended(grant.bid, grant.token)
            for grant, place in zip(grants, places, strict=True)
        ]

    async def _keep(self, lease: Lease, places: list[Place], asked_at: int) -> set[Place]:
        """Renew a lease, and return which of these places are still there."""
        roll = asyncio.ensure_future(call_the_roll(self._client, lease, places))
        try:
            await self._leases.renew(lease, asked_at)
            present = await roll
        except LeaseGone:
            present = set()
        finally:
            roll.cancel()
            await asyncio.gather(roll, return_exceptions=True)
        now = self._clock.now()
        for place in places:
            if place in present:
                place.due_at = now + place.bid.ttl_ns
            else:
                self._drop(place, lease)
        return present

    async def proclaim(self, grant: Grant, address: str) -> Grant | Ended:
        place = self._held(grant)
        said = place is not None and await self._turns.alone(place, proclaim(self._client, place, address))
        return grant if said else Ended(grant.bid, grant.token)

    def _drop(self, place: Place, lease: Lease) -> None:
        """Forget a place that has ended, unless it is claimed meanwhile: that finds out by itself, and stands anew."""
        if place.busy is None and place.lease is lease:
            self._forget(place, lingers=place.unsure)

    def _stands(self, place: Place) -> bool:
        return self._places.get((place.bid.election, place.bid.holder)) is place

    def _held(self, grant: Grant) -> Place | None:
        place = self._places.get((grant.bid.election, grant.bid.holder))
        return place if place is not None and place.holds(grant) else None

    async def release(self, bid: Bid) -> None:
        place = self._places.get((bid.election, bid.holder))
        if place is not None and place.bid == bid:
            # Also if its caller is cancelled while it waits for a claim to end: nobody would ask for it again.
            await asyncio.shield(self._turns.start(self._turns.alone(place, self._leave(place))))

    async def _leave(self, place: Place) -> None:
        """Delete the key and forget the place. If that is not answered, whoever looks after the lease goes on with it."""
        if not self._stands(place):
            return  # Another release was before this one.
        place.leading = False  # A renewal that is answered meanwhile must not say that it leads.
        lingers = bool(place.unsure or place.revision)
        try:
            if lingers and place.lease is not None and not place.lease.gone:
                await self._client.txn(Txn((), (Delete(place.key),), ()), operation="release")
                lingers = place.unsure
        finally:
            self._forget(place, lingers=lingers)

    async def _give_up(self, place: Place) -> None:
        with suppress(StoreError):
            await self._turns.alone(place, self._leave_if_due(place))

    async def _leave_if_due(self, place: Place) -> None:
        if place.due_at <= self._clock.now():  # A claim that this has waited for may have been granted.
            await self._leave(place)

    def _forget(self, place: Place, *, lingers: bool) -> None:
        if self._stands(place):
            del self._places[place.bid.election, place.bid.holder]
            self._count(place.bid.ttl_ns, -1)
        self._leases.detach(place, lingers=lingers)
        place.due_at = NEVER
        if place.waiting is not None:
            place.waiting.cancel()

    def _count(self, ttl_ns: int, by: int) -> None:
        """Note that a place has come or gone, and have calls end in time for the shortest ttl that there is."""
        self._ttls[ttl_ns] += by
        if not self._ttls[ttl_ns]:
            del self._ttls[ttl_ns]
        shortest_s = min(self._ttls, default=_TRAITS.ttl_max_ns) / 1e9
        self._client.call_timeout_s = min(self._call_timeout_s, shortest_s / _CALLS_PER_TTL)

    # Those who have not the office

    async def changed(self, wait: Wait) -> None:
        place = self._places.get((wait.bid.election, wait.bid.holder))
        if place is None or place.bid != wait.bid or not place.ahead or place.lease is None or place.lease.gone:
            return  # Whatever it waited for has come, or it has to stand anew.
        waiting = asyncio.ensure_future(self._client.deleted(place.ahead, place.seen_at))
        place.waiting = waiting
        try:
            await waiting
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Else the wait was ended and not the waiter: its place is gone.
        finally:
            if place.waiting is waiting:
                place.waiting = None

    async def read(self, election: str) -> Incumbent | None:
        names = Names.of(self._namespace, election)
        leader = await leader_of(self._client, names, "read")
        return None if leader is None else names.incumbent(leader)

    async def elections(self) -> list[ElectionStatus]:
        return await list_elections(self._client, self._namespace)

    async def ask_to_resign(self, election: str) -> Incumbent | None:
        return await leave_a_word(self._client, Names.of(self._namespace, election))

    def resign_asked(self, grant: Grant) -> bool:
        place = self._held(grant)
        return place is not None and place.resign_asked

    async def examine(self, ttl_ns: int) -> list[Finding]:
        return await examine(self, self._client, ttl_ns)
