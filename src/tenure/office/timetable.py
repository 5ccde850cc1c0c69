"""The timers of all seats, as one timer of the event loop.

A seat changes its mind about its next timer with every step. A timer of the loop for each would cost more than the step:
a thousand elections that do nothing but renew would spend a fifth of their time on timers that never fire.
"""

import asyncio
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final

from tenure.clock import Clock

# How many dates are kept for each alarm that waits, before those that nobody waits for are cleared away.
_HEAP_PER_ALARM: Final = 4
_HEAP_MIN: Final = 64


class Alarm:
    """When one seat wants to be woken. ``due`` is None while it does not."""

    __slots__ = ("due", "ring")

    def __init__(self, ring: Callable[[], None]) -> None:
        self.due: int | None = None
        self.ring = ring


class Timetable:
    """Rings alarms when they are due, on the boot clock. Used on one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop, self._clock = loop, clock
        # Every time that was ever asked for, until it has come; an alarm that was set anew since ignores the older ones.
        self._heap: list[tuple[int, int, Alarm]] = []
        self._live_count = 0
        self._order = count()
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for: int | None = None

    def set(self, alarm: Alarm, due: int | None) -> None:
        """Ring at ``due`` instead of whenever it was set for before; None: not at all."""
        if due == alarm.due:
            return
        self._live_count += (due is not None) - (alarm.due is not None)
        alarm.due = due
        if len(self._heap) > _HEAP_MIN + _HEAP_PER_ALARM * self._live_count:
            # A lock that is taken and given back a thousand times leaves as many dates, some a week ahead.
            self._heap = [entry for entry in self._heap if entry[2].due == entry[0]]
            heapify(self._heap)
        if due is not None:
            heappush(self._heap, (due, next(self._order), alarm))
            if self._armed_for is None or due < self._armed_for:
                self._arm()

    def ring(self) -> None:
        """Ring whatever is due. Harmless at any time; call it when the machine has slept, since the loop's clock had too."""
        try:
            # What is set from now on waits for the loop to come round, or an alarm that is always due would starve it.
            now, next_order = self._clock.now(), next(self._order)
            while self._heap and self._heap[0][0] <= now and self._heap[0][1] < next_order:
                due, _, alarm = heappop(self._heap)
                if alarm.due == due:
                    alarm.due = None
                    self._live_count -= 1
                    alarm.ring()
        finally:
            self._arm()

    def _arm(self) -> None:
        heap = self._heap
        while heap and heap[0][2].due != heap[0][0]:  # Nobody waits for this one any more, so nothing wakes for it.
            heappop(heap)
        due = heap[0][0] if heap else None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._armed_for = due
        if due is not None:
            delay_s = max(0, due - self._clock.now()) / 1e9
            self._timer = self._loop.call_later(delay_s, self.ring)
