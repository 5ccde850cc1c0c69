"""Taking part: what a member does while it has its seat. It looks at the roster, and stands for what it should own.

Rules of this file
1. What the roster says is done by standing in elections and by leaving them, so an old roster costs time and nothing else.
2. Everybody looks after the next one in the circle of names, and after those behind it that are gone: each look costs one read,
   however many members there are. Who finds an empty seat takes its member off the roster.
3. Who leaves keeps its shards until others are to own them, so that they are waited for when they are released.
"""

import logging
import math
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from tenure.apps.shards.book import Book
from tenure.apps.shards.holding import Body, Holding
from tenure.apps.shards.roster import Roster, Seated
from tenure.apps.shards.terms import Terms
from tenure.errors import StoreError
from tenure.sinks.base import Sink
from tenure.timing import Timing

_LOG: Final = logging.getLogger("tenure")
# How many shards may wait for their first answer of the store. An engine answers a thousand in a second one by one, so more at
# once would make nothing faster and every answer late.
CLAIMS_AT_ONCE: Final = 64
_LOOKS_PER_HEARTBEAT: Final = 4
# For how many heartbeats nobody may have come or gone before shards move, and how long they may be held up by that at most.
_CALM_HEARTBEATS: Final = 1
_HELD_UP_HEARTBEATS: Final = 3


class Part:
    """One member, from joining the roster to leaving it. Used on one event loop, by one task."""

    def __init__(self, book: Book, name: str, token: int, terms: Terms, timing: Timing) -> None:
        self._book, self._name, self._token, self._terms = book, name, token, terms
        heartbeat_s = timing.renew_every_ns / 1e9
        self._look_s = heartbeat_s / _LOOKS_PER_HEARTBEAT
        self._calm_s, self._held_up_s = _CALM_HEARTBEATS * heartbeat_s, _HELD_UP_HEARTBEATS * heartbeat_s
        self._leave_within_s = timing.ttl_ns / 1e9
        self._holdings: dict[int, Holding] = {}
        self._permits = anyio.Semaphore(CLAIMS_AT_ONCE)
        self._news = anyio.Event()
        self._adjusted_to: Roster | None = None  # Ten thousand shards are not gone through at every look.
        self._is_leaving = False
        self._leave_by = math.inf
        self._vacant_since: dict[tuple[str, int], float] = {}
        self._members: dict[str, Seated] = {}  # as they were when last seen to change
        self._changed_at = self._settled_at = anyio.current_time()

    @property
    def owned(self) -> frozenset[int]:
        """The shards that are owned here at this moment."""
        return frozenset(number for number, holding in self._holdings.items() if holding.term is not None)

    def leave(self) -> None:
        """Hand over, and have ``take`` return. May be called by a signal's handler, which runs in no task."""
        self._is_leaving = True
        self._news.set()

    def _ended(self, number: int) -> None:
        """Hear that a shard is not stood for any more: it may be wanted again already."""
        del self._holdings[number]
        self._adjusted_to = None
        self._news.set()

    async def take(self, body: Body, sinks: Sequence[Sink]) -> None:
        """Take part until told to leave, or cancelled."""
        roster = await self._joined()
        if roster is None:
            return
        async with anyio.create_task_group() as tasks:
            while True:
                self._adjust(roster, tasks, body, sinks)
                if self._is_leaving and self._may_go(roster):
                    break
                with anyio.move_on_after(self._look_s):
                    await self._news.wait()
                self._news = anyio.Event()
                roster = await self._looked(roster)
            self._hand_over(self._holdings, tasks)
        if not self._terms.return_within_s:
            await self._asked(self._book.change(lambda roster: roster.without([(self._name, self._token)])))

    # Shards

    def _adjust(self, roster: Roster, tasks: TaskGroup, body: Body, sinks: Sequence[Sink]) -> None:
        if roster is self._adjusted_to:
            return
        self._adjusted_to, wanted = roster, roster.owned_by(self._name)
        self._hand_over(self._holdings.keys() - wanted, tasks)
        for number in sorted(wanted - self._holdings.keys()):
            holding = self._holdings[number] = Holding(number, self._book.shard(number), self._ended)
            tasks.start_soon(holding.hold, body, sinks, self._permits)

    def _hand_over(self, numbers: Iterable[int], tasks: TaskGroup) -> None:
        for number in numbers:
            if not self._holdings[number].is_leaving:
                tasks.start_soon(self._holdings[number].hand_over, self._terms.drain_s)

    # The roster

    @property
    def _seated(self) -> Seated:
        leaving = self._is_leaving and not self._terms.return_within_s
        return Seated(self._token, self._terms.weight, self._terms.max_shards, leaving, self._terms.return_within_s)

    async def _joined(self) -> Roster | None:
        """Return the roster with us in it; None: told to leave before the store could be asked."""
        roster = None
        while roster is None and not self._is_leaving:
            roster = await self._asked(self._book.join(self._name, self._seated))
            if roster is None:
                with anyio.move_on_after(self._look_s):
                    await self._news.wait()
        return roster

    async def _looked(self, before: Roster) -> Roster:
        """Return the roster as it is now, or as it was if the store cannot be asked, having done to it what is to be done."""
        roster = await self._asked(self._look())
        return before if roster is None else roster

    async def _look(self) -> Roster:
        roster = self._book.checked(await self._book.read())
        if roster.members.get(self._name) != self._seated:
            roster = await self._book.change(lambda roster: roster.seat(self._name, self._seated))
        gone = await self._gone(roster)
        if gone:
            roster = await self._book.change(lambda roster: roster.without(gone))
        if self._is_calm(roster):
            roster = await self._book.change(lambda roster: roster.planned)
        return roster

    async def _gone(self, roster: Roster) -> list[tuple[str, int]]:
        """Return those after us whose seats have been empty for as long as they may be."""
        vacant = await self._book.vacant(roster, roster.after(self._name))
        now = anyio.current_time()
        self._vacant_since = {one: self._vacant_since.get(one, now) for one in vacant}
        members = roster.members
        return [one for one, since in self._vacant_since.items() if now - since >= members[one[0]].return_within_s]

    def _is_calm(self, roster: Roster) -> bool:
        """Whether shards should move, and nobody has come or gone for a while. If people come and go all the time, they move still."""
        now = anyio.current_time()
        if roster.members != self._members:
            self._members, self._changed_at = roster.members, now
        if roster.is_settled:
            self._settled_at = now
            return False
        return now - self._changed_at >= self._calm_s or now - self._settled_at >= self._held_up_s

    def _may_go(self, roster: Roster) -> bool:
        """Whether nothing is gained by keeping what we own for longer."""
        now = anyio.current_time()
        self._leave_by = min(self._leave_by, now + self._leave_within_s)
        if self._terms.return_within_s or now >= self._leave_by:
            return True
        others = [roster.members[name] for name in roster.after(self._name)]
        return not roster.owned_by(self._name) or not any(other.weight and not other.leaving for other in others)

    async def _asked(self, call: Coroutine[Any, Any, Roster]) -> Roster | None:
        """Return what the store answers; None: it could not be asked, which is said, and will be tried again."""
        try:
            return await call
        except StoreError as error:
            _LOG.warning("the roster of shards: %s; trying again", error)
            return None
