"""Which run begins next. Decides, and does nothing: what is said here is recorded before it is done.

Runs wait until their time has come, until there is room, and until their job may have one more under way. How many wait is bounded: of one job the
newest ``catch_up_limit``, beside those of rule 1.

Rules of this file
1. A run that was begun is never given up here: it may have done half of its work, and was promised to be begun again. Nor is one that people have
   asked for. Only others are skipped, and only they count towards a limit.
2. A run that was begun and is to begin again has not ended. Where runs of a job may not overlap, what is due of its job stays behind it, also
   during its pause: else each that is due in the meantime could go first, for ever.
3. What people have asked for waits for no pause: they mean now, and do not ask again every second. It waits for what is under way, if it must not
   overlap: that is a promise to the job, not to its schedule.
4. Those whose time has come go in the order of the times that they were scheduled for, and those of rule 1 before the others; not in the order in
   which their pauses ended. So a run waits for older ones alone, and of these no more come. By the ends of pauses, a run that is tried again
   would stand behind all that a busy machine has not got to, at every try, and its job behind it.
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
    by_hand: bool = False  # whether people have asked for it

    @property
    def was_begun(self) -> bool:
        """Whether it is to begin again."""
        return self.attempt > 0

    @property
    def is_owed(self) -> bool:
        """Whether it is begun in any case (rule 1)."""
        return self.was_begun or self.by_hand


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
        self._later: list[tuple[int, Key]] = []  # by when they may begin at the earliest: a heap
        self._line: list[tuple[tuple[bool, int], Key]] = []  # whose time has come, by their turn: a heap
        self._waiting: dict[Key, Waiting] = {}  # in one of these, or held
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
        while self._later and self._later[0][0] <= now_ms:
            _, key = heapq.heappop(self._later)
            heapq.heappush(self._line, (_turn(self._waiting[key]), key))
        while self._line and self._has_room:
            _, key = heapq.heappop(self._line)
            run, job = self._waiting[key], self._jobs[key.job]
            if self._may_begin(run, job):
                del self._waiting[key]
                self._to_begin_again[job.id] -= run.was_begun
                self._under_way.add(key)
                self._of_job[job.id] += 1
                yield Begin(run)
            elif job.overlap == "skip" and not run.is_owed:
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
        return self._later[0][0] if self._later and self._has_room else None

    @property
    def _has_room(self) -> bool:
        return len(self._under_way) < self._max_parallel

    def _may_begin(self, run: Waiting, job: Job) -> bool:
        goes_first = run.is_owed or job.overlap == "allow" or not self._to_begin_again[job.id]
        return goes_first and self._of_job[job.id] < job.parallel_max

    def _hold(self, run: Waiting, job: Job) -> Iterator[GiveUp]:
        held = self._held.setdefault(job.id, [])
        insort(held, run, key=_turn)
        first = bisect_left(held, (True, 0), key=_turn)  # of those that may be given up
        if len(held) - first > job.catch_up_limit:
            oldest = held.pop(first)
            del self._waiting[oldest.key]
            yield GiveUp(oldest, f"skipped: {job.catch_up_limit} newer runs were waiting (catch_up_limit)")

    def _push(self, run: Waiting) -> None:
        heapq.heappush(self._later, (run.not_before_ms, run.key))


def _turn(run: Waiting) -> tuple[bool, int]:
    return not run.is_owed, run.key.scheduled_ms
