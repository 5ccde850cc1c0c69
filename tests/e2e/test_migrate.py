"""``tenure migrate`` as pods start it: many at once, killed at any point, and each step is applied once."""

import json
import random
import re
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from tests.user import at_home

from tenure.testing.engines.processes import wait_for

TENURE = Path(sys.executable).parent / "tenure"
RUNNERS, STEPS, KILLS = 10, 50, 4
PATIENCE_S = 90
# Takes long enough that a runner can be killed inside.
_BUSY = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) SELECT count(*) FROM n"

# Is at work until it is let go, with the transaction of its step open.
_HOLDS = """
import time
from pathlib import Path


def apply(connection):
    connection.execute("CREATE TABLE held (a)")
    Path("begun").touch()
    while not Path("go").exists():
        time.sleep(0.01)
"""


class Stage:
    def __init__(self, folder: Path) -> None:
        self.folder, self.database = folder, folder / "app.db"
        self.started: list[subprocess.Popen[str]] = []
        (folder / "steps").mkdir()

    def write(self, name: str, text: str) -> None:
        (self.folder / "steps" / name).write_text(text)

    def command(self, *more: str) -> list[str]:
        words = ["migrate", "steps", "--database", f"sqlite://{self.database}", "--ttl", "2s", *more]
        return [str(TENURE), *words]

    def start(self) -> "subprocess.Popen[str]":
        output = self.folder / f"out{len(self.started)}"
        with output.open("w") as out, (self.folder / "errors").open("a") as errors:
            process = subprocess.Popen(
                self.command("--json"), cwd=self.folder, env=at_home(self.folder), stdout=out, stderr=errors, text=True
            )
        self.started.append(process)
        return process

    def run(self, *more: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.command(*more), cwd=self.folder, env=at_home(self.folder), capture_output=True, text=True, check=False
        )

    def lines(self, number: int) -> list[str]:
        return (self.folder / f"out{number}").read_text().splitlines()

    def applied(self) -> list[int]:
        """Which steps have left their mark, by what they wrote and not by what was recorded of them."""
        if not self.database.exists():
            return []
        with closing(sqlite3.connect(self.database)) as connection:
            tables = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'mark'").fetchone()
            return [step for (step,) in connection.execute("SELECT step FROM mark")] if tables[0] else []

    def has_applied(self, least: int) -> bool:
        """Whether so many steps have left their mark. Fails if a runner has said before that all have: its program would start."""
        ended = [runner for runner in self.started if runner.poll() == 0]  # Looked at first: steps only become more.
        count = len(self.applied())
        assert not ended or count == STEPS - 1, "who waited has ended too early"
        return count >= least

    def leaders(self) -> list["subprocess.Popen[str]"]:
        """Who has applied a step and lives."""
        lines = [" ".join(self.lines(number)) for number in range(len(self.started))]
        return [
            runner
            for runner, said in zip(self.started, lines, strict=True)
            if "applied" in said and runner.poll() is None
        ]

    def wait_for_leader(self, least: int) -> None:
        """Wait until so many steps have left their mark and somebody goes on, or until all have."""

        def goes_on() -> bool:
            return self.has_applied(least) and (bool(self.leaders()) or self.has_applied(STEPS - 1))

        assert wait_for(goes_on, PATIENCE_S), "nobody goes on"

    def all_have_ended(self) -> bool:
        return all(runner.poll() is not None for runner in self.started)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_runners_that_are_killed_at_any_point_apply_each_step_once_and_nobody_is_told_too_early(stage: Stage) -> None:
    stage.write("0001_mark.sql", "CREATE TABLE mark (step INTEGER)")
    for step in range(2, STEPS + 1):
        stage.write(f"{step:04}_more.sql", f"INSERT INTO mark VALUES ({step}); {_BUSY}")  # noqa: S608
    kills = 0
    for _ in range(RUNNERS):
        stage.start()
    try:
        for number in range(KILLS):
            least = random.randrange(number * STEPS // 5 + 1, (number + 1) * STEPS // 5)
            stage.wait_for_leader(least)
            for leader in stage.leaders():
                leader.send_signal(signal.SIGKILL)
                kills += leader.wait() == -signal.SIGKILL
                stage.start()
        assert wait_for(lambda: stage.has_applied(STEPS - 1) and stage.all_have_ended(), PATIENCE_S), "nobody goes on"
    finally:
        for runner in stage.started:
            runner.kill()
            runner.wait()
    assert sorted(stage.applied()) == list(range(2, STEPS + 1)), (stage.folder / "errors").read_text()
    assert kills >= 2, "nothing was shown"
    codes = Counter(runner.returncode for runner in stage.started)
    assert codes == {0: len(stage.started) - kills, -signal.SIGKILL: kills}, (stage.folder / "errors").read_text()
    told = [json.loads(line) for number in range(len(stage.started)) for line in stage.lines(number)]
    applied = sorted((one for one in told if one["event"] == "applied"), key=lambda one: one["step"])
    tokens = [line["token"] for line in applied]
    assert tokens == sorted(tokens)  # No step was applied by a runner that had been succeeded.
    assert len(set(tokens)) >= kills  # Each that was killed had applied something, and another went on.
    assert stage.run("--status").returncode == 0


def test_a_runner_waits_for_one_that_is_at_work_and_no_longer_than_it_was_told_to(stage: Stage) -> None:
    stage.write("0001_hold.py", _HOLDS)
    first = stage.start()
    assert wait_for((stage.folder / "begun").exists, PATIENCE_S), "nobody has begun"
    answer = stage.run("--wait", "300ms")
    assert (answer.returncode, answer.stdout) == (75, "")
    assert answer.stderr == "tenure migrate: another runner was in office for 0.3 s\n"
    second = stage.start()
    (stage.folder / "go").touch()
    assert (first.wait(PATIENCE_S), second.wait(PATIENCE_S)) == (0, 0)
    told = [json.loads(line) for line in (*stage.lines(0), *stage.lines(1))]
    assert [one.get("applied") for one in told if one["event"] == "up-to-date"] == [1, 0]


def test_a_step_that_was_edited_after_it_was_applied_is_one_line_and_exit_code_2_and_nothing_is_applied(
    stage: Stage,
) -> None:
    stage.write("0001_a.sql", "CREATE TABLE mark (step INTEGER)")
    assert stage.run().returncode == 0
    stage.write("0001_a.sql", "CREATE TABLE mark (step INTEGER, more INTEGER)")
    stage.write("0002_b.sql", "INSERT INTO mark VALUES (2)")
    for more in ((), ("--status",), ("--dry-run",)):
        answer = stage.run(*more)
        assert (answer.returncode, answer.stderr.count("\n")) == (2, 1)
        assert re.search(r"steps = 1 wrong: 1 a: was changed after it was applied at \S+; put it back", answer.stderr)
    assert stage.applied() == []


def test_bad_input_is_one_line_and_applies_nothing(stage: Stage) -> None:
    stage.write("0001_a.sql", "CREATE TABLE mark (step INTEGER)")
    (stage.folder / "steps" / "0002_b.sql").write_bytes(b"\xff\xfe")
    answer = stage.run()
    assert answer.returncode == 2
    assert answer.stderr == "tenure: step = 0002_b.sql: must be UTF-8, and is not at byte 0\n"
    assert not stage.database.exists()


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--settle", "x"), "must be a number and a state"),
        (("--settle", "1=applied"), "is of no step that was begun"),
        (("--status", "--dry-run"), "exclude each other"),
        (("--database", "oracle://db/x"), "must be sqlite:///absolute/path"),
        (("--election", " "), "must be printable"),
    ],
)
def test_options_that_cannot_be_meant_are_one_line(stage: Stage, more: tuple[str, ...], told: str) -> None:
    stage.write("0001_a.sql", "CREATE TABLE mark (step INTEGER)")
    answer = stage.run(*more)
    assert (answer.returncode, answer.stderr.count("\n")) == (2, 1)
    assert told in answer.stderr


def test_a_step_that_fails_is_one_line_and_exit_code_1_and_the_status_says_what_is_pending(stage: Stage) -> None:
    stage.write("0001_a.sql", "CREATE TABLE mark (step INTEGER)")
    stage.write("0002_b.sql", "INSERT INTO nowhere VALUES (1)")
    dry = stage.run("--dry-run")
    assert (dry.returncode, dry.stdout.splitlines()) == (
        0,
        ["would apply 1 a  transaction", "would apply 2 b  transaction"],
    )
    answer = stage.run()
    assert (answer.returncode, answer.stderr) == (1, "tenure migrate: step 2 b failed: no such table: nowhere\n")
    stage.write("0002_b.sql", "SELECT 1")
    stage.write("0003_c.py", "def apply(connection):\n    raise ValueError('two\\nlines')\n")
    told = "tenure migrate: step 3 c failed: ValueError: two lines (0003_c.py, line 2)\n"
    answer = stage.run()
    assert (answer.returncode, answer.stderr) == (1, told)
    status = stage.run("--status", "--json")
    assert status.returncode == 1
    assert [json.loads(line)["state"] for line in status.stdout.splitlines()] == ["applied", "applied", "pending"]
