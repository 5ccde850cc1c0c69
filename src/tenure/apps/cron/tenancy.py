"""One tenure of a scheduler: what it knows of the ledger, and what it does next.

Rules of this file
1. Nothing begins before the ledger has it as running under our token. So whatever began is known to whoever comes after us.
2. Once the ledger refuses our token, nothing begins and nothing is recorded. What is under way is stopped, and is our successor's to judge.
3. While the ledger cannot be reached nothing begins. What is under way goes on, and its end is recorded when it can be.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

import anyio
from anyio.abc import TaskGroup

from tenure.apps.cron.calls import Calls
from tenure.apps.cron.clerk import Clerk, Recorded
from tenure.apps.cron.commands import Commands
from tenure.apps.cron.due import due, jitter_ms
from tenure.apps.cron.jobs import Job, Key, Run
from tenure.apps.cron.layout import prepare
from tenure.apps.cron.outcome import Outcome, ending
from tenure.apps.cron.queue import Begin, Queue, Waiting
from tenure.apps.cron.records import Ending, Found, JobRow, Record, Records
from tenure.apps.cron.schedule import iso
from tenure.apps.ledger.base import Ledger
from tenure.errors import StaleToken, StoreError, TenureError
from tenure.office.tenure import Tenure

LOOK_EVERY_S: Final = 1.0  # for what people have asked; also bounds how long a clock that was set goes unnoticed
_LOOKS_AT_ALL: Final = 30  # One look in so many is at all runs that wait, which may be many.
_AHEAD_MS: Final = 3_600_000
_COMPLAIN_EVERY_S: Final = 10.0
_SCHEDULED_AHEAD_MAX: Final = 8  # batches of due runs that wait to be recorded
_PRUNE_EVERY: Final = 100  # runs of a job


class Tells(Protocol):
    """Who is told how it goes."""

    def say(self, event: str, text: str, **fields: object) -> None:
        """Tell how it goes."""
        ...

    def complain(self, event: str, text: str, **fields: object) -> None:
        """Tell what somebody should look at."""
        ...


@dataclass(frozen=True, slots=True)
class Means:
    """What every tenure of a scheduler works with. ``history``: how many runs of each job are kept."""

    ledger: Ledger
    jobs: Mapping[str, Job]
    max_parallel: int
    history: int
    calls: Calls
    commands: Commands | None
    tells: Tells
    now_ms: Callable[[], int]


class Tenancy:
    """See above. Used once."""

    def __init__(self, cron: Means, term: Tenure) -> None:
        self._cron, self._term, self._tells = cron, term, cron.tells
        self._is_draining = False
        self._records = Records(cron.ledger.kind, term.election)
        self._clerk = Clerk(cron.ledger, term, self._troubled)
        self._queue = Queue(cron.jobs, cron.max_parallel)
        self._marks: dict[str, int] = {}
        self._paused: set[str] = set()
        self._changes: dict[str, int] = {}  # of people, that we know of
        self._next: dict[str, int] = {}  # when each job is due next
        self._alarms: list[tuple[int, str]] = []  # the same, in their order; one that differs is out of date
        self._ended: Counter[str] = Counter()
        self._scheduled_ahead = 0
        self._looks_until_all = 0
        self._news = anyio.Event()
        self._complained_s = -_COMPLAIN_EVERY_S
        self._failure: TenureError | None = None

    def drain(self) -> None:
        """Begin nothing more; ``run`` returns when what is under way has ended."""
        self._is_draining = True
        self._news.set()

    async def run(self) -> None:
        """Run what is due. Returns when it has drained."""
        await self._make_tables()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep_records, tasks)
            jobs, now_ms = list(self._cron.jobs.values()), self._cron.now_ms()
            self._enter(await self._clerk.record(lambda: self._records.entered(jobs, self._term.token, now_ms)))
            tasks.start_soon(self._look)
            await self._serve(tasks)
            tasks.cancel_scope.cancel()
        if self._failure is not None:
            raise self._failure

    async def _make_tables(self) -> None:
        while True:
            try:
                await prepare(self._cron.ledger)
            except StoreError as error:
                self._troubled(error)
                await anyio.sleep(LOOK_EVERY_S)
            else:
                return

    async def _keep_records(self, tasks: TaskGroup) -> None:
        try:
            await self._clerk.work()
        except StaleToken as stale:
            left = ", ".join(sorted(map(str, self._queue.under_way))) or "nothing"
            text = f"the ledger refuses {self._term.election}: {stale}; under way, and left to the successor: {left}"
            self._tells.complain("stale", text, election=self._term.election, token=self._term.token)
            self._term.give_up()  # The office will cancel us.
            await anyio.sleep_forever()
        except TenureError as error:
            self._failure = error
            tasks.cancel_scope.cancel()

    def _troubled(self, error: StoreError) -> None:
        now_s = anyio.current_time()
        if now_s - self._complained_s >= _COMPLAIN_EVERY_S:
            self._complained_s = now_s
            self._tells.complain("no-ledger", f"nothing begins until it can be recorded: {error}", ledger=error.store)

    def _enter(self, found: Found) -> None:
        jobs = self._cron.jobs
        self._learn(found.jobs)
        for run in found.waiting:  # Before anything that is due now: what was begun goes first.
            self._adopt(run)
        for run in found.settled:
            self._tell_of(run)
        for job_id in found.changed:
            comes = next(jobs[job_id].schedule.after(found.jobs[job_id].mark_ms), None) is not None
            when = f"{jobs[job_id].schedule.text}, {'from here on' if comes else 'which has passed'}"
            self._tells.say("changed", f"{job_id} is now due {when}", job=job_id)
        for job_id, row in found.jobs.items():
            if job_id in jobs and row.mark_ms > self._cron.now_ms() + _AHEAD_MS:
                text = f"{job_id} is not due before {iso(row.mark_ms)}: a clock was ahead; {_remedy(row, self._cron.now_ms())}"
                self._tells.complain("clock", text, job=job_id)
        strangers = sorted(set(found.jobs) - set(jobs))
        if strangers:
            text = f"this file has no {', '.join(strangers)}, which the ledger knows: they do not run"
            self._tells.say("unknown-jobs", text, jobs=strangers)

    def _tell_of(self, run: Record) -> None:
        """Say what has become of a run that another leader has left, or of a moment that nobody has seen."""
        fields = {"run": str(run.key), "detail": run.detail}
        if run.state == "pending":
            again = "is begun again"
            if run.key.job not in self._cron.jobs:
                again = "waits for a leader whose file has its job"
            elif not self._may_adopt(run):
                again = "waits until its job is resumed"
            self._tells.say("retry", f"{run.key} {again}: {run.detail}", **fields)
        elif run.attempt:
            text = f"{run.key} is abandoned: {run.detail}, and may have done some of its work"
            self._tells.complain("abandoned", text, **fields)
        else:
            self._tells.complain("missed", f"{run.key} is {run.detail}", **fields, job=run.key.job)

    # The loop

    async def _serve(self, tasks: TaskGroup) -> None:
        cron = self._cron
        while True:
            self._news = anyio.Event()
            now_ms = cron.now_ms()
            if not self._is_draining:
                self._schedule(now_ms)
                for decision in self._queue.ready(now_ms):
                    if isinstance(decision, Begin):
                        # Asked for at once, so that it is in the transaction that makes the run: a commit is what takes time.
                        tasks.start_soon(self._perform, decision.run, self._begin(decision.run))
                    else:
                        self._give_up(decision.run.key, decision.why, now_ms)
            elif not self._queue.under_way:
                return
            with anyio.move_on_after(self._nap_s(now_ms)):
                await self._news.wait()

    def _nap_s(self, now_ms: int) -> float:
        if self._is_draining:  # Whatever is due stays so.
            return LOOK_EVERY_S
        alarms = [self._alarms[0][0]] if self._alarms and self._may_schedule else []
        if (ready_ms := self._queue.wake_at_ms) is not None:
            alarms.append(ready_ms)
        return min(LOOK_EVERY_S, max(0.0, (min(alarms) - now_ms) / 1000)) if alarms else LOOK_EVERY_S

    @property
    def _may_schedule(self) -> bool:
        return not self._clerk.is_behind and self._scheduled_ahead < _SCHEDULED_AHEAD_MAX

    def _schedule(self, now_ms: int) -> None:
        """Have whatever is due recorded, and let it wait for its turn."""
        cron, ready = self._cron, []
        while self._may_schedule and self._alarms and self._alarms[0][0] <= now_ms:
            at_ms, job_id = heapq.heappop(self._alarms)
            if self._next.get(job_id) == at_ms:
                del self._next[job_id]
                if job_id not in self._paused:
                    ready.append(cron.jobs[job_id])
        if not ready:
            return
        found = due(ready, self._marks, now_ms)
        not_before_ms = {
            key: key.scheduled_ms + jitter_ms(key, round(cron.jobs[key.job].jitter_s * 1000)) for key in found.runs
        }
        self._scheduled_ahead += 1
        recorded = self._clerk.put(lambda: self._records.scheduled(found, cron.jobs, not_before_ms))
        recorded.add_done_callback(self._scheduled)
        for key in found.runs:
            self._queue.add(Waiting(key, not_before_ms[key], cron.jobs[key.job].on_loss))
        for gap in found.gaps:
            text = f"{gap.key.job} has missed what was due from {iso(gap.after_ms)} to {iso(gap.key.scheduled_ms)}"
            self._tells.complain("missed", text, job=gap.key.job, run=str(gap.key))
            self._prune(gap.key.job)
        self._marks.update(found.marks)
        for job in ready:
            self._set_alarm(job)

    def _scheduled(self, _: object) -> None:
        self._scheduled_ahead -= 1
        self._news.set()

    def _set_alarm(self, job: Job) -> None:
        at_ms = next(job.schedule.after(self._marks[job.id]), None)
        if at_ms is not None:
            self._next[job.id] = at_ms
            heapq.heappush(self._alarms, (at_ms, job.id))

    # What people ask

    async def _look(self) -> None:
        while True:
            at_all, self._looks_until_all = self._looks_until_all == 0, (self._looks_until_all - 1) % _LOOKS_AT_ALL
            rows, pending = await self._clerk.record(partial(self._records.looked, at_all=at_all))
            self._learn(rows)
            for run in pending:
                self._adopt(run)
            await anyio.sleep(LOOK_EVERY_S)

    def _learn(self, rows: dict[str, JobRow]) -> None:
        """Take note of marks and pauses, of which people may have changed some."""
        for job_id, job in self._cron.jobs.items():
            row = rows.get(job_id)
            if row is None:
                continue
            if row.paused:
                self._paused.add(job_id)
            else:
                self._paused.discard(job_id)
            # Not by the pause alone: it may have come and gone since the last look.
            changed = row.changes != self._changes.get(job_id, row.changes)
            self._changes[job_id] = row.changes
            if changed:
                self._looks_until_all = 0
            if changed or row.mark_ms > self._marks.get(job_id, row.mark_ms - 1):
                self._marks[job_id] = row.mark_ms
                self._set_alarm(job)
        self._news.set()

    def _adopt(self, run: Record) -> None:
        job = self._cron.jobs.get(run.key.job)
        if job is None or not self._may_adopt(run):
            return
        not_before_ms = run.not_before_ms
        if run.attempt:
            # Others stay behind it. That a clock was ahead must not have them wait for longer than its pause.
            not_before_ms = min(not_before_ms, self._cron.now_ms() + round(job.retry_pause_s * 1000))
        by_hand = run.origin == "person"
        self._queue.add(Waiting(run.key, not_before_ms, run.on_loss, run.attempt, run.failures, by_hand))

    def _may_adopt(self, run: Record) -> bool:
        return run.origin == "person" or run.key.job not in self._paused

    # One run

    def _begin(self, run: Waiting) -> Recorded[bool]:
        token, now_ms = self._term.token, self._cron.now_ms
        return self._clerk.put(lambda: self._records.begun(run, token, now_ms()))

    async def _perform(self, run: Waiting, begun: Recorded[bool]) -> None:
        key, attempt, again = run.key, run.attempt + 1, None
        token, now_ms = self._term.token, self._cron.now_ms
        job = self._cron.jobs[key.job]
        if await begun:
            if self._term.reason is not None:  # It may have taken long to record it.
                await anyio.sleep_forever()
            outcome = await self._work(job, Run(key, attempt, self._term))
            end = ending(job, run, outcome, now_ms())
            if await self._clerk.record(lambda: self._records.ended(key, token, attempt, end)):
                self._tell(key, end)
                if end.state == "pending":
                    again = Waiting(key, end.not_before_ms, run.on_loss, attempt, end.failures, run.by_hand)
            else:
                text = f"{key} {end.state}, and its record is not as it was left: somebody has changed it"
                self._tells.complain("changed", text, run=str(key))
            self._prune(key.job)
        else:
            self._looks_until_all = 0  # Somebody has done something to it.
        self._queue.released(key, again)
        self._news.set()

    async def _work(self, job: Job, run: Run) -> Outcome:
        work = job.work
        if not isinstance(work, tuple):
            return await self._cron.calls.run(work, run, job.timeout_s)
        assert self._cron.commands is not None, "looked at when the jobs were given"
        return await self._cron.commands.run(work, run, job.timeout_s, keep_output=job.keep_output)

    def _tell(self, key: Key, end: Ending) -> None:
        fields = {"run": str(key), "state": end.state, "code": end.code}
        if end.state == "completed":
            self._tells.say("completed", f"{key} completed", **fields)
        else:
            again = f"; again at {iso(end.not_before_ms)}" if end.state == "pending" else ""
            self._tells.complain("failed", f"{key} {end.detail}{again}", **fields, detail=end.detail)

    def _give_up(self, key: Key, why: str, now_ms: int) -> None:
        self._clerk.put(lambda: self._records.given_up(key, why, now_ms))
        self._tells.complain("abandoned", f"{key} is abandoned: {why}", run=str(key), detail=why)
        self._prune(key.job)

    def _prune(self, job_id: str) -> None:
        """Forget the oldest runs, now and then: one more has ended."""
        self._ended[job_id] += 1
        if self._ended[job_id] % _PRUNE_EVERY == 0:
            self._clerk.put(lambda: self._records.pruned(job_id, self._cron.history))


def _remedy(row: JobRow, now_ms: int) -> str:
    """Return what helps a job that is not due for long. What was forgotten must not be run again, so that bounds it."""
    if row.forgotten_ms <= now_ms:
        return "pause and resume it to have it due from now on"
    if row.forgotten_ms < row.mark_ms:
        return f"pause and resume it to have it due from {iso(row.forgotten_ms)} on: of what it ran before there is no record"
    return "of what it ran before there is no record, so only another id has it due sooner"
