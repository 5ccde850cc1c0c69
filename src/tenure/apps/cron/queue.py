"""Which run begins next. Decides, and does nothing: what is said here is recorded before it is done.

Runs wait until their time has come, until there is room, and until their job may have one more under way. How many wait is bounded: of one job the
newest ``catch_up_limit``.
"""

import heapq
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tenure.apps.cron.jobs import Job, Key


@dataclass(frozen=True, slots=True)
class Waiting:
    """A run that is to begin: how often it was begun and has failed, and when it may be at the earliest."""

    key: Key
    not_before_ms: int
    attempt: int = 0
    failures: int = 0


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
        self._held: dict[str, deque[Waiting]] = {}  # by job, until one of its runs has ended
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
            self._push(run)

    def ready(self, now_ms: int) -> Iterator[Begin | GiveUp]:
        """Say what to do with those whose time has come, as far as there is room."""
        while self._heap and self._heap[0][0] <= now_ms and len(self._under_way) < self._max_parallel:
            _, scheduled_ms, job_id = heapq.heappop(self._heap)
            run, job = self._waiting[Key(job_id, scheduled_ms)], self._jobs[job_id]
            if self._of_job[job_id] < job.parallel_max:
                del self._waiting[run.key]
                self._under_way.add(run.key)
                self._of_job[job_id] += 1
                yield Begin(run)
            elif job.overlap == "skip":
                del self._waiting[run.key]
                yield GiveUp(run, "skipped: a run of this job was under way (overlap = skip)")
            else:
                yield from self._hold(run, job)

    def released(self, key: Key, again: Waiting | None = None) -> None:
        """Take note that a run is under way no more, and is perhaps to begin again."""
        self._under_way.remove(key)
        self._of_job[key.job] -= 1
        held = self._held.get(key.job)
        if held:
            self._push(held.popleft())
        if again is not None:
            self.add(again)

    @property
    def wake_at_ms(self) -> int | None:
        """When ``ready`` may have something to say, if nothing ends before."""
        return self._heap[0][0] if self._heap and len(self._under_way) < self._max_parallel else None

    def _hold(self, run: Waiting, job: Job) -> Iterator[GiveUp]:
        held = self._held.setdefault(job.id, deque())
        held.append(run)
        if len(held) > job.catch_up_limit:
            oldest = held.popleft()
            del self._waiting[oldest.key]
            yield GiveUp(oldest, f"skipped: {job.catch_up_limit} newer runs were waiting (catch_up_limit)")

    def _push(self, run: Waiting) -> None:
        heapq.heappush(self._heap, (run.not_before_ms, run.key.scheduled_ms, run.key.job))
