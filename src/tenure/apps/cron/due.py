"""What is due, from what was scheduled last and what time it is. Decides, and does nothing.

The mark of a job is the newest time that was dealt with: recorded as a run, or as missed. Nothing up to it is ever due again, so a clock that
goes back runs nothing twice, and whoever comes into office goes on where the record ends.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from tenure.apps.cron.jobs import Job, Key
from tenure.apps.cron.schedule import Schedule

_WINDOW_MS: Final = 60_000
_WIDER: Final = 4


@dataclass(frozen=True, slots=True)
class Gap:
    """Times of a job that are not run: later than ``after_ms``, up to that of the key, which stands for all of them."""

    key: Key
    after_ms: int


@dataclass(frozen=True, slots=True)
class Due:
    """What is to be recorded: runs in the order of their times, gaps, and the marks after that."""

    runs: tuple[Key, ...]
    gaps: tuple[Gap, ...]
    marks: Mapping[str, int]


def due(jobs: Iterable[Job], marks: Mapping[str, int], now_ms: int) -> Due:
    """Return what has become due since the marks. A job without a mark is not looked at."""
    runs: list[Key] = []
    gaps: list[Gap] = []
    moved: dict[str, int] = {}
    for job in jobs:
        mark_ms = marks.get(job.id)
        if mark_ms is None:
            continue
        found = newest(job.schedule, mark_ms, now_ms, job.due_max + 1)
        if not found:
            continue
        moved[job.id] = found[-1]
        within_ms = job.within_ms
        chosen = [at_ms for at_ms in found[-job.due_max :] if within_ms is None or now_ms - at_ms <= within_ms]
        runs += [Key(job.id, at_ms) for at_ms in chosen]
        if len(chosen) < len(found):
            gaps.append(Gap(Key(job.id, found[-1 - len(chosen)]), mark_ms))
    return Due(tuple(sorted(runs, key=lambda key: key.scheduled_ms)), tuple(gaps), moved)


def newest(schedule: Schedule, after_ms: int, until_ms: int, count: int) -> list[int]:
    """Return the newest times of a schedule, at most ``count``, in their order.

    It looks back in windows that grow, so that a week of missed seconds costs no more than the few that are wanted.
    """
    window_ms = _WINDOW_MS
    while True:
        start_ms = max(after_ms, until_ms - window_ms)
        found: deque[int] = deque(maxlen=count)
        for at_ms in schedule.after(start_ms):
            if at_ms > until_ms:
                break
            found.append(at_ms)
        if len(found) == count or start_ms == after_ms:
            return list(found)
        window_ms *= _WIDER


def jitter_ms(key: Key, most_ms: int) -> int:
    """Return by how much a run is put off. It follows from the key: a successor does not draw again."""
    if most_ms <= 0:
        return 0
    drawn = int.from_bytes(sha256(str(key).encode()).digest()[:8])
    return drawn % (most_ms + 1)
