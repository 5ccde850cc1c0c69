"""What a scheduler does about time that has passed, or that never was: clocks that were set, and hours without a leader."""

from pathlib import Path

from tenure.apps.cron import Every, Job, Run
from tenure.apps.cron.jobs import Key
from tenure.apps.cron.schedule import iso
from tenure.apps.ledger.base import Entry
from tests.apps.cron_stage import MINUTE_MS, NOON_MS, Stage, nothing, play, settled


def test_what_was_due_while_nobody_was_in_office_is_run_as_each_job_says(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        seen: list[Key] = []

        async def note(run: Run) -> None:
            seen.append(run.key)

        jobs = [
            Job("all", Every(MINUTE_MS), note, catch_up="all"),
            Job("few", Every(MINUTE_MS), note, catch_up="all", catch_up_limit=2),
            Job("latest", Every(MINUTE_MS), note),
            Job("skip", Every(MINUTE_MS), note, catch_up="skip", catch_up_within_s=5),
        ]
        async with stage.office(*jobs):
            await stage.known("all", "few", "latest", "skip")
        stage.now_ms += 10 * MINUTE_MS + 30_000
        async with stage.office(*jobs):
            await stage.until(settled(10 + 2 + 1 + 3))
        assert [key for key in seen if key.job == "all"] == [Key("all", NOON_MS + n * MINUTE_MS) for n in range(1, 11)]
        assert [key.scheduled_ms for key in seen if key.job == "few"] == [NOON_MS + n * MINUTE_MS for n in (9, 10)]
        assert [key.scheduled_ms for key in seen if key.job == "latest"] == [NOON_MS + 10 * MINUTE_MS]
        assert [key.scheduled_ms for key in seen if key.job == "skip"] == []
        missed = {run.key.job: run.detail for run in await stage.runs() if run.state == "abandoned"}
        assert set(missed) == {"few", "latest", "skip"}
        assert len([event for event, _ in stage.told.events if event == "missed"]) == 3

    play(tmp_path, test)


def test_a_clock_that_goes_back_runs_nothing_twice(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        jobs = [Job("j", Every(MINUTE_MS), nothing, catch_up="all")]
        async with stage.office(*jobs):
            await stage.known("j")
        for minute in (3, 1, 2, 4):
            stage.now_ms = NOON_MS + minute * MINUTE_MS
            async with stage.office(*jobs):
                await stage.until(settled(max(3, minute)))
        assert len(await stage.runs()) == 4
        assert {run.attempt for run in await stage.runs()} == {1}

    play(tmp_path, test)


def test_a_clock_that_was_ahead_is_told_of_and_its_job_is_due_again_once_it_was_resumed(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        job = Job("j", Every(MINUTE_MS), nothing)
        async with stage.office(job):
            await stage.known("j")
        stage.now_ms += 1000 * MINUTE_MS
        async with stage.office(job):
            await stage.until(settled(2))  # the latest, and what was missed before it
        stage.now_ms = NOON_MS + 5 * MINUTE_MS
        async with stage.office(job):
            assert "pause and resume it" in await stage.heard("clock")
            for paused in (True, False):
                assert await stage.ledger.ask(stage.records.paused(job, stage.now_ms, paused=paused))
        stage.now_ms += MINUTE_MS
        async with stage.office(job):
            runs = await stage.until(settled(3))
        assert {run.key.scheduled_ms for run in runs} >= {NOON_MS + 6 * MINUTE_MS}

    play(tmp_path, test)


def test_a_pause_and_a_resume_between_two_looks_have_a_job_due_from_then_on(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        job = Job("j", Every(MINUTE_MS), nothing)
        async with stage.office(job):
            await stage.known("j")
        stage.now_ms += 1000 * MINUTE_MS
        async with stage.office(job):
            await stage.until(settled(2))
        stage.now_ms = NOON_MS + 5 * MINUTE_MS
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
        async with stage.office(job):
            await stage.known("j")
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
            for paused in (True, False):
                assert await stage.ledger.ask(stage.records.paused(job, stage.now_ms, paused=paused))
        stage.told.events.clear()
        async with stage.office(job, history=10):
            assert "only another id has it due sooner" in await stage.heard("clock")
        stage.now_ms = NOON_MS + 151 * MINUTE_MS
        async with stage.office(job, history=1000):
            runs = await stage.until(settled(len(before) + 1))
        assert {run.key for run in runs} - before == {Key("j", NOON_MS + 151 * MINUTE_MS)}
        assert {run.attempt for run in runs} == {1}

    play(tmp_path, test)
