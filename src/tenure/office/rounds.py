"""Renewals that fall due together go out together, as one request to a store that can take them so.

Every request of a round is sent after the step that asked for it, so each is dated by its own step (rule 1). Those who have
been renewed by a round are from then on one cohort (``crews``), which takes one step for all of them.

A round is also the one alarm of all its seats: when it is time to renew, and if the answer takes long. An alarm for each
would be set twice in every heartbeat of ten thousand elections, and ring in none.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tenure.clock import Clock
from tenure.core.effects import Renew
from tenure.errors import OutcomeUnknown
from tenure.facts import publish
from tenure.facts.kinds import Renewed
from tenure.office.crews import Crew, Renewing
from tenure.office.timetable import Timetable
from tenure.stores.base import CanRenewTogether, No, Ok, Roll, Store, Unknown, outcome_of
from tenure.timing import Timing

if TYPE_CHECKING:
    from tenure.core.cohort import Asked

T = TypeVar("T")
_SEATS_MIN: Final = 64
_Kind = tuple[int, Timing]  # of which store, and how often: those who can renew as one


class _Round:
    """One request to one store for those who renew together; before it is sent, who will."""

    __slots__ = ("begin", "crew", "due", "member_count", "over", "seats", "waiting")

    def __init__(self) -> None:
        self.due: int | None = None  # as an Alarm
        self.begin: Callable[[], None] | None = None  # None: it has begun
        self.seats: list[Renewing] = []  # who has ever joined
        self.member_count = 0  # who has not left since
        self.crew: Crew | None = None  # which renews with it; once it has begun there always is one
        self.over = False  # whether its answer is there
        self.waiting: list[Asked[Renewing]] = []  # who is then told of it, one by one

    def ring(self) -> None:
        """It is time to renew, or the answer takes long."""
        if self.begin is not None:
            self.begin()
        elif self.crew is not None:
            for one in self.waiting if self.over else self.crew.cohort.late():
                one.member.look_after_time()


class Rounds:
    """Every round of a process. Used on one event loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: Clock, timetable: Timetable, heard: Callable[[Store], None]
    ) -> None:
        """``heard`` is told of a store that has answered for all, of which no seat hears by itself."""
        self._loop, self._clock, self._timetable, self._heard = loop, clock, timetable, heard
        self._timed: dict[tuple[int, Timing, int], _Round] = {}
        self._crews: dict[_Kind, Crew] = {}
        self._next: dict[_Kind, Crew] = {}
        self._under_way: set[asyncio.Task[Roll | No | Unknown]] = set()  # of which somebody is to hear

    # Before it begins

    def join(self, seat: Renewing, store: CanRenewTogether, timing: Timing, instant: int) -> None:
        """Have ``seat`` renew at ``instant``, with whoever else does then."""
        coming = self._coming(store, timing, instant)
        coming.seats.append(seat)
        coming.member_count += 1
        seat.renews_at = instant

    def leave(self, seat: Renewing, store: CanRenewTogether, timing: Timing) -> None:
        """Have ``seat`` renew with nobody. Its round may be days ahead, and must keep neither who has left nor a store."""
        instant, seat.renews_at = seat.renews_at, None
        if instant is None:
            return
        key = id(store), timing, instant
        coming = self._timed.get(key)
        if coming is None:  # It is just beginning.
            return
        coming.member_count -= 1
        if not self._is_off(key, coming) and len(coming.seats) > _SEATS_MIN + 2 * coming.member_count:
            coming.seats = [one for one in coming.seats if one.renews_at == instant]

    def left(self, crew: Crew) -> None:
        """Hear that one has left a crew, which must not outlive the last of them."""
        kind = id(crew.store), crew.timing
        if crew.is_empty and self._crews.get(kind) is crew:
            del self._crews[kind]
            key = *kind, crew.cohort.due_at
            coming = self._timed.get(key)
            if coming is not None and coming.crew is crew:
                coming.crew = None
                self._is_off(key, coming)

    def _coming(self, store: CanRenewTogether, timing: Timing, instant: int) -> _Round:
        key = id(store), timing, instant
        coming = self._timed.get(key)
        if coming is None:
            coming = self._timed[key] = _Round()
            coming.begin = partial(self._begin, key, store)
            self._timetable.set(coming, instant)
        return coming

    def _is_off(self, key: tuple[int, Timing, int], coming: _Round) -> bool:
        if coming.member_count or coming.crew is not None:
            return False
        self._timetable.set(coming, None)
        del self._timed[key]
        return True

    # Under way

    def _begin(self, key: tuple[int, Timing, int], store: CanRenewTogether) -> None:
        now, begun = self._clock.now(), self._timed.pop(key)
        begun.begin = None
        begun.crew = crew = begun.crew or self._crew_for(store, key[1])
        out = crew.cohort.begin(now)
        for seat in out:
            seat.renews_at = key[-1]
        seats, begun.seats = [*begun.seats, *out], []
        behind: Renewing | None = None
        rest = iter(seats)
        try:
            for seat in rest:
                if seat.renews_at == key[-1]:  # else it has left this round
                    behind, seat.renews_at = seat, None
                    effect = seat.renewal(now)
                    if effect is not None:
                        crew.cohort.ask(effect, seat)
                behind = None
        finally:
            for one in (behind, *rest):  # One that raises must not take the others with it.
                if one is not None and one.renews_at in (None, key[-1]):
                    one.renews_at = None
                    one.look_after_time()
            self._send(begun, crew, now)

    def _crew_for(self, store: CanRenewTogether, timing: Timing) -> Crew:
        """Return a crew for those who come: the first one stays, and others that are needed beside it are passing."""
        kind = id(store), timing
        crew = Crew(store, timing, passing=kind in self._crews)
        self._crews.setdefault(kind, crew)
        return crew

    def add(self, store: CanRenewTogether, timing: Timing, effect: Renew, seat: Renewing) -> None:
        """Renew once the event loop has come round, with whoever else asks until then."""
        if not self._next:
            self._loop.call_soon(self._send_next)
        kind = id(store), timing
        if kind not in self._next:
            self._next[kind] = Crew(store, timing, passing=True)
            self._next[kind].cohort.begin(self._clock.now())
        self._next[kind].cohort.ask(effect, seat)

    def _send_next(self) -> None:
        crews, self._next = self._next, {}
        for crew in crews.values():
            begun = _Round()
            begun.crew = crew
            self._send(begun, crew, self._clock.now())

    def _send(self, begun: _Round, crew: Crew, asked_at: int) -> None:
        if not crew.enlist():
            crew.cohort.failed()  # Nobody has asked.
            self.left(crew)
            return
        # It counts from when they were asked, by which each has judged whether it needs an alarm of its own. The process may
        # have stood still since.
        self._timetable.set(begun, asked_at + crew.cohort.patience_ns)
        task = self._loop.create_task(_renewed(crew))
        self._under_way.add(task)
        task.add_done_callback(partial(self._done, begun, crew))

    def _done(self, begun: _Round, crew: Crew, task: "asyncio.Task[Roll | No | Unknown]") -> None:
        if task not in self._under_way:  # It was given up.
            return
        self._under_way.remove(task)
        # It was not cancelled here: one that was is a store's that let its own cancellation out.
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is not None:
            told_of_broken_store(self._loop, error)
        outcome = broken("renew", crew.store) if error is not None else task.result()
        asked_at, valid_until, now = crew.cohort.asked_at or 0, crew.cohort.valid_until, self._clock.now()
        begun.waiting, begun.over = crew.heard(outcome, now), True
        if crew.cohort.members:  # Only a round that was answered in time leaves any.
            if isinstance(outcome, Roll) and not outcome.missed:
                self._heard(crew.store)
            publish(Renewed(crew.bids(), max(0, valid_until - now), now - asked_at), crew.store.address)
        self._enrol(crew)
        try:
            for one in begun.waiting:
                crew.tell(one, outcome, asked_at)
            crew.look_after(outcome)
            self._timetable.set(begun, None)  # Last: if one of them raises, the rest look after the time themselves.
        finally:
            crew.strike_off(begun.waiting)
            self._enrol(crew)  # Once more: the last of them may have left before the first newcomer was taken in.

    def give_up(self) -> None:
        """The office leaves, and cancels what is under way: nobody is to hear of that, nor is it the fault of a store."""
        self._under_way.clear()

    def _enrol(self, crew: Crew) -> None:
        """Have a crew renew again when it is due, if there is anybody in it."""
        if crew.cohort.members:
            self._crews[id(crew.store), crew.timing] = crew
            self._coming(crew.store, crew.timing, crew.cohort.due_at).crew = crew
        else:
            self.left(crew)


async def _renewed(crew: Crew) -> Roll | No | Unknown:
    call = in_time(crew.store, crew.timing.attempt_timeout_ns, "renew", crew.group.renew())
    outcome = await outcome_of(call)
    if isinstance(outcome, Ok) and not isinstance(outcome.value, Roll):
        raise TypeError(f"a group answered {outcome.value!r}")
    return outcome.value if isinstance(outcome, Ok) else outcome


async def in_time(store: Store, within_ns: int, operation: str, call: Coroutine[Any, Any, T]) -> T:
    """Await a store's call; one that takes too long has no known outcome."""
    try:
        async with asyncio.timeout(within_ns / 1e9):
            return await call
    except TimeoutError as late:
        raise OutcomeUnknown(store.address, operation, "no answer in time") from late


def told_of_broken_store(loop: asyncio.AbstractEventLoop, error: BaseException) -> None:
    """Report a store that raised something other than StoreError. Nothing can be known of what it did (rule 7)."""
    loop.call_exception_handler({"message": "a store broke its contract", "exception": error})


def broken(operation: str, store: Store) -> Unknown:
    """Return all that is known of a request to a store that broke its contract."""
    return Unknown(OutcomeUnknown(store.address, operation, "the store broke its contract"))
