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

    __slots__ = ("asked", "begin", "due", "member_count", "seats", "store", "within_ns")

    def __init__(self, store: CanRenewTogether, within_ns: int) -> None:
        self.store, self.within_ns = store, within_ns
        self.due: int | None = None  # as an Alarm
        self.begin: Callable[[], None] | None = None  # None: it has begun
        self.seats: list[Renewing] = []  # who has ever joined
        self.member_count = 0  # who has not left since
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
        coming.member_count += 1
        seat.renews_at = instant

    def leave(self, seat: Renewing, store: CanRenewTogether, within_ns: int) -> None:
        """Have ``seat`` renew with nobody. Its round may be days ahead, and must keep neither who has left nor a store."""
        instant, seat.renews_at = seat.renews_at, None
        if instant is None:
            return
        key = id(store), within_ns, instant
        coming = self._timed.get(key)
        if coming is None:  # It is just beginning.
            return
        coming.member_count -= 1
        if not coming.member_count:
            self._timetable.set(coming, None)
            del self._timed[key]
        elif len(coming.seats) > _SEATS_MIN + 2 * coming.member_count:
            coming.seats = [one for one in coming.seats if one.renews_at == instant]

    def _begin(self, key: tuple[int, int, int]) -> None:
        now, begun = self._clock.now(), self._timed.pop(key)
        begun.begin = None
        seat, rest = None, iter(begun.seats)
        try:
            for seat in rest:
                if seat.renews_at == key[-1]:  # else it has left this round
                    seat.renews_at = None
                    effect = seat.renewal(now)
                    if effect is not None:
                        begun.asked.append(Asked(effect, seat))
            seat = None
        finally:
            for behind in (seat, *rest):  # One that raises must not take the others with it.
                if behind is not None and behind.renews_at in (None, key[-1]):
                    behind.renews_at = None
                    behind.look_after_time()
            begun.seats.clear()
            if begun.asked:
                self._send(begun, now)

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
            self._send(each, self._clock.now())

    def _send(self, begun: _Round, asked_at: int) -> None:
        # The shortest time after which a candidate would ask again: see ``Timing.answer_within_ns``. It counts from when they
        # were asked, by which each has judged whether it needs an alarm of its own. The process may have stood still since.
        self._timetable.set(begun, asked_at + begun.within_ns * 3 // 4)
        task = self._loop.create_task(_renew(begun))
        self._under_way.add(task)
        task.add_done_callback(partial(self._done, begun))

    def _done(self, ended: _Round, task: "asyncio.Task[None]") -> None:
        self._under_way.discard(task)
        # Nobody here cancels it: one that was cancelled is a store's that let its own cancellation out.
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is not None:
            told_of_broken_store(self._loop, error)
            for one in ended.asked:
                one.seat.renewed(one.effect, broken("renew", ended.store))
        self._timetable.set(ended, None)  # Last: if one of them raises, the rest look after the time themselves.


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
