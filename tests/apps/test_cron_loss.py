"""A run that was begun goes on until it has ended, as its own policy says: whoever comes next, whatever else is due, and whatever the file says."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tenure.apps.cron import At, Every, Job, Run
from tenure.apps.cron.jobs import Key, OnLoss
from tenure.apps.cron.outcome import Outcome, ending
from tenure.apps.cron.queue import Waiting
from tenure.apps.cron.records import Record
from tests.apps.cron_stage import MINUTE_MS, NOON_MS, Stage, has, nothing, play, settled

FIRST, SECOND, THIRD = (Key("j", NOON_MS + number * MINUTE_MS) for number in (1, 2, 3))
# What becomes of the two that are due while the first has begun and not ended: how they are begun, and how they end.
OTHERS = pytest.mark.parametrize(
    ("overlap", "begun", "end"),
    [("skip", [], ("abandoned", 0)), ("wait", [(SECOND, 1), (THIRD, 1)], ("completed", 1))],
)


class Work:
    """What a job does: the first attempt of the first run waits to be lost, or fails. All others end well."""

    def __init__(self, *, fails: bool) -> None:
        self.fails, self.begun = fails, list[tuple[Key, int]]()

    async def run(self, run: Run) -> None:
        self.begun.append((run.key, run.attempt))
        if run.key == FIRST and run.attempt == 1:
            if self.fails:
                raise ValueError("the first time, always")
            await asyncio.Event().wait()

    def job(self, **settings: Any) -> Job:
        return Job("j", Every(MINUTE_MS), self.run, idempotent=True, catch_up="all", **settings)


def states(runs: list[Record]) -> dict[Key, tuple[str, int]]:
    return {run.key: (run.state, run.attempt) for run in runs}


@OTHERS
def test_a_successor_begins_a_lost_run_again_before_what_has_become_due_since(
    tmp_path: Path, overlap: str, begun: list[tuple[Key, int]], end: tuple[str, int]
) -> None:
    async def test(stage: Stage) -> None:
        work = Work(fails=False)
        job = work.job(overlap=overlap)
        async with stage.office(job, is_lost=True):
            await stage.known("j")
            stage.now_ms += MINUTE_MS
            await stage.until(has(FIRST, "running"))
        stage.now_ms += 2 * MINUTE_MS
        async with stage.office(job):
            runs = await stage.until(settled(3))
        assert work.begun == [(FIRST, 1), (FIRST, 2), *begun]
        assert states(runs) == {FIRST: ("completed", 2), SECOND: end, THIRD: end}
        assert f"{FIRST} is begun again" in await stage.heard("retry")

    play(tmp_path, test)


@OTHERS
@pytest.mark.parametrize("is_handed_on", [False, True])
def test_a_run_that_failed_is_tried_again_although_others_of_its_job_became_due_in_its_pause(
    tmp_path: Path, overlap: str, begun: list[tuple[Key, int]], end: tuple[str, int], *, is_handed_on: bool
) -> None:
    async def test(stage: Stage) -> None:
        work = Work(fails=True)
        job = work.job(overlap=overlap, retries=1, retry_pause_s=150)

        async def go_on() -> None:
            stage.now_ms += 2 * MINUTE_MS
            await stage.until(lambda runs: states(runs).keys() >= {SECOND, THIRD})
            if overlap == "skip":
                await stage.until(settled(2))
            assert states(await stage.runs())[FIRST] == ("pending", 1)
            stage.now_ms = FIRST.scheduled_ms + 150_000
            await stage.until(settled(3))

        async with stage.office(job):
            await stage.known("j")
            stage.now_ms += MINUTE_MS
            await stage.heard("failed")
            if not is_handed_on:
                await go_on()
        if is_handed_on:
            async with stage.office(job):
                await go_on()
        assert work.begun == [(FIRST, 1), (FIRST, 2), *begun]
        assert states(await stage.runs()) == {FIRST: ("completed", 2), SECOND: end, THIRD: end}

    play(tmp_path, test)


def test_a_pause_that_a_clock_ahead_has_set_takes_no_longer_than_it_should(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        on = asyncio.Event()

        async def fail_once(run: Run) -> None:
            if run.attempt == 1:
                await on.wait()
                raise ValueError("once")

        job = Job("j", At(FIRST.scheduled_ms), fail_once, idempotent=True, retries=1, retry_pause_s=30)
        async with stage.office(job):
            await stage.known("j")
            stage.now_ms += MINUTE_MS
            await stage.until(has(FIRST, "running"))
            stage.now_ms += 100_000 * MINUTE_MS
            on.set()
            await stage.heard("failed")
        stage.now_ms = FIRST.scheduled_ms

        def later(runs: list[Record]) -> bool:
            stage.now_ms += 1000
            return has(FIRST, "completed")(runs)

        async with stage.office(job):
            [run] = await stage.until(later)
        assert run.attempt == 2
        assert run.started_ms is not None
        assert run.started_ms < NOON_MS + 100_000 * MINUTE_MS

    play(tmp_path, test)


def test_a_lost_run_that_this_leader_does_not_begin_is_not_told_as_begun_again(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        job = Work(fails=False).job()
        async with stage.office(job, is_lost=True):
            await stage.known("j")
            stage.now_ms += MINUTE_MS
            await stage.until(has(FIRST, "running"))
        async with stage.office(Job("other", Every(MINUTE_MS), nothing)):
            assert (await stage.heard("retry")).startswith(f"{FIRST} waits for a leader whose file has its job: ")
        assert states(await stage.runs()) == {FIRST: ("pending", 1)}

    play(tmp_path, test)


# What a run says itself, against what the file of who is in office says


class Failing:
    """One run that fails every time, of a job of which there are two files. In the first it is to be begun once; in the other, again."""

    def __init__(self) -> None:
        self.attempts: list[int] = []
        self.once = Job("j", At(FIRST.scheduled_ms), self._fail)
        self.again = Job("j", At(FIRST.scheduled_ms), self._fail, idempotent=True, retries=1, retry_pause_s=0)

    async def _fail(self, run: Run) -> None:
        self.attempts.append(run.attempt)
        raise ValueError("every time")

    async def leave_pending(self, stage: Stage) -> None:
        """Have it scheduled by a leader that is lost before there is room for it."""

        async def wait(_: Run) -> None:
            await asyncio.Event().wait()

        before = Job("before", At(FIRST.scheduled_ms - 1), wait)
        async with stage.office(self.once, before, max_parallel=1, is_lost=True):
            await stage.known("j", "before")
            stage.now_ms += MINUTE_MS
            await stage.until(has(FIRST, "pending"))


def test_a_run_that_was_to_begin_once_is_not_tried_again_by_a_file_that_says_so(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        failing = Failing()
        await failing.leave_pending(stage)
        async with stage.office(failing.again):
            runs = await stage.until(settled(2))
        assert failing.attempts == [1]
        assert states(runs)[FIRST] == ("failed", 1)

    play(tmp_path, test)


def test_a_run_that_is_due_anew_goes_by_what_was_recorded_of_it_first(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        failing = Failing()
        await failing.leave_pending(stage)
        assert await stage.ledger.ask(stage.records.paused(failing.once, stage.now_ms, paused=True))
        other = Job("other", Every(MINUTE_MS), nothing)
        async with stage.office(failing.again, other):
            # It has looked at all that waits, and will not again for a while.
            looked = await stage.ledger.ask(stage.records.triggered(other, stage.now_ms + 1))
            stage.now_ms += 10
            await stage.until(has(looked, "completed"))
            # By somebody whose clock is behind. Its time is due again, while the run of that time still waits.
            assert await stage.ledger.ask(stage.records.paused(failing.once, NOON_MS, paused=False))
            runs = await stage.until(settled(3))
        assert failing.attempts == [1]
        assert states(runs)[FIRST] == ("failed", 1)

    play(tmp_path, test)


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize(
    ("on_loss", "outcome", "failures", "state"),
    [
        ("retry", Outcome("frozen", cut_short=True), 0, "pending"),
        ("abandon", Outcome("frozen", cut_short=True), 0, "abandoned"),
        ("abandon", Outcome("exited with 1", 1), 0, "failed"),
        ("retry", Outcome("exited with 1", 1), 3, "failed"),
        ("retry", Outcome(), 0, "completed"),
        ("abandon", Outcome(), 0, "completed"),
    ],
)
def test_whether_a_run_is_begun_again_is_for_the_run_to_say(
    on_loss: OnLoss, outcome: Outcome, failures: int, state: str, *, idempotent: bool
) -> None:
    job = Job("j", Every(1000), nothing, idempotent=idempotent, retries=2 if idempotent else 0)
    end = ending(job, Waiting(FIRST, 0, on_loss, 1, failures), outcome, NOON_MS)
    assert end.state == state
