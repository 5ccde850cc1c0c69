"""What a scheduler does about time that has passed, or that never was: clocks that were set, and hours without a leader."""

from pathlib import Path

from tenure.apps.cron import At, Every, Job
from tenure.apps.cron.due import jitter_ms
from tenure.apps.cron.jobs import Key
from tenure.apps.cron.schedule import iso
from tenure.apps.ledger.base import Entry
from tests.apps.cron_stage import MINUTE_MS, NOON_MS, Noting, Stage, has, nothing, play, settled


def test_what_was_due_while_nobody_was_in_office_is_run_as_each_job_says(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        noting = Noting()
        jobs = [
            Job("all", Every(MINUTE_MS), noting.work, catch_up="all"),
            Job("few", Every(MINUTE_MS), noting.work, catch_up="all", catch_up_limit=2),
            Job("latest", Every(MINUTE_MS), noting.work),
            Job("skip", Every(MINUTE_MS), noting.work, catch_up="skip", catch_up_within_s=5),
        ]
        await stage.see_first(*jobs)
        stage.now_ms += 10 * MINUTE_MS + 30_000
        async with stage.office(*jobs):
            await stage.until(settled(10 + 2 + 1 + 3))
        assert noting.times_ms("all") == [NOON_MS + n * MINUTE_MS for n in range(1, 11)]
        assert noting.times_ms("few") == [NOON_MS + n * MINUTE_MS for n in (9, 10)]
        assert noting.times_ms("latest") == [NOON_MS + 10 * MINUTE_MS]
        assert noting.times_ms("skip") == []
        missed = {run.key.job: run.detail for run in await stage.runs() if run.state == "abandoned"}
        assert set(missed) == {"few", "latest", "skip"}
        assert len([event for event, _ in stage.told.events if event == "missed"]) == 3

    play(tmp_path, test)


def test_a_clock_that_goes_back_runs_nothing_twice(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        jobs = [Job("j", Every(MINUTE_MS), nothing, catch_up="all")]
        await stage.see_first(*jobs)
        for minute in (3, 1, 2, 4):
            stage.now_ms = NOON_MS + minute * MINUTE_MS
            async with stage.office(*jobs):
                await stage.until(settled(max(3, minute)))
        assert len(await stage.runs()) == 4
        assert {run.attempt for run in await stage.runs()} == {1}

    play(tmp_path, test)


async def _run_ahead(stage: Stage) -> Job:
    """Have a job run by a clock that is ahead, and set the clock right."""
    job = Job("j", Every(MINUTE_MS), nothing)
    await stage.see_first(job)
    stage.now_ms += 1000 * MINUTE_MS
    async with stage.office(job):
        await stage.until(settled(2))  # the latest, and what was missed before it
    stage.now_ms = NOON_MS + 5 * MINUTE_MS
    return job


def test_a_clock_that_was_ahead_is_told_of_and_its_job_is_due_again_once_it_was_resumed(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        job = await _run_ahead(stage)
        async with stage.office(job):
            assert "pause and resume it" in await stage.heard("clock")
            await stage.resume(job)
        stage.now_ms += MINUTE_MS
        async with stage.office(job):
            runs = await stage.until(settled(3))
        assert {run.key.scheduled_ms for run in runs} >= {NOON_MS + 6 * MINUTE_MS}

    play(tmp_path, test)


def test_a_pause_and_a_resume_between_two_looks_have_a_job_due_from_then_on(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        job = await _run_ahead(stage)
        async with stage.office(job):
            await stage.heard("clock")

            def at_once() -> Entry[list[bool]]:  # one transaction: nobody sees the pause
                paused = yield from stage.records.paused(job, stage.now_ms, paused=True)
                return [paused, (yield from stage.records.paused(job, stage.now_ms, paused=False))]

            assert await stage.ledger.ask(at_once()) == [True, True]
            stage.now_ms += MINUTE_MS
            runs = await stage.until(settled(3))
        assert {run.key.scheduled_ms for run in runs} >= {NOON_MS + 6 * MINUTE_MS}

    play(tmp_path, test)


def test_a_clock_that_was_ahead_for_long_is_told_of_with_what_helps(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        job = Job("j", Every(MINUTE_MS), nothing, catch_up="all", catch_up_limit=150)
        await stage.see_first(job)
        stage.now_ms += 150 * MINUTE_MS
        async with stage.office(job, history=10):
            await stage.until(lambda runs: settled(len(runs))(runs) and 0 < len(runs) < 100)
        before = {run.key for run in await stage.runs()}
        stage.now_ms = NOON_MS
        async with stage.office(job, history=10):
            told = await stage.heard("clock")
            row = (await stage.ledger.ask(stage.records.jobs()))["j"]
            assert NOON_MS < row.forgotten_ms < row.mark_ms
            assert f"pause and resume it to have it due from {iso(row.forgotten_ms)} on" in told
            await stage.resume(job)
        stage.told.events.clear()
        async with stage.office(job, history=10):
            assert "only another id has it due sooner" in await stage.heard("clock")
        stage.now_ms = NOON_MS + 151 * MINUTE_MS
        async with stage.office(job, history=1000):
            runs = await stage.until(settled(len(before) + 1))
        assert {run.key for run in runs} - before == {Key("j", NOON_MS + 151 * MINUTE_MS)}
        assert {run.attempt for run in runs} == {1}

    play(tmp_path, test)


def test_a_run_with_jitter_does_not_begin_before_its_time(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        key = Key("later", NOON_MS + MINUTE_MS)
        late_ms = jitter_ms(key, MINUTE_MS)
        assert 1000 < late_ms < MINUTE_MS - 1000
        jobs = [
            Job("later", At(key.scheduled_ms), nothing, jitter_s=60),
            Job("tick", Every(100), nothing, catch_up="all", catch_up_limit=1),
        ]

        async def tick(at_ms: int) -> None:
            """Return when what is due by then has begun, and what became due with it has had the chance to."""
            for more_ms in (0, 100):
                stage.now_ms = (at_ms + more_ms) // 100 * 100
                await stage.until(has(Key("tick", stage.now_ms), "completed"))

        async with stage.office(*jobs):
            await stage.known("later", "tick")
            await tick(key.scheduled_ms)
            await tick(key.scheduled_ms + late_ms - 200)
            [early] = [run for run in await stage.runs() if run.key == key]
            assert (early.state, early.attempt, early.not_before_ms) == ("pending", 0, key.scheduled_ms + late_ms)
            stage.now_ms = key.scheduled_ms + late_ms - 1
            await stage.ledger.ask(stage.records.triggered(jobs[1], stage.now_ms))
            await stage.until(lambda runs: any(run.origin == "person" and run.state == "completed" for run in runs))
            stage.now_ms += 1
            runs = await stage.until(has(key, "completed"))
        [run] = [run for run in runs if run.key == key]
        assert run.started_ms == key.scheduled_ms + late_ms

    play(tmp_path, test)


def test_a_moment_that_was_moved_and_has_passed_is_told_as_missed(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        noting = Noting()
        await stage.see_first(Job("move", At(NOON_MS + MINUTE_MS), noting.work))
        stage.now_ms += 3 * MINUTE_MS
        moved = Key("move", NOON_MS + 2 * MINUTE_MS)
        async with stage.office(Job("move", At(moved.scheduled_ms), noting.work)):
            assert await stage.heard("missed") == f"{moved} is missed: its time had passed when it was first seen"
            told = await stage.heard("changed")
        assert told == f"move is now due at {iso(moved.scheduled_ms)}, which has passed"
        [run] = await stage.runs()
        assert (run.key, run.state, run.attempt) == (moved, "abandoned", 0)
        stage.told.events.clear()
        async with stage.office(Job("move", At(NOON_MS + 4 * MINUTE_MS), noting.work)):
            assert (await stage.heard("changed")).endswith(", from here on")
            stage.now_ms += MINUTE_MS
            await stage.until(lambda runs: any(run.state == "completed" for run in runs))
        assert noting.seen == [Key("move", NOON_MS + 4 * MINUTE_MS)]
        assert not [event for event, _ in stage.told.events if event == "missed"]

    play(tmp_path, test)


def test_a_moment_that_had_passed_when_its_job_was_first_seen_is_told_as_missed(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        async with stage.office(Job("old", At(NOON_MS - MINUTE_MS), nothing)):
            told = await stage.heard("missed")
        assert told == f"old@{iso(NOON_MS - MINUTE_MS)} is missed: its time had passed when this job was first seen"
        assert [run.state for run in await stage.runs()] == ["abandoned"]

    play(tmp_path, test)
