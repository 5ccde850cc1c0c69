"""A candidate in a process whose wall clock leaps by hours. Arguments: the URL of a store, and ``wall`` for the control.

Whoever reads CLOCK_REALTIME in Python does so by a function of ``time`` or ``datetime``, and all of them are replaced here,
before anything of ours is imported. The clocks that no operator can set are as they were.

The control has a machine whose CLOCK_BOOTTIME *is* the wall clock: what tenure would be if it dated leases by that.
"""

import asyncio
import calendar
import datetime as dt
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

_REAL_NS = time.clock_gettime_ns
# Those that are set by operators and by NTP; the last ones have no name in Python: ALARM and COARSE.
_WALL_CLOCKS = {time.CLOCK_REALTIME, time.CLOCK_TAI, 8, 5}


_ROOT = Path(__file__).parents[1]
# What it prints if none of the leaps ends its tenure.
OUTLIVED = ["renewed 3600 {3600.0}", "renewed -3600 {-3600.0}", "renewed 100000000 {100000000.0}", "Elected Left"]


def leapt(url: str, *control: str) -> subprocess.CompletedProcess[str]:
    """Have a candidate lead, in a process of its own, while its wall clock leaps."""
    command = [sys.executable, "-m", "tests.leaping_wall", url, *control]
    return subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=120, check=False)


class Leap:
    """How far the wall clock is ahead of what it should be."""

    ns = 0


def _read_ns(clock: int) -> int:
    return _REAL_NS(clock) + (Leap.ns if clock in _WALL_CLOCKS else 0)


def _wall_s() -> float:
    return _read_ns(time.CLOCK_REALTIME) / 1e9


def _of_now(convert: Callable[[float], Any]) -> Callable[..., Any]:
    def converted(seconds: float | None = None) -> Any:
        return convert(_wall_s() if seconds is None else seconds)

    return converted


class LeapingDate(dt.date):
    @classmethod
    def today(cls) -> Self:
        return cls.fromtimestamp(_wall_s())


class LeapingDatetime(dt.datetime):
    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> Self:
        return cls.fromtimestamp(_wall_s(), tz)

    @classmethod
    def today(cls) -> Self:
        return cls.now()

    @classmethod
    def utcnow(cls) -> Self:
        return cls.now(dt.UTC).replace(tzinfo=None)


def replace_all() -> None:
    """Have every function that tells the wall clock tell one that leaps."""
    local, asctime, strftime = time.localtime, time.asctime, time.strftime
    leaping: dict[str, Callable[..., Any]] = {
        "time": _wall_s,
        "time_ns": lambda: _read_ns(time.CLOCK_REALTIME),
        "clock_gettime": lambda clock: _read_ns(clock) / 1e9,
        "clock_gettime_ns": _read_ns,
        "gmtime": _of_now(time.gmtime),
        "localtime": _of_now(local),
        "ctime": _of_now(time.ctime),
        "asctime": lambda moment=None: asctime(local(_wall_s()) if moment is None else moment),
        "strftime": lambda form, moment=None: strftime(form, local(_wall_s()) if moment is None else moment),
    }
    for name, function in leaping.items():
        setattr(time, name, function)
    for name, kind in (("date", LeapingDate), ("datetime", LeapingDatetime)):
        setattr(dt, name, kind)


def leaps_shown_s() -> list[float]:
    """How far each of these functions is ahead of the wall clock as it is."""
    shown_s = [
        time.time(),
        time.time_ns() / 1e9,
        time.clock_gettime(time.CLOCK_REALTIME),
        time.clock_gettime_ns(time.CLOCK_REALTIME) / 1e9,
        calendar.timegm(time.gmtime()),
        time.mktime(time.localtime()),
        time.mktime(time.strptime(time.ctime())),
        time.mktime(time.strptime(time.asctime())),
        float(time.strftime("%s")),
        dt.datetime.now(dt.UTC).timestamp(),
        dt.datetime.today().timestamp(),  # noqa: DTZ002  (what is tested)
        dt.datetime.utcnow().replace(tzinfo=dt.UTC).timestamp(),  # noqa: DTZ003
    ]
    return [one_s - _REAL_NS(time.CLOCK_REALTIME) / 1e9 for one_s in shown_s]


async def lead(url: str) -> None:
    """Lead, let the clock leap, and see that the tenure is renewed after each leap."""
    import tenure  # Not before the clocks are replaced.
    from tenure.facts.kinds import Elected, Left, Overstayed

    facts: list[tenure.Fact] = []
    subscription = tenure.subscribe(facts.append, kinds=(Elected, Left, Overstayed))
    async with tenure.open_store(url) as store:
        # Renewed often, so that each leap is soon outlived, and long, so that a busy machine ends nothing.
        timing = tenure.Timing.of(ttl=12, heartbeat=0.75, attempt_timeout=2.5)
        election = tenure.Election(store, "leaps", timing=timing)
        try:
            async with election.once() as term:
                for leap_s in (3600, -3600, 10**8):
                    Leap.ns = leap_s * 10**9
                    sent_at = term._term.valid_until
                    async with asyncio.timeout(30):
                        while term._term.valid_until == sent_at:  # noqa: ASYNC110  (nothing wakes us for it)
                            await asyncio.sleep(0.02)
                    term.check()
                    print("renewed", leap_s, {round(ahead_s, -2) for ahead_s in leaps_shown_s()}, flush=True)
        finally:
            subscription.wait_until_told(10)
            print(*[type(fact.what).__name__ for fact in facts], flush=True)


if __name__ == "__main__":
    replace_all()
    if sys.argv[2:] == ["wall"]:
        setattr(time, "CLOCK_BOOTTIME", time.CLOCK_REALTIME)  # noqa: B010  (a constant, for mypy)
    asyncio.run(lead(sys.argv[1]))
