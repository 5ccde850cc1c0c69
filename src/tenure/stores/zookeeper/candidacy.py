"""One bid's way to the office: a node, a look at the others, and the word of the quorum. Runs on asyncio."""

import asyncio
import random
from typing import Final

from tenure.clients.zookeeper import Code, Fault, LinkLost, NotReached, Session, Settings
from tenure.clients.zookeeper.paths import make_path
from tenure.clients.zookeeper.wire import create, exists, get_children, get_data
from tenure.clock import Clock
from tenure.errors import OutcomeUnknown, Unreachable
from tenure.model import Grant, Incumbent, Wait, token
from tenure.stores.entry import entry_of, read_entry
from tenure.stores.zookeeper.leases import Lease, Place
from tenure.stores.zookeeper.names import Contender, contenders, name_for
from tenure.stores.zookeeper.queue import Standing, by_age, incumbent, ran_over, standing_of
from tenure.stores.zookeeper.roster import Roster

# How often a claim begins again within one call: somebody came between, or left while it looked.
_TRIES_MAX: Final = 20
# How many elections are remembered by the number that their next node should get; the others cost one more look. It is for
# locks that are taken again and again: whoever leads for long has no use for it.
_NUMBERS_MAX: Final = 256
_PAUSE_MAX_S: Final = 0.02


class Candidacy:
    """Takes the places of a roster through their claims."""

    def __init__(self, settings: Settings, clock: Clock, roster: Roster) -> None:
        self._settings, self._clock, self._roster = settings, clock, roster
        self._numbers: dict[str, int] = {}  # by path, the one that was used last at the end

    async def stand(self, place: Place) -> Grant | Wait:
        """Claim, for the first time or again. Call it by ``Roster.stand``."""
        for _ in range(_TRIES_MAX):
            if place.leaving:
                raise Unreachable(self._settings.address, "claim", "its place was given up meanwhile")
            lease = await self._roster.lease_for(place)
            try:
                answer = await self._try(place, lease)
            except (LinkLost, NotReached) as lost:
                if place.node:  # It stands: whoever waits for it to leave does not wait for nothing.
                    raise LinkLost(lost.why, in_doubt=True) from lost
                raise
            if place.leaving and isinstance(answer, Grant):  # Its node is deleted next, whatever it has won.
                raise OutcomeUnknown(self._settings.address, "claim", "its place was given up meanwhile")
            if answer is not None:
                place.heard_at = self._clock.now()
                return answer
        raise Unreachable(self._settings.address, "claim", f"others came between {_TRIES_MAX} times: claim again")

    async def _try(self, place: Place, lease: Lease) -> Grant | Wait | None:
        """Stand, and look where. None: look again."""
        if place.in_doubt:
            await self._roster.settle(place)
        await lease.steady()
        try:
            children = await (self._confirm(place, lease) if place.node else self._create(place, lease))
            return await self._judge(place, lease.session, children)
        except Fault as fault:
            if fault.code != Code.NO_NODE:
                raise
            return None  # Its own node is gone, or the one that it was to wait for.

    async def _confirm(self, place: Place, lease: Lease) -> list[str]:
        """Have the quorum confirm the node, and list the children as of then."""
        session = lease.session
        await session.linked()
        proven, listed = lease.prove_successor(place), session.send(get_children(place.path))
        try:
            await session.result(proven)
        except Fault as fault:
            if fault.code == Code.NO_NODE:
                place.forget()
            raise
        return (await session.result(listed))[0]

    async def _create(self, place: Place, lease: Lease) -> list[str]:
        """Create the node, and list the children as of then. Both are sent at once: the engine keeps their order."""
        session = lease.session
        number = await self._next_number(session, place.path)
        path = f"{place.path}/{name_for(place.bid, number)}"
        text = entry_of(place.bid).encode()
        await session.linked()
        made = session.send(create(path, text, self._settings.acl, ephemeral=True, sequential=True))
        listed = session.send(get_children(place.path))
        place.in_doubt = True
        try:
            created, stat = await session.result(made)
        except Fault as fault:
            place.in_doubt = False
            if fault.code == Code.NO_NODE:  # The parent was deleted since we looked.
                self._numbers.pop(place.path, None)
            raise
        except LinkLost as lost:
            place.in_doubt = lost.in_doubt
            raise
        place.in_doubt = False
        place.node, place.czxid = created, stat.czxid
        self._remember(place.path, contenders([place.name])[0].number + 1)
        return (await session.result(listed))[0]

    async def _next_number(self, session: Session, path: str) -> int:
        """Return the number that the next child of ``path`` gets if nobody comes first; it is there then."""
        if path not in self._numbers:
            try:
                _, stat = await session.ask(get_children(path))
            except Fault as fault:
                if fault.code != Code.NO_NODE:
                    raise
                await make_path(session, path, self._settings.acl)
                _, stat = await session.ask(get_children(path))
            self._remember(path, stat.next_number)
        return self._numbers[path]

    def _remember(self, path: str, number: int) -> None:
        self._numbers.pop(path, None)
        self._numbers[path] = number
        if len(self._numbers) > _NUMBERS_MAX:
            del self._numbers[next(iter(self._numbers))]

    async def _judge(self, place: Place, session: Session, children: list[str]) -> Grant | Wait | None:
        """Decide by the children whether it is this one's turn. None: look again."""
        standing = standing_of(place.bid, place.name, children)
        if standing is None:
            place.forget()
            return None
        for one in standing.stale:
            await self._roster.remove(place, one.name)
        if standing.misplaced:
            await self._roster.remove(place, standing.own.name)
            await asyncio.sleep(random.uniform(0, _PAUSE_MAX_S))
            return None
        if standing.superseded:
            await self._roster.leave(place)
            return Wait(place.bid, await self._first(place, session, standing.others))
        before = await self._before(place, session, standing)
        if before:
            place.before = before[-1].name
            return Wait(place.bid, await self._first(place, session, before))
        place.before = ""
        place.grant = place.grant or Grant(place.bid, token(place.czxid))
        return place.grant

    async def _before(self, place: Place, session: Session, standing: Standing) -> tuple[Contender, ...]:
        """Return who is before it. The names tell, and the engine's count of transactions, which never runs over, decides."""
        before = tuple(one for one in standing.others if one.number < standing.own.number)
        if not ran_over((standing.own, *standing.others)):
            if not before or place.before == before[-1].name:
                return before
            if (await session.ask(exists(f"{place.path}/{before[-1].name}"))).czxid < place.czxid:
                return before
        aged = await by_age(session, place.path, standing.others)
        return tuple(one for stat, one in aged if stat.czxid < place.czxid)

    async def _first(self, place: Place, session: Session, queue: tuple[Contender, ...]) -> Incumbent | None:
        """Return who is in office, to be told to one who waits."""
        if not queue:
            return None
        text, stat = await session.ask(get_data(f"{place.path}/{queue[0].name}"))
        return incumbent(place.bid.election, read_entry(text, queue[0].name), stat)
