"""What is recorded of a schedule, as entries of a ledger: the mark of every job, and every run.

Rules of this file
1. A run moves only by a conditional update: pending → running → completed or failed or abandoned; and from running back to pending, to be
   begun again under the same key. What has ended never changes.
2. Every entry of a leader's may be carried out twice, since nobody knows whether a commit that was not answered took place. The second
   time it finds its own work, by key, token and attempt, and says the same.
3. A run keeps whether it may be begun again (``on_loss``) as it was when it was scheduled. A successor whose file says otherwise, or has no
   such job, goes by the run: one that may not be is begun once, whatever it came to. The rest is by the file of who is in office.
4. No time is recorded again whose run was forgotten: a run is known by its key only while it is on record.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, cast

from tenure.apps.cron.due import Due
from tenure.apps.cron.jobs import Job, Key, OnLoss
from tenure.apps.cron.layout import JOBS, RUNS
from tenure.apps.cron.queue import Waiting
from tenure.apps.cron.schedule import At, iso
from tenure.apps.ledger.base import Entry, Kind
from tenure.sinks.sql.talk import Ask

State = Literal["pending", "running", "completed", "failed", "abandoned"]
STATES: Final = ("pending", "running", "completed", "failed", "abandoned")
Origin = Literal["schedule", "person"]
ATTEMPTS_MAX: Final = 100  # A run that takes its leader with it, every time, is given up one day.
TEXT_MAX: Final = 4096
_OPEN_MAX: Final = 100_000  # pending runs that are read at once; the rest is read later
_UNLESS_THERE: Final[dict[Kind, str]] = {
    "sqlite": "ON CONFLICT DO NOTHING",
    "postgresql": "ON CONFLICT DO NOTHING",
    "mysql": "ON DUPLICATE KEY UPDATE election = VALUES(election)",
}
_WHICH: Final = "election = ? AND job = ? AND scheduled = ?"
_COLUMNS: Final = (
    "job, scheduled, state, origin, on_loss, token, attempt, failures, not_before, started, ended, code, detail, tail"
)


@dataclass(frozen=True, slots=True)
class Record:
    """A run as the ledger has it. ``code`` is the exit code of a command; ``tail`` the last of what it printed."""

    key: Key
    state: State
    origin: Origin
    on_loss: OnLoss
    token: int
    attempt: int
    failures: int
    not_before_ms: int
    started_ms: int | None
    ended_ms: int | None
    code: int | None
    detail: str
    tail: str


class JobRow(NamedTuple):
    """A job as the ledger has it: the newest time that was dealt with, whether people have paused it, and its schedule.

    ``forgotten_ms`` is the newest time whose run is no longer on record. ``changes``: how often people have paused or resumed it.
    """

    mark_ms: int
    paused: bool
    schedule: str
    forgotten_ms: int = 0
    changes: int = 0


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt has ended, and what comes of its run. ``not_before_ms``: when it is begun again, if it is pending."""

    state: State
    at_ms: int
    code: int | None
    detail: str
    tail: str = ""
    failures: int = 0
    not_before_ms: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """What a leader finds when it comes into office."""

    jobs: dict[str, JobRow]
    settled: Sequence[
        Record
    ]  # what was under way under another leader: pending again, or abandoned; and moments that had passed unseen
    waiting: Sequence[Record]  # all runs that are pending, those among them
    changed: Sequence[str]  # jobs whose schedule is another than it was


def text_of(text: str) -> str:
    """Return the last of a text, as every database takes it."""
    return text.encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")[-TEXT_MAX:]


def _is_forgotten(key: Key, rows: Mapping[str, JobRow]) -> bool:
    return key.job in rows and key.scheduled_ms <= rows[key.job].forgotten_ms


class Records:
    """The rows of one election."""

    def __init__(self, kind: Kind, election: str) -> None:
        self._election, self._unless_there = election, _UNLESS_THERE[kind]

    # What a leader does

    def entered(self, jobs: Iterable[Job], token: int, now_ms: int) -> Entry[Found]:
        """Take over: know every job, and settle what another leader has left under way."""
        rows = yield from self.jobs()
        changed = []
        for job in jobs:
            row, text = rows.get(job.id), job.schedule.text
            if row is None:
                yield from self._known(job, now_ms)
                yield from self._passed(job, None, token, now_ms)
                rows[job.id] = JobRow(now_ms, paused=False, schedule=text)
            elif row.schedule != text:
                # What another schedule would have had since then was never due.
                mark_ms = max(row.mark_ms, now_ms)
                change = f"UPDATE {JOBS} SET mark = ?, schedule = ? WHERE election = ? AND job = ?"  # noqa: S608
                yield Ask(change, (mark_ms, text, self._election, job.id))
                # By the mark and not by now: of a clock that was ahead, nothing up to there will ever be due.
                yield from self._passed(job, row, token, mark_ms)
                rows[job.id] = row._replace(mark_ms=mark_ms, schedule=text)
                changed.append(job.id)
        settled = yield from self._settled(token, now_ms)
        return Found(rows, settled, (yield from self._read("AND state = 'pending'")), changed)

    def _passed(self, job: Job, before: JobRow | None, token: int, mark_ms: int) -> Entry[None]:
        """Record that a moment had passed when it was first seen, unless it is or was on record: the job may have had it before.

        It is recorded under our token, by which it is found again if this entry is carried out twice.
        """
        if not isinstance(job.schedule, At) or job.schedule.at_ms > mark_ms:
            return
        key = Key(job.id, job.schedule.at_ms)
        if before is not None and (before.paused or key.scheduled_ms <= before.forgotten_ms):
            return
        detail = f"missed: its time had passed when {'this job was' if before is None else 'it was'} first seen"
        yield from self._insert(key, job, "abandoned", detail, token=token)

    def _settled(self, token: int, now_ms: int) -> Entry[list[Record]]:
        for run in (yield from self._read("AND state = 'running'")):
            if run.token == token:
                continue  # That was this entry, a moment ago.
            again = run.on_loss == "retry" and run.attempt < ATTEMPTS_MAX
            detail = f"the leader with token {run.token} was lost in attempt {run.attempt}"
            state, ended_ms = ("pending", None) if again else ("abandoned", now_ms)
            change = f"UPDATE {RUNS} SET state = ?, token = ?, ended = ?, detail = ? WHERE {_WHICH} AND state = 'running' AND token = ?"  # noqa: S608
            yield Ask(change, (state, token, ended_ms, detail, *self._which(run.key), run.token))
        # Read anew, so that an entry that is carried out twice tells of the same runs.
        return (yield from self._read("AND token = ?", (token,)))

    def scheduled(self, due: Due, jobs: Mapping[str, Job], not_before_ms: Mapping[Key, int]) -> Entry[None]:
        """Record what is due, what was missed, and the marks; but nothing of a job that people have paused meanwhile."""
        rows = yield from self.jobs()
        paused = {job_id for job_id, row in rows.items() if row.paused}
        for key in due.runs:
            if key.job not in paused and not _is_forgotten(key, rows):
                yield from self._insert(key, jobs[key.job], "pending", "", not_before_ms=not_before_ms[key])
        for gap in due.gaps:
            job = jobs[gap.key.job]
            if job.id in paused or _is_forgotten(gap.key, rows):
                continue
            detail = f"missed, and so was what was due since {iso(gap.after_ms)}: catch_up = {job.catch_up}"
            yield from self._insert(gap.key, job, "abandoned", detail)
        for job_id, mark_ms in due.marks.items():
            if job_id in paused:
                continue
            change = f"UPDATE {JOBS} SET mark = ? WHERE election = ? AND job = ? AND mark < ?"  # noqa: S608
            yield Ask(change, (mark_ms, self._election, job_id, mark_ms))

    def begun(self, run: Waiting, token: int, now_ms: int) -> Entry[bool]:
        """Begin a run; False if it is not pending as we know it, or people have paused its job since."""
        attempt = run.attempt + 1
        change = (
            f"UPDATE {RUNS} SET state = 'running', token = ?, attempt = ?, started = ?, ended = NULL, code = NULL, detail = '', tail = '' WHERE {_WHICH} AND ("  # noqa: S608
            f"(state = 'pending' AND attempt = ? AND on_loss = ? AND (origin = 'person' OR NOT EXISTS (SELECT 1 FROM {JOBS} WHERE election = ? AND job = ? AND paused = 1)))"
            "OR (state = 'running' AND token = ? AND attempt = ?))"
        )
        as_known = run.attempt, run.on_loss, self._election, run.key.job
        told = yield Ask(change, (token, attempt, now_ms, *self._which(run.key), *as_known, token, attempt))
        return told.count == 1

    def ended(self, key: Key, token: int, attempt: int, end: Ending) -> Entry[bool]:
        """Record the end of an attempt; False if the run is not as this leader left it."""
        change = (
            f"UPDATE {RUNS} SET state = ?, ended = ?, code = ?, detail = ?, tail = ?, failures = ?, not_before = ? "  # noqa: S608
            f"WHERE {_WHICH} AND token = ? AND attempt = ? AND state IN ('running', ?)"
        )
        values = end.state, end.at_ms, end.code, end.detail, end.tail, end.failures, end.not_before_ms
        told = yield Ask(change, (*values, *self._which(key), token, attempt, end.state))
        return told.count == 1

    def given_up(self, key: Key, detail: str, now_ms: int) -> Entry[bool]:
        """Abandon a run that was not begun."""
        change = f"UPDATE {RUNS} SET state = 'abandoned', ended = ?, detail = ? WHERE {_WHICH} AND attempt = 0 AND state IN ('pending', 'abandoned')"  # noqa: S608
        told = yield Ask(change, (now_ms, detail, *self._which(key)))
        return told.count == 1

    def looked(self, *, at_all: bool) -> Entry[tuple[dict[str, JobRow], list[Record]]]:
        """Read what people may have changed: marks and pauses, and the runs that wait: theirs, or all of them."""
        whose = "" if at_all else "AND origin = 'person'"
        return (yield from self.jobs()), (yield from self._read(f"AND state = 'pending' {whose}"))

    def pruned(self, job_id: str, keep: int) -> Entry[None]:
        """Forget the oldest runs of a job that have ended, and until when.

        One that is later than the mark stays, since its time will come: a clock was ahead then. What people triggered is never due again.
        """
        job = self._election, job_id
        newest = f"SELECT scheduled FROM {RUNS} WHERE election = ? AND job = ? ORDER BY scheduled DESC LIMIT {keep}"  # noqa: S608
        [(kept_ms,)] = (yield Ask(f"SELECT MIN(scheduled) FROM ({newest}) AS kept", job)).rows  # noqa: S608
        row = (yield from self.jobs()).get(job_id)
        if kept_ms is None or row is None:
            return
        old = (
            f"FROM {RUNS} WHERE election = ? AND job = ? AND state IN ('completed', 'failed', 'abandoned') "
            "AND scheduled < ? AND (origin = 'person' OR scheduled <= ?)"
        )
        which = *job, kept_ms, row.mark_ms
        [(last_ms,)] = (yield Ask(f"SELECT MAX(scheduled) {old} AND origin = 'schedule'", which)).rows
        if last_ms is not None:
            change = f"UPDATE {JOBS} SET forgotten = ? WHERE election = ? AND job = ? AND forgotten < ?"  # noqa: S608
            yield Ask(change, (last_ms, *job, last_ms))
        yield Ask(f"DELETE {old}", which)

    # What people do

    def jobs(self) -> Entry[dict[str, JobRow]]:
        """Read what is known of every job that there ever was."""
        select = f"SELECT job, mark, paused, schedule, forgotten, changes FROM {JOBS} WHERE election = ?"  # noqa: S608
        rows = cast("list[tuple[Any, ...]]", (yield Ask(select, (self._election,))).rows)
        return {job: JobRow(mark_ms, bool(paused), *more) for job, mark_ms, paused, *more in rows}

    def runs(self, job_id: str | None, state: str | None, limit: int) -> Entry[list[Record]]:
        """Read the newest runs."""
        where, values = "", []
        for column, value in (("job", job_id), ("state", state)):
            if value is not None:
                where += f"AND {column} = ? "
                values.append(value)
        return (yield from self._read(where, tuple(values), order="scheduled DESC, job", limit=limit))

    def newest(self) -> Entry[dict[str, Record]]:
        """Read the newest run of every job."""
        newest = f"scheduled = (SELECT MAX(scheduled) FROM {RUNS} o WHERE o.election = {RUNS}.election AND o.job = {RUNS}.job)"  # noqa: S608
        return {run.key.job: run for run in (yield from self._read(f"AND {newest}"))}

    def triggered(self, job: Job, now_ms: int) -> Entry[Key]:
        """Have a job run now, whether or not it is paused. Its time is the next millisecond that is no other run's, nor due by schedule."""
        # This keeps others waiting where an insert does not say whether it took place.
        yield from self._known(job, now_ms)
        key = Key(job.id, now_ms)
        while (
            next(job.schedule.after(key.scheduled_ms - 1), None) == key.scheduled_ms
            or (yield Ask(f"SELECT 1 FROM {RUNS} WHERE {_WHICH}", self._which(key))).rows  # noqa: S608
            or not (yield from self._insert(key, job, "pending", "", origin="person"))
        ):
            key = Key(job.id, key.scheduled_ms + 1)
        return key

    def paused(self, job: Job, now_ms: int, *, paused: bool) -> Entry[bool]:
        """Pause or resume a job; return whether that changed anything. What passes while it is paused is not due afterwards.

        It is then due from now on, also if its mark is in the future because a clock was: what was run already is known by its key. But
        it is not due before what is no longer on record.
        """
        yield from self._known(job, now_ms)
        now = int(now_ms)
        mark = "mark" if paused else f"CASE WHEN forgotten > {now} THEN forgotten ELSE {now} END"
        change = f"UPDATE {JOBS} SET mark = {mark}, paused = ?, changes = changes + 1 WHERE election = ? AND job = ? AND paused <> ?"  # noqa: S608
        told = yield Ask(change, (int(paused), self._election, job.id, int(paused)))
        return told.count == 1

    # What both do

    def _known(self, job: Job, now_ms: int) -> Entry[None]:
        columns = "election, job, mark, paused, schedule, forgotten, changes"
        insert = f"INSERT INTO {JOBS} ({columns}) VALUES (?, ?, ?, 0, ?, 0, 0) {self._unless_there}"  # noqa: S608
        yield Ask(insert, (self._election, job.id, now_ms, job.schedule.text))

    def _insert(  # noqa: PLR0913  (three of them have defaults)
        self,
        key: Key,
        job: Job,
        state: State,
        detail: str,
        *,
        origin: Origin = "schedule",
        not_before_ms: int = 0,
        token: int = 0,
    ) -> Entry[bool]:
        """Return False if it was there. MySQL does not say."""
        row: tuple[Any, ...] = (*self._which(key), state, origin, job.on_loss, token, not_before_ms, detail)
        insert = (
            f"INSERT INTO {RUNS} (election, job, scheduled, state, origin, on_loss, token, attempt, failures, not_before, detail, tail) "  # noqa: S608
            f"VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0, ?, ?, '') {self._unless_there}"
        )
        return (yield Ask(insert, row)).count == 1

    def _read(
        self, where: str, values: tuple[Any, ...] = (), *, order: str = "scheduled, job", limit: int = _OPEN_MAX
    ) -> Entry[list[Record]]:
        select = f"SELECT {_COLUMNS} FROM {RUNS} WHERE election = ? {where} ORDER BY {order} LIMIT {limit}"  # noqa: S608
        told = yield Ask(select, (self._election, *values))
        return [Record(Key(row[0], row[1]), *row[2:]) for row in cast("list[tuple[Any, ...]]", told.rows)]

    def _which(self, key: Key) -> tuple[str, str, int]:
        return self._election, key.job, key.scheduled_ms
