"""``tenure cron`` as people use it: a scheduler, and the commands that ask of its jobs."""

import json
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.processes import freeze
from tests.user import at_home

from tenure.testing.engines.processes import wait_for

TENURE = Path(sys.executable).parent / "tenure"
PATIENCE_S = 60
QUICK = '[[job]]\nid = "quick"\nevery = "200ms"\ncatch_up = "all"\ncommand = \'echo "$TENURE_RUN $TENURE_ATTEMPT $TENURE_TOKEN"\'\n'


class Stage:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[str]] = []
        kept = folder / ".local" / "state" / "tenure"
        self.elections, self.ledger = kept / "tenure.db", kept / "tenure-cron.db"

    def write(self, text: str, name: str = "crontab.toml") -> None:
        (self.folder / name).write_text(text)

    def start(self, *more: str) -> "subprocess.Popen[str]":
        command = [str(TENURE), "cron", "crontab.toml", "--ttl", "2s", "--json", *more]
        with (self.folder / f"said{len(self.started)}").open("w") as said:
            process = subprocess.Popen(command, cwd=self.folder, env=at_home(self.folder), stderr=said, text=True)
        self.started.append(process)
        return process

    def said(self, number: int = 0) -> list[dict[str, Any]]:
        text = (self.folder / f"said{number}").read_text()
        return [json.loads(line) for line in text.splitlines() if line.endswith("}")]

    def ask(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [str(TENURE), "cron", *words],
            cwd=self.folder,
            env=at_home(self.folder),
            capture_output=True,
            text=True,
            check=False,
        )

    def runs(self, *more: str) -> list[dict[str, Any]]:
        answer = self.ask("runs", "crontab.toml", "--json", "--limit", "1000", *more)
        assert answer.returncode == 0, answer.stderr
        return [json.loads(line) for line in answer.stdout.splitlines()]

    def recorded(self) -> list[dict[str, Any]]:
        """The same as ``runs``, at once: for whoever asks again and again."""
        with closing(sqlite3.connect(f"file:{self.ledger}?mode=rw", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute("SELECT * FROM tenure_cron_run")]

    def until(self, condition: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        def holds() -> bool:
            try:
                return condition(self.recorded())
            except sqlite3.OperationalError:  # It is not there yet.
                return False

        assert wait_for(holds, PATIENCE_S), self.runs()
        return self.runs()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    for process in made.started:
        process.kill()
        process.wait()


def test_jobs_run_when_they_are_due_and_people_see_change_and_stop_that(stage: Stage) -> None:
    stage.write(
        QUICK + '[[job]]\nid = "bad"\nat = 2020-01-01T00:00:00Z\ncommand = ["sh", "-c", "echo why >&2; exit 3"]\n'
        '[[job]]\nid = "long"\nat = 2020-01-01T00:00:00Z\ncommand = "sleep 60 & wait"\ntimeout = "300ms"\n'
    )
    assert stage.ask("list", "crontab.toml").returncode == 0
    process = stage.start()
    done = stage.until(lambda runs: len([run for run in runs if run["state"] == "completed"]) >= 3)
    first = next(run for run in done if run["state"] == "completed")
    assert first["tail"] == f"{first['run']} 1 1\n"
    assert (first["code"], first["token"], first["origin"]) == (0, 1, "schedule")

    assert stage.ask("pause", "crontab.toml", "quick").stdout == "paused quick\n"
    assert stage.ask("pause", "crontab.toml", "quick").stdout == "quick is paused already\n"
    for job in ("bad", "long"):
        assert stage.ask("trigger", "crontab.toml", job).returncode == 0
    stage.until(lambda runs: len([run for run in runs if run["state"] == "failed"]) == 2)
    ended = {run["job"]: run for run in stage.runs("--state", "failed")}
    assert (ended["bad"]["code"], ended["bad"]["detail"], ended["bad"]["tail"]) == (3, "exited with 3", "why\n")
    assert (ended["long"]["detail"], ended["long"]["origin"]) == ("took longer than 0.3 s", "person")
    count = len(stage.runs("--job", "quick"))
    listed = [json.loads(line) for line in stage.ask("list", "crontab.toml", "--json").stdout.splitlines()]
    assert [(job["job"], job["paused"]) for job in listed] == [("quick", True), ("bad", False), ("long", False)]
    assert len(stage.runs("--job", "quick")) == count
    assert stage.ask("resume", "crontab.toml", "quick").stdout == "resumed quick\n"
    stage.until(lambda runs: len([run for run in runs if run["job"] == "quick"]) > count)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0
    assert not [run for run in stage.runs() if run["state"] == "running"]


def test_a_scheduler_that_is_told_to_stop_waits_for_its_runs_and_hands_the_office_on(stage: Stage) -> None:
    stage.write(
        '[[job]]\nid = "j"\nevery = "1s"\ncatch_up = "all"\ncommand = "touch began; while ! test -e go; do sleep 0.05; done"\n'
    )
    first = stage.start("--drain", "60s")
    assert wait_for((stage.folder / "began").exists, PATIENCE_S)
    first.send_signal(signal.SIGTERM)
    second = stage.start()
    assert wait_for(lambda: any(line["event"] == "draining" for line in stage.said(0)), PATIENCE_S)
    assert first.poll() is None
    (stage.folder / "go").touch()
    assert first.wait(PATIENCE_S) == 0
    done = stage.until(lambda runs: any(run["token"] == 2 and run["state"] == "completed" for run in runs))
    assert {run["state"] for run in done} <= {"completed", "running", "pending"}
    second.send_signal(signal.SIGINT)
    assert second.wait(PATIENCE_S) == 0


def test_a_command_that_will_not_end_is_ended_with_its_scheduler(stage: Stage) -> None:
    stage.write(
        '[[job]]\nid = "j"\nat = 2020-01-01T00:00:00Z\ncommand = "trap \'\' TERM; echo $$ > pid; while :; do sleep 0.1; done"\n'
    )
    assert stage.ask("trigger", "crontab.toml", "j").returncode == 0
    process = stage.start("--drain", "0s")
    assert wait_for(lambda: (stage.folder / "pid").exists() and (stage.folder / "pid").read_text() != "", PATIENCE_S)
    pid = (stage.folder / "pid").read_text().strip()
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 128 + signal.SIGTERM
    assert not Path(f"/proc/{pid}").exists()
    [run] = [run for run in stage.runs() if run["origin"] == "person"]
    assert run["state"] == "running"  # It is the next leader's to judge,
    stage.start()
    stage.until(lambda runs: any(run["origin"] == "person" and run["state"] == "abandoned" for run in runs))
    assert any(line["event"] == "abandoned" and line["run"] == run["run"] for line in stage.said(1))  # and to report.


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nowhere.toml",), "tenure: crontab = nowhere.toml: is not there"),
        (("list", "nowhere.toml"), "tenure: crontab = nowhere.toml: is not there"),
        (("trigger", "crontab.toml", "nobody"), "tenure: JOB = nobody: is not in the crontab, which has quick"),
        (("pause", "crontab.toml", "nobody"), "tenure: JOB = nobody: is not in the crontab, which has quick"),
        (("check", "bad.toml"), "tenure: cron of job x = 0 25 * * *: hour '25' (field 2) must be made of 0-23"),
        (("bad.toml",), "tenure: cron of job x = 0 25 * * *: hour '25' (field 2) must be made of 0-23"),
        (("crontab.toml", "--ledger", "oracle://ada:hunter2@db"), "must be sqlite:///absolute/path"),
        (("crontab.toml", "--store", "etcd://127.0.0.1:1"), "ledger = none: must be named by --ledger"),
        (("lsit", "crontab.toml"), "tenure cron run: Got unexpected extra argument (crontab.toml)"),
        (("runs", "crontab.toml", "--state", "done"), "'done' is not one of"),
    ],
)
def test_bad_input_is_one_line_and_runs_nothing(stage: Stage, words: tuple[str, ...], told: str) -> None:
    stage.write(QUICK)
    stage.write('[[job]]\nid = "x"\ncron = "0 25 * * *"\ncommand = ["true"]', "bad.toml")
    answer = stage.ask(*words)
    assert (answer.returncode, answer.stderr.count("\n")) == (2, 1), answer.stderr
    assert told in answer.stderr
    assert "hunter2" not in answer.stderr
    assert not list(stage.folder.rglob("*-cron.db"))


def test_a_ledger_whose_folder_is_not_there_is_one_line(stage: Stage) -> None:
    stage.write(QUICK)
    answer = stage.ask("crontab.toml", "--ledger", f"sqlite://{stage.folder}/nowhere/ledger.db")
    assert (answer.returncode, answer.stderr.count("\n")) == (69, 1), answer.stderr
    assert "unable to open database file" in answer.stderr


def test_words_are_completed_with_commands_files_and_the_jobs_of_the_file(stage: Stage) -> None:
    stage.write(QUICK)

    def complete(*words: str) -> list[str]:
        line = " ".join(["tenure", "cron", *words])
        told = at_home(stage.folder, _TENURE_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=str(len(words) + 1))
        answer = subprocess.run([str(TENURE)], cwd=stage.folder, env=told, capture_output=True, text=True, check=False)
        return answer.stdout.splitlines()

    assert {"plain,trigger", "file,t"} <= {*complete("t")}
    assert complete("pause", "crontab.toml", "q") == ["plain,quick"]
    assert "plain,--drain" in complete("crontab.toml", "--d")


def test_a_run_for_which_there_is_no_room_fails_by_itself_and_the_others_go_on(stage: Stage) -> None:
    jobs = (f'[[job]]\nid = "j{number}"\nevery = "1s"\ncommand = "sleep 0.5"\n' for number in range(30))
    stage.write("max_parallel = 40\n" + "".join(jobs))
    process = stage.start()
    # Well after it was started, so that it lacks files for its runs, and none for itself.
    assert wait_for(lambda: any(line["event"] == "elected" for line in stage.said()), PATIENCE_S)
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (64, 64))

    def both(runs: list[dict[str, Any]]) -> bool:
        refused = [run["scheduled"] for run in runs if "Too many open files" in run["detail"]]
        completed = [run["scheduled"] for run in runs if run["state"] == "completed"]
        return bool(refused) and min(refused) < max(completed, default=0)

    stage.until(both)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0


def test_a_function_that_starts_a_process_hears_how_it_ended(stage: Stage) -> None:
    (stage.folder / "work.py").write_text(
        "import asyncio, subprocess\n"
        "def waits(run):\n    subprocess.run(['false'], check=True)\n"
        "async def awaits(run):\n    made = await asyncio.create_subprocess_exec('false')\n    assert await made.wait() == 0\n"
    )
    stage.write(
        QUICK
        + "".join(
            f'[[job]]\nid = "{name}"\nat = 2020-01-01T00:00:00Z\ncall = "work:{name}"\n' for name in ("waits", "awaits")
        )
    )
    for name in ("waits", "awaits"):
        assert stage.ask("trigger", "crontab.toml", name).returncode == 0
    stage.start()
    stage.until(lambda runs: len([run for run in runs if run["origin"] == "person" and run["ended"]]) == 2)
    assert {run["detail"].partition(":")[0] for run in stage.runs("--state", "failed")} == {
        "CalledProcessError",
        "AssertionError",
    }
    stage.until(lambda runs: any(run["job"] == "quick" and run["state"] == "completed" for run in runs))


@pytest.mark.parametrize("how", ["frozen", "stopped"])
def test_a_function_that_does_not_end_is_ended_with_its_process_when_the_office_is_lost(stage: Stage, how: str) -> None:
    (stage.folder / "work.py").write_text(
        "import time\n"
        "def note(run, what):\n    with open('effects', 'a') as effects:\n        effects.write(f'{run.key.job} {run.attempt} {what}\\n')\n"
        "def blocks(run):\n    note(run, 'began')\n    run.attempt > 1 or time.sleep(600)\n    note(run, 'ended')\n"
    )
    jobs = (("again", "true"), ("once", "false"))
    stage.write(
        "".join(
            f'[[job]]\nid = "{name}"\nat = 2020-01-01T00:00:00Z\ncall = "work:blocks"\nidempotent = {idempotent}\n'
            for name, idempotent in jobs
        )
    )
    effects = stage.folder / "effects"
    for name, _ in jobs:
        assert stage.ask("trigger", "crontab.toml", name).returncode == 0
    first = stage.start("--drain", "0s")
    assert wait_for(lambda: effects.exists() and effects.read_text().count("began\n") == 2, PATIENCE_S)
    if how == "frozen":
        freeze(first.pid, stage.elections, stage.ledger)
    else:
        first.send_signal(signal.SIGTERM)
    stage.start()
    triggered = stage.until(lambda runs: len([run for run in runs if run["attempt"] and run["ended"]]) == 2)
    found = {run["job"]: (run["state"], run["attempt"], run["token"]) for run in triggered if run["attempt"]}
    assert found == {"again": ("completed", 2, 2), "once": ("abandoned", 1, 2)}
    assert {line["event"] for line in stage.said(1)} >= {"retry", "abandoned"}
    first.send_signal(signal.SIGCONT)
    assert first.wait(PATIENCE_S) == -signal.SIGKILL  # By itself, ten minutes before its functions would have ended.
    assert sorted(effects.read_text().splitlines()) == [
        "again 1 began",
        "again 2 began",
        "again 2 ended",
        "once 1 began",
    ]
    assert {run["job"]: (run["state"], run["attempt"], run["token"]) for run in stage.runs() if run["attempt"]} == found


def test_a_function_that_awaits_is_cancelled_by_a_stop_and_is_left_to_the_next_leader(stage: Stage) -> None:
    (stage.folder / "work.py").write_text(
        "import asyncio, pathlib\n"
        "async def waits(run):\n    pathlib.Path('began').touch()\n    try:\n        await asyncio.sleep(600)\n"
        "    finally:\n        pathlib.Path('ended').touch()\n"
    )
    stage.write('[[job]]\nid = "waits"\nat = 2020-01-01T00:00:00Z\ncall = "work:waits"\n')
    assert stage.ask("trigger", "crontab.toml", "waits").returncode == 0
    process = stage.start("--drain", "0s")
    assert wait_for((stage.folder / "began").exists, PATIENCE_S)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 128 + signal.SIGTERM
    assert (stage.folder / "ended").exists()
    assert [run["state"] for run in stage.runs() if run["attempt"]] == ["running"]
