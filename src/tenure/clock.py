"""Clocks: integers of nanoseconds that never go back and that count suspend (rule 2).

``time.monotonic()`` is CLOCK_MONOTONIC on Linux, which stands still while the machine sleeps. A lease does not: a
laptop that slept for an hour would still believe in an office that was given away 59 minutes ago.

No clock here may be compared with one of another process. A hypervisor that stops a virtual machine may stop every
clock in it: no clock rule survives that, the fence does.
"""

import sys
import time
from typing import Protocol

from tenure.errors import ClockError, ConfigError

_NAP_MAX_S = 0.5


class Clock(Protocol):
    """What leases are judged by."""

    def now(self) -> int:
        """Return nanoseconds since some fixed instant; never less than it returned before."""
        ...

    async def sleep_until(self, instant: int) -> None:
        """Return once ``now() >= instant``. May return late, never early."""
        ...


def _suspend_counting_clock_id() -> int:
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.CLOCK_BOOTTIME
    if sys.platform == "darwin":
        return time.CLOCK_MONOTONIC  # On Darwin this one runs on during sleep (clock_gettime(3)).
    raise ConfigError("platform", sys.platform, "has no clock that counts suspend, so leases cannot be dated here")


class BootClock:
    """The machine's clock since boot, suspend included."""

    __slots__ = ("_clock_id", "_shown")

    def __init__(self) -> None:
        self._clock_id = _suspend_counting_clock_id()
        self._shown = 0

    def now(self) -> int:
        # The floor is read before the clock: read after it, a second thread could raise the floor in between and
        # this thread would call a clock broken that is not.
        floor = self._shown
        shown = time.clock_gettime_ns(self._clock_id)
        if shown < floor:
            raise ClockError(shown, floor)
        self._shown = shown
        return shown

    async def sleep_until(self, instant: int) -> None:
        import anyio  # noqa: PLC0415  (only programs that wait pay for it)

        # Event loops sleep on CLOCK_MONOTONIC, which a suspend stops: a nap would be late by the whole of it. Hence short
        # ones, with a look at our own clock after each.
        while (left_ns := instant - self.now()) > 0:  # noqa: ASYNC110  (there is no event to wait for)
            await anyio.sleep(min(left_ns / 1e9, _NAP_MAX_S))


class VirtualClock:
    """A clock that moves only when told to: for tests in which a lease of an hour costs no time.

    Not safe to share between threads: advance it on the event loop that waits on it.
    """

    def __init__(self, start: int = 0) -> None:
        self._now = start
        self._sleepers: list[tuple[int, _Wakeable]] = []

    def now(self) -> int:
        return self._now

    def advance(self, ns: int) -> None:
        """Move on by ``ns`` nanoseconds and wake who has slept long enough. Refuses to go back."""
        if ns < 0:
            raise ClockError(self._now + ns, self._now)
        self._now += ns
        due = [event for instant, event in self._sleepers if instant <= self._now]
        self._sleepers = [sleeper for sleeper in self._sleepers if sleeper[0] > self._now]
        for event in due:
            event.set()

    async def sleep_until(self, instant: int) -> None:
        import anyio  # noqa: PLC0415  (see BootClock)

        if instant > self._now:
            sleeper = (instant, anyio.Event())
            self._sleepers.append(sleeper)
            try:
                await sleeper[1].wait()
            finally:
                if sleeper in self._sleepers:
                    self._sleepers.remove(sleeper)


class _Wakeable(Protocol):
    def set(self) -> None: ...

    async def wait(self) -> None: ...
