"""Renewals that fall due together go out together, as one request to a store that can take them so.

Every request of a round is sent after the step that asked for it, so each is dated by its own step (rule 1).

A round is also the one alarm of all its seats: when it is time to renew, and if the answer takes long. An alarm for each
would be set twice in every heartbeat of ten thousand elections, and ring in none.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from tenure.clock import Clock
from tenure.core.effects import Renew
from tenure.errors import OutcomeUnknown
from tenure.model import Ended, Grant
from tenure.office.timetable import Timetable
from tenure.stores.base import CanRenewTogether, No, Ok, Store, Unknown, outcome_of

T = TypeVar("T")
_SEATS_MIN: Final = 64
Renewal = Grant | Ended | No | Unknown


class Renewing(Protocol):
    """A seat, as a round knows it."""

    renews_at: int | None  # with which round it renews; None: with none, and it looks after the time itself

    def renewal(self, now: int) -> Renew | None:
        """Let time pass up to ``now``, and return the renewal that is due then; None: there was something else to do."""
        ...

    def renewed(self, effect: Renew, outcome: Renewal) -> None:
        """Hear what became of a renewal."""
        ...

    def look_after_time(self) -> None:
        """Have an alarm of your own from now on: the answer takes long."""
        ...


class Asked(NamedTuple):
    """One renewal, and who waits for its outcome."""

    effect: Renew
    seat: Renewing


class _Round:
    """One request to one store for those who renew together; before it is sent, who will."""

    __slots__ = ("asked", "begin", "due", "room", "seats", "store", "within_ns")

    def __init__(self, store: CanRenewTogether, within_ns: int) -> None:
        self.store, self.within_ns = store, within_ns
        self.due: int | None = None  # as an Alarm
        self.begin: Callable[[], None] | None = None  # None: it has begun
        self.seats: list[Renewing] = []
        self.room = _SEATS_MIN  # how many seats there may be before those that have left are cleared away
        self.asked: list[Asked] = []

    def ring(self) -> None:
        """It is time to renew, or the answer takes long."""
        if self.begin is not None:
            self.begin()
        else:
            for one in self.asked:
                one.seat.look_after_time()


class Rounds:
    """Every round of a process. Used on one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, timetable: Timetable) -> None:
        self._loop, self._clock, self._timetable = loop, clock, timetable
        self._timed: dict[tuple[int, int, int], _Round] = {}
        self._next: dict[tuple[int, int], _Round] = {}
        self._under_way: set[asyncio.Task[None]] = set()

    def join(self, seat: Renewing, store: CanRenewTogether, within_ns: int, instant: int) -> None:
        """Have ``seat`` renew at ``instant``, with whoever else does then."""
        key = id(store), within_ns, instant
        coming = self._timed.get(key)
        if coming is None:
            coming = self._timed[key] = _Round(store, within_ns)
            coming.begin = partial(self._begin, key)
            self._timetable.set(coming, instant)
        coming.seats.append(seat)
        if len(coming.seats) > coming.room:
            # A lock that is taken a thousand times a second leaves as many seats, and the mark may be days ahead.
            coming.seats = [one for one in coming.seats if one is seat or one.renews_at == instant]
            coming.room = max(_SEATS_MIN, 2 * len(coming.seats))

    def _begin(self, key: tuple[int, int, int]) -> None:
        now, begun = self._clock.now(), self._timed.pop(key)
        begun.begin = None
        rest = iter(begun.seats)
        try:
            for seat in rest:
                if seat.renews_at == key[-1]:  # else it has left this round
                    seat.renews_at = None
                    effect = seat.renewal(now)
                    if effect is not None:
                        begun.asked.append(Asked(effect, seat))
        finally:
            for seat in rest:  # One that raises must not take the others with it.
                if seat.renews_at == key[-1]:
                    seat.renews_at = None
                    seat.look_after_time()
            begun.seats.clear()
            if begun.asked:
                self._send(begun)

    def add(self, store: CanRenewTogether, within_ns: int, asked: Asked) -> None:
        """Renew once the event loop has come round, with whoever else asks until then."""
        if not self._next:
            self._loop.call_soon(self._send_next)
        key = id(store), within_ns
        if key not in self._next:
            self._next[key] = _Round(store, within_ns)
        self._next[key].asked.append(asked)

    def _send_next(self) -> None:
        rounds, self._next = self._next, {}
        for each in rounds.values():
            self._send(each)

    def _send(self, begun: _Round) -> None:
        # The shortest time after which a candidate would ask again: see ``Timing.answer_within_ns``.
        self._timetable.set(begun, self._clock.now() + begun.within_ns * 3 // 4)
        task = self._loop.create_task(_renew(begun))
        self._under_way.add(task)
        task.add_done_callback(partial(self._done, begun))

    def _done(self, ended: _Round, task: "asyncio.Task[None]") -> None:
        self._under_way.discard(task)
        self._timetable.set(ended, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            told_of_broken_store(self._loop, error)
            for one in ended.asked:
                one.seat.renewed(one.effect, broken("renew", ended.store))


async def _renew(begun: _Round) -> None:
    store, asked = begun.store, begun.asked
    grants = [one.effect.grant for one in asked]
    outcome = await outcome_of(in_time(store, begun.within_ns, "renew", store.renew_together(grants)))
    if isinstance(outcome, Ok):
        if len(outcome.value) != len(asked):  # Whose answers these are cannot be known, so nobody may hear one.
            raise ValueError(f"{len(outcome.value)} answers to {len(asked)} renewals")
        for one, answer in zip(asked, outcome.value, strict=True):
            one.seat.renewed(one.effect, answer)
    else:
        for one in asked:
            one.seat.renewed(one.effect, outcome)


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
