"""The timers of all seats, as one timer of the event loop.

A seat changes its mind about its next timer with every step. A timer of the loop for each would cost more than the step:
a thousand elections that do nothing but renew would spend a fifth of their time on timers that never fire. Most of them
want to be woken at the same instants (``Timing.renew_at``), so what is kept in order is the instants, and not the seats.
"""

import asyncio
from heapq import heapify, heappop, heappush
from typing import Final, Protocol

from tenure.clock import Clock

# How many dates are kept for each alarm that waits, before those that nobody waits for are cleared away.
_DATES_PER_ALARM: Final = 4
_DATES_MIN: Final = 64


class Alarm(Protocol):
    """Who wants to be woken."""

    due: int | None  # when; None while it does not. Set by the timetable alone.

    def ring(self) -> None:
        """It is time."""
        ...


class Timetable:
    """Rings alarms when they are due, on the boot clock. Used on one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop, self._clock = loop, clock
        # Every time that was ever asked for, until it has come; an alarm that was set anew since ignores the older ones.
        self._instants: list[int] = []  # a heap of the keys of:
        self._alarms: dict[int, list[Alarm]] = {}
        self._date_count = self._live_count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for: int | None = None

    def set(self, alarm: Alarm, due: int | None) -> None:
        """Ring at ``due`` instead of whenever it was set for before; None: not at all."""
        if due == alarm.due:
            return
        self._live_count += (due is not None) - (alarm.due is not None)
        alarm.due = due
        if due is None:
            return
        self._date_count += 1
        together = self._alarms.get(due)
        if together is not None:
            together.append(alarm)
        else:
            self._alarms[due] = [alarm]
            heappush(self._instants, due)
        if self._date_count > _DATES_MIN + _DATES_PER_ALARM * self._live_count:
            self._clear_away()
        if self._armed_for is None or due < self._armed_for:
            self._arm()

    def ring(self) -> None:
        """Ring whatever is due. Harmless at any time; call it when the machine has slept, since the loop's clock had too."""
        now, due_now = self._clock.now(), []
        # All of it before the first rings. What is set from then on waits for the loop to come round, or an alarm that is
        # always due would starve it.
        while self._instants and self._instants[0] <= now:
            due = heappop(self._instants)
            due_now += [(due, alarm) for alarm in self._alarms.pop(due)]
        self._date_count -= len(due_now)
        rest = iter(due_now)
        try:
            for due, alarm in rest:
                if alarm.due == due:
                    alarm.due = None
                    self._live_count -= 1
                    alarm.ring()
        finally:
            for due, alarm in rest:  # One that raises must not silence the others.
                if alarm.due == due:
                    alarm.due = None
                    self._live_count -= 1
                    self.set(alarm, due)
            self._arm()

    def _clear_away(self) -> None:
        """Forget what nobody waits for: a lock that is taken a thousand times leaves as many dates, some a week ahead."""
        waiting = {due: [alarm for alarm in alarms if alarm.due == due] for due, alarms in self._alarms.items()}
        self._alarms = {due: alarms for due, alarms in waiting.items() if alarms}
        self._instants = list(self._alarms)
        heapify(self._instants)
        self._date_count = sum(map(len, self._alarms.values()))

    def _arm(self) -> None:
        # Nothing wakes for an instant that nobody waits for any more.
        while self._instants and not any(alarm.due == self._instants[0] for alarm in self._alarms[self._instants[0]]):
            self._date_count -= len(self._alarms.pop(heappop(self._instants)))
        due = self._instants[0] if self._instants else None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._armed_for = due
        if due is not None:
            delay_s = max(0, due - self._clock.now()) / 1e9
            self._timer = self._loop.call_later(delay_s, self.ring)
