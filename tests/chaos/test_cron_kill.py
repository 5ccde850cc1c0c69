"""Schedulers that are killed and frozen again and again run every job at every time: once in the ledger, and no run twice that must not be.

It takes 30 s of a schedule by default. ``TENURE_CRON_CHAOS_S=180`` plays three minutes, and ``TENURE_CRON_CHAOS_LEDGER=postgresql://…`` has the
record, and the election, in another database.
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from tenure.apps.cron.records import is_made
from tenure.apps.ledger.base import Entry, Ledger
from tenure.apps.ledger.opening import open_ledger
from tenure.sinks.sql.talk import Ask
from tenure.testing.engines.processes import wait_for
from tests.user import at_home

TENURE = Path(sys.executable).parent / "tenure"
LEDGER = os.environ.get("TENURE_CRON_CHAOS_LEDGER")
LENGTH_S = float(os.environ.get("TENURE_CRON_CHAOS_S", "30"))
SCHEDULERS, JOBS = 3, 20
TTL_S = 2.0
PATIENCE_S = 90
EVERY_S = (3, 4, 5)
# Appended whole, in the order in which things happened, by the jobs themselves.
EFFECT = 'echo "$TENURE_RUN $TENURE_ATTEMPT began" >> effects; sleep 0.4; echo "$TENURE_RUN $TENURE_ATTEMPT ended" >> effects'


class Stage:
    def __init__(self, folder: Path) -> None:
        self.folder, self.ledger = folder, LEDGER or f"sqlite://{folder}/ledger.db"
        self.store = LEDGER or f"sqlite://{folder}/store.db"
        self.every_s = {f"{'again' if number % 2 else 'once'}/{number}": EVERY_S[number % 3] for number in range(JOBS)}
        lines = [f'ledger = "{self.ledger}"', "history = 100000"]
        for job, every_s in self.every_s.items():
            lines += ["[[job]]", f'id = "{job}"', f'every = "{every_s}s"', f"command = '{EFFECT}'", 'catch_up = "all"']
            lines += [f"idempotent = {str(job.startswith('again')).lower()}", f'jitter = "{int(job[-1]) % 3 * 300}ms"']
        (folder / "crontab.toml").write_text("\n".join(lines))
        self.started: list[subprocess.Popen[str]] = []

    def start(self) -> None:
        command = [
            str(TENURE),
            "cron",
            "crontab.toml",
            "--store",
            self.store,
            "--json",
            "--ttl",
            f"{TTL_S}s",
        ]
        with (self.folder / f"said{len(self.started)}").open("w") as said:
            process = subprocess.Popen(command, cwd=self.folder, env=at_home(self.folder), stderr=said, text=True)
        self.started.append(process)

    def said(self, number: int) -> list[dict[str, object]]:
        lines = (self.folder / f"said{number}").read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def leader(self) -> int | None:
        """The process that was elected last, if it lives."""
        tokens = {
            line["token"]: number
            for number in range(len(self.started))
            for line in self.said(number)
            if line["event"] == "elected"
        }
        last = tokens[max(tokens)] if tokens else None  # type: ignore[type-var]
        return last if last is not None and self.started[last].poll() is None else None

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        async def ask() -> list[tuple[Any, ...]]:
            ledger = open_ledger(self.ledger)
            try:
                return await ledger.look(_rows(ledger, sql)) or []
            finally:
                await ledger.close()

        return asyncio.run(ask())

    def is_settled(self, until_ms: int) -> bool:
        """Whether all that was due by then has been dealt with."""
        marks: dict[str, int] = dict(self.rows("SELECT job, mark FROM tenure_cron_job"))
        behind = [job for job, every_s in self.every_s.items() if marks[job] + every_s * 1000 <= until_ms]
        return not behind and self.rows(
            f"SELECT count(*) FROM tenure_cron_run WHERE scheduled <= {until_ms} AND state IN ('pending', 'running')"  # noqa: S608
        ) == [(0,)]

    def effects(self) -> dict[str, list[tuple[str, str]]]:
        """What each run has left behind, in its order: attempts, and whether they began or ended."""
        found = defaultdict(list)
        for line in (self.folder / "effects").read_text().splitlines():
            run, attempt, what = line.split()
            found[run].append((attempt, what))
        return found


def _rows(ledger: Ledger, sql: str) -> Entry[list[tuple[Any, ...]]]:
    if not (yield from is_made(ledger)):
        return []
    return (yield Ask(sql)).rows


@pytest.fixture
def stage(tmp_path: Path) -> "Stage":
    return Stage(tmp_path)


@pytest.mark.timeout(LENGTH_S + 3 * PATIENCE_S)
def test_every_time_of_every_job_is_run_whoever_is_killed_or_frozen(stage: Stage) -> None:
    draw = random.Random(seed := random.randrange(2**32))
    struck: Counter[str] = Counter()
    try:
        for _ in range(SCHEDULERS):
            stage.start()
        assert wait_for(lambda: len(stage.rows("SELECT 1 FROM tenure_cron_job")) == JOBS, PATIENCE_S)
        until_s = time.monotonic() + LENGTH_S
        while time.monotonic() < until_s:
            time.sleep(draw.uniform(1.5, 4.0))
            struck[_strike(stage, draw)] += 1
        until_ms = time.time_ns() // 1_000_000
        assert wait_for(lambda: stage.is_settled(until_ms), PATIENCE_S), (seed, stage.folder)
        for process in stage.started:
            process.terminate()
        assert {process.wait(PATIENCE_S) for process in stage.started} <= {0, 128 + signal.SIGTERM, -signal.SIGKILL}
    finally:
        for process in stage.started:
            process.kill()
            process.wait()
    _check(stage, until_ms)
    print(f"seed {seed}: {dict(struck)}, {_told(stage)}")
    assert struck["killed"] + struck["frozen"] >= LENGTH_S / 10


def _strike(stage: Stage, draw: random.Random) -> str:
    leader = stage.leader()
    if leader is None:
        return "nobody"
    process = stage.started[leader]
    if draw.random() < 0.5:
        process.kill()
        process.wait()
        stage.start()
        return "killed"
    process.send_signal(signal.SIGSTOP)
    time.sleep(draw.uniform(0.5, 2 * TTL_S))  # Some are awake again before anybody has noticed.
    process.send_signal(signal.SIGCONT)
    return "frozen"


def _check(stage: Stage, until_ms: int) -> None:
    rows = stage.rows(f"SELECT job, scheduled, state, attempt FROM tenure_cron_run WHERE scheduled <= {until_ms}")  # noqa: S608
    states = {(job, scheduled): state for job, scheduled, state, _ in rows}
    assert len(states) == len(rows)
    effects = stage.effects()
    for job, every_s in stage.every_s.items():
        first_ms = min(scheduled for one, scheduled, _, _ in rows if one == job)
        due = range(first_ms, until_ms + 1, every_s * 1000)
        assert len(due) >= LENGTH_S / every_s - 2
        assert [at_ms for at_ms in due if (job, at_ms) not in states] == []  # None is missing.
        for at_ms in due:
            run = f"{job}@{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(at_ms / 1000))}"
            began = [attempt for attempt, what in effects[run] if what == "began"]
            ended = [attempt for attempt, what in effects[run] if what == "ended"]
            story = (run, states[job, at_ms], effects[run])
            if job.startswith("again"):
                assert states[job, at_ms] == "completed", story
                assert ended, story
                # An attempt that was cut short has done nothing after the next one began.
                attempts = [int(attempt) for attempt, _ in effects[run]]
                assert attempts == sorted(attempts), story
            else:
                assert states[job, at_ms] in ("completed", "abandoned"), story
                assert len(began) <= 1, story
                assert (states[job, at_ms] == "completed") <= (began == ended == ["1"]), story


def _told(stage: Stage) -> dict[object, int]:
    return dict(Counter(line["event"] for number in range(len(stage.started)) for line in stage.said(number)))
