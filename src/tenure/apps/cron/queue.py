"""Which run begins next. Decides, and does nothing: what is said here is recorded before it is done.

Runs wait until their time has come, until there is room, and until their job may have one more under way. How many wait is bounded: of one job the
newest ``catch_up_limit``.

Rules of this file
1. A run that was begun is never given up here: it may have done half of its work, and was promised to be begun again. Only those that were not
   begun are skipped, and only they count towards a limit.
2. A run that was begun and is to begin again has not ended. Where runs of a job may not overlap, the others of its job stay behind it, also
   during its pause: else each that is due in the meantime could go first, for ever.
"""

import heapq
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tenure.apps.cron.jobs import Job, Key, OnLoss


@dataclass(frozen=True, slots=True)
class Waiting:
    """A run that is to begin: when it may at the earliest, what becomes of it if it is cut short, how often it was begun and has failed."""

    key: Key
    not_before_ms: int
    on_loss: OnLoss
    attempt: int = 0
    failures: int = 0

    @property
    def was_begun(self) -> bool:
        """Whether it is to begin again."""
        return self.attempt > 0


@dataclass(frozen=True, slots=True)
class Begin:
    """Let it begin. It counts as under way until ``released``."""

    run: Waiting


@dataclass(frozen=True, slots=True)
class GiveUp:
    """It is not to be run, for this reason."""

    run: Waiting
    why: str


class Queue:
    """The runs of one tenure."""

    def __init__(self, jobs: Mapping[str, Job], max_parallel: int) -> None:
        self._jobs, self._max_parallel = jobs, max_parallel
        self._heap: list[tuple[int, int, str]] = []  # not before, scheduled, job
        self._waiting: dict[Key, Waiting] = {}  # in the heap, or held
        self._held: dict[
            str, list[Waiting]
        ] = {}  # by job, until one of its runs has ended; in the order in which they go
        self._to_begin_again: Counter[str] = Counter()  # by job: how many of those that wait were begun
        self._under_way: set[Key] = set()
        self._of_job: Counter[str] = Counter()

    @property
    def under_way(self) -> frozenset[Key]:
        """What has begun and not ended."""
        return frozenset(self._under_way)

    def add(self, run: Waiting) -> None:
        """Let a run wait, unless it is known already, or its job is not."""
        key = run.key
        if key.job in self._jobs and key not in self._waiting and key not in self._under_way:
            self._waiting[key] = run
            self._to_begin_again[key.job] += run.was_begun
            self._push(run)

    def ready(self, now_ms: int) -> Iterator[Begin | GiveUp]:
        """Say what to do with those whose time has come, as far as there is room."""
        while self._heap and self._heap[0][0] <= now_ms and len(self._under_way) < self._max_parallel:
            _, scheduled_ms, job_id = heapq.heappop(self._heap)
            run, job = self._waiting[Key(job_id, scheduled_ms)], self._jobs[job_id]
            if self._may_begin(run, job):
                del self._waiting[run.key]
                self._to_begin_again[job_id] -= run.was_begun
                self._under_way.add(run.key)
                self._of_job[job_id] += 1
                yield Begin(run)
            elif job.overlap == "skip" and not run.was_begun:
                del self._waiting[run.key]
                yield GiveUp(run, "skipped: another run of this job had begun and not ended (overlap = skip)")
            else:
                yield from self._hold(run, job)

    def released(self, key: Key, again: Waiting | None = None) -> None:
        """Take note that a run is under way no more, and is perhaps to begin again."""
        self._under_way.remove(key)
        self._of_job[key.job] -= 1
        held = self._held.get(key.job)
        if held:
            self._push(held.pop(0))
        if again is not None:
            self.add(again)

    @property
    def wake_at_ms(self) -> int | None:
        """When ``ready`` may have something to say, if nothing ends before."""
        return self._heap[0][0] if self._heap and len(self._under_way) < self._max_parallel else None

    def _may_begin(self, run: Waiting, job: Job) -> bool:
        goes_first = run.was_begun or job.overlap == "allow" or not self._to_begin_again[job.id]
        return goes_first and self._of_job[job.id] < job.parallel_max

    def _hold(self, run: Waiting, job: Job) -> Iterator[GiveUp]:
        held = self._held.setdefault(job.id, [])
        insort(held, run, key=_turn)
        first = bisect_left(held, (True, 0), key=_turn)  # of those that were not begun
        if len(held) - first > job.catch_up_limit:
            oldest = held.pop(first)
            del self._waiting[oldest.key]
            yield GiveUp(oldest, f"skipped: {job.catch_up_limit} newer runs were waiting (catch_up_limit)")

    def _push(self, run: Waiting) -> None:
        heapq.heappush(self._heap, (run.not_before_ms, run.key.scheduled_ms, run.key.job))


def _turn(run: Waiting) -> tuple[bool, int]:
    return not run.was_begun, run.key.scheduled_ms
