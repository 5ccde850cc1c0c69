"""A scheduler in office, over a real ledger: what it runs, what it records, and what it leaves to whoever comes after it."""

import asyncio
import sqlite3
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from anyio import to_thread

from tenure.apps.cron import At, Cron, Every, Job, Run
from tenure.apps.cron.calls import Calls
from tenure.apps.cron.jobs import Key, Overlap
from tenure.apps.ledger.opening import open_ledger
from tenure.errors import ConfigError
from tenure.model import Token
from tests.apps.cron_stage import MINUTE_MS, NOON_MS, Stage, has, nothing, play, settled


def test_a_failure_is_tried_again_under_the_same_key_and_then_told(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        attempts: list[tuple[str, int]] = []

        def fail(run: Run) -> None:
            attempts.append((str(run.key), run.attempt))
            raise ValueError("no: postgresql://ada:hunter2@db/books")

        job = Job("j", At(NOON_MS + 1), fail, retries=2, retry_pause_s=0, idempotent=True)
        async with stage.office(job):
            await stage.known("j")
        stage.now_ms += 5
        async with stage.office(job):
            [run] = await stage.until(settled(1))
        assert [attempt for _, attempt in attempts] == [1, 2, 3]
        assert len({key for key, _ in attempts}) == 1
        assert (run.state, run.attempt, run.failures) == ("failed", 3, 3)
        assert run.detail.startswith("ValueError: no")
        assert "in fail" in run.tail
        assert "hunter2" not in run.detail + run.tail

    play(tmp_path, test)


@pytest.mark.parametrize(
    ("work", "settings", "detail"),
    [
        (lambda _: sys.exit(3), {}, "it called sys.exit(3)"),
        (lambda run: nothing(run), {}, "a function that awaits must be declared async"),  # noqa: PLW0108  (it is not async)
        (lambda _: asyncio.sleep(60), {"timeout_s": 0.05}, "took longer than 0.05 s"),
    ],
)
def test_a_function_that_does_what_it_must_not_has_failed(
    tmp_path: Path, work: Any, settings: Any, detail: str
) -> None:
    async def test(stage: Stage) -> None:
        async def awaited(run: Run) -> None:
            await work(run)

        job = Job("j", At(NOON_MS + 1), awaited if settings else work, **settings)
        async with stage.office(job):
            await stage.known("j")
        stage.now_ms += 5
        async with stage.office(job):
            [run] = await stage.until(settled(1))
        assert run.state == "failed"
        assert detail in run.detail

    play(tmp_path, test)


def test_a_function_in_a_thread_is_waited_for_when_its_run_is_cut_short() -> None:
    async def test() -> None:
        here, on = threading.Event(), threading.Event()
        ended: list[str] = []

        def wait(_: Run) -> None:
            here.set()
            on.wait(60)
            ended.append("ended")

        run = Run(Key("j", NOON_MS), 1, cast("Any", None))
        calling = asyncio.create_task(Calls(1).run(wait, run, None))
        await to_thread.run_sync(here.wait)
        calling.cancel()
        for _ in range(50):  # Nothing that it could do needs as many turns of the loop.
            await asyncio.sleep(0)
        assert not calling.done()
        on.set()
        await asyncio.wait([calling])
        assert calling.cancelled()
        assert ended == ["ended"]

    asyncio.run(test())


def test_what_people_trigger_and_pause_is_seen_by_who_is_in_office(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        job = Job("j", Every(MINUTE_MS), nothing)
        async with stage.office(job):
            await stage.known("j")
            assert await stage.ledger.ask(stage.records.paused(job, stage.now_ms, paused=True))
            stage.now_ms += MINUTE_MS
            key = await stage.ledger.ask(stage.records.triggered(job, stage.now_ms + 7))
            stage.now_ms += 10
            [run] = await stage.until(settled(1))
            assert (run.key, run.origin, run.state) == (key, "person", "completed")
            stage.now_ms += MINUTE_MS
            assert await stage.ledger.ask(stage.records.paused(job, stage.now_ms, paused=False))
            stage.now_ms += MINUTE_MS
            runs = await stage.until(settled(2))
        assert sorted(run.key.scheduled_ms for run in runs) == [key.scheduled_ms, NOON_MS + 3 * MINUTE_MS]

    play(tmp_path, test)


@pytest.mark.parametrize("overlap", ["wait", "skip"])
def test_what_people_trigger_of_a_paused_job_is_run_although_an_older_run_waits_to_be_tried_again(
    tmp_path: Path, overlap: Overlap
) -> None:
    async def test(stage: Stage) -> None:
        async def fail_first(run: Run) -> None:
            assert run.key.scheduled_ms != NOON_MS + MINUTE_MS or run.attempt > 1

        job = Job("j", Every(MINUTE_MS), fail_first, overlap=overlap, idempotent=True, retries=1, retry_pause_s=3600)
        async with stage.office(job):
            await stage.known("j")
            stage.now_ms += MINUTE_MS
            await stage.heard("failed")
            assert await stage.ledger.ask(stage.records.paused(job, stage.now_ms, paused=True))
            key = await stage.ledger.ask(stage.records.triggered(job, stage.now_ms + 7))
            stage.now_ms += 10
            runs = await stage.until(has(key, "completed"))
            assert [(run.attempt, run.state) for run in runs if run.key != key] == [(1, "pending")]
            # The older one is not lost by that: it goes on when its job does.
            assert await stage.ledger.ask(stage.records.paused(job, stage.now_ms, paused=False))
            stage.now_ms += 3600_000
            await stage.until(has(Key("j", NOON_MS + MINUTE_MS), "completed"))

    play(tmp_path, test)


def test_nothing_begins_while_it_cannot_be_recorded_and_all_of_it_afterwards(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        begun: list[str] = []

        async def note(run: Run) -> None:
            begun.append(str(run.key))

        def rename(before: str, after: str) -> None:
            with closing(sqlite3.connect(stage.path, timeout=30)) as connection:
                connection.execute(f"ALTER TABLE {before} RENAME TO {after}")
                connection.commit()

        async with stage.office(Job("j", Every(MINUTE_MS), note, catch_up="all")):
            await stage.known("j")
            rename("tenure_cron_run", "away")
            stage.now_ms += 3 * MINUTE_MS
            await stage.heard("no-ledger")
            assert begun == []
            rename("away", "tenure_cron_run")
            await stage.until(settled(3))
        assert len(begun) == 3

    play(tmp_path, test)


def test_a_leader_whose_records_are_refused_says_what_it_leaves_behind_and_its_successor_judges_it(
    tmp_path: Path,
) -> None:
    async def test(stage: Stage) -> None:
        here, on = asyncio.Event(), asyncio.Event()

        async def wait(_: Run) -> None:
            here.set()
            await on.wait()

        jobs = [Job(name, At(NOON_MS + 1), wait, idempotent=name == "again") for name in ("again", "once")]
        async with stage.office(*jobs):
            await stage.known("again", "once")
        stage.now_ms += 5
        async with stage.office(*jobs):
            await here.wait()
            await stage.until(lambda runs: [run.state for run in runs] == ["running"] * 2)
            # Somebody with a larger token has been at the ledger, and our leader does not know it yet.
            await stage.ledger.seal(stage.fence, Token(10**6))
            on.set()
            text = await stage.heard("stale")
            assert [run.state for run in await stage.runs()] == ["running"] * 2
            assert "again@" in text
            assert "once@" in text
            with closing(sqlite3.connect(stage.path, timeout=30)) as connection:  # The next tokens are larger again.
                connection.execute("UPDATE tenure_fence SET highest = 1")
                connection.commit()
            runs = await stage.until(settled(2))
        assert {run.key.job: run.state for run in runs} == {"again": "completed", "once": "abandoned"}

    play(tmp_path, test)


def test_runs_of_one_job_that_may_not_overlap_are_skipped_and_told(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        on = asyncio.Event()

        async def wait(_: Run) -> None:
            await on.wait()

        job = Job("j", Every(MINUTE_MS), wait, overlap="skip", catch_up="all")
        async with stage.office(job):
            await stage.known("j")
            stage.now_ms += 3 * MINUTE_MS
            skipped = ["abandoned", "abandoned", "running"]
            await stage.until(lambda runs: sorted(run.state for run in runs) == skipped)
            on.set()
            runs = await stage.until(settled(3))
        assert sorted(run.attempt for run in runs) == [0, 0, 1]

    play(tmp_path, test)


def test_who_drains_begins_nothing_and_does_not_keep_the_machine_busy(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        here, on = asyncio.Event(), asyncio.Event()

        async def wait(_: Run) -> None:
            here.set()
            await on.wait()

        job = Job("j", Every(MINUTE_MS), wait, overlap="allow", catch_up="all")
        async with stage.office(job, max_parallel=1) as cron:
            await stage.known("j")
            stage.now_ms += 3 * MINUTE_MS
            await here.wait()
            cron.drain()
            stage.now_ms += 3 * MINUTE_MS
            began_s = time.process_time()
            await asyncio.sleep(0.5)
            assert time.process_time() - began_s < 0.2
            on.set()
        assert sorted(run.state for run in await stage.runs()) == ["completed", "pending", "pending"]

    play(tmp_path, test)


def test_jobs_that_do_not_fit_together_are_refused() -> None:
    job = Job("j", Every(1000), nothing)
    with pytest.raises(ConfigError, match="is that of two jobs"):
        Cron(open_ledger("sqlite:///nowhere/x.db"), [job, job])
    with pytest.raises(ConfigError, match="needs a process of its own"):
        Cron(open_ledger("sqlite:///nowhere/x.db"), [Job("c", Every(1000), ("true",))])
    with pytest.raises(ConfigError, match="max_parallel = 0: must be from 1 to 1000"):
        Cron(open_ledger("sqlite:///nowhere/x.db"), [job], max_parallel=0)
