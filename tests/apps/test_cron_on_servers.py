"""Schedulers whose election and record are in one database server: what one that is killed leaves behind, the next deals with."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tenure.testing.engines.processes import wait_for
from tests.apps.conftest import CLUSTERS
from tests.user import at_home

TENURE = Path(sys.executable).parent / "tenure"
PATIENCE_S = 60
WAITS = (
    'echo "$TENURE_JOB $TENURE_ATTEMPT began" >> effects; while ! test -e on; do sleep 0.05; done; '
    'echo "$TENURE_JOB $TENURE_ATTEMPT ended" >> effects'
)
CRONTAB = f"""
[[job]]
id = "once"
at = 2020-01-01T00:00:00Z
command = '{WAITS}'

[[job]]
id = "again"
at = 2020-01-01T00:00:00Z
command = '{WAITS}'
idempotent = true

[[job]]
id = "tick"
every = "500ms"
catch_up = "all"
command = ["true"]
idempotent = true
"""


class Stage:
    """Schedulers in one folder. They are told of a store, and of no ledger."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.effects, self.store = folder, folder / "effects", ""
        self.effects.touch()
        (folder / "crontab.toml").write_text(CRONTAB)
        self.started: list[subprocess.Popen[str]] = []

    def start(self) -> "subprocess.Popen[str]":
        command = [str(TENURE), "cron", "crontab.toml", "--store", self.store, "--ttl", "2s", "--json"]
        with (self.folder / f"said{len(self.started)}").open("w") as said:
            process = subprocess.Popen(command, cwd=self.folder, env=at_home(self.folder), stderr=said, text=True)
        self.started.append(process)
        return process

    def has_said(self, number: int, event: str, job: str = "") -> bool:
        lines = (self.folder / f"said{number}").read_text().splitlines()
        said = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        return any(one["event"] == event and one.get("run", "").startswith(job) for one in said)

    def ask(self, *words: str) -> str:
        command = [str(TENURE), "cron", words[0], "crontab.toml", "--store", self.store, *words[1:]]
        return subprocess.run(
            command, cwd=self.folder, env=at_home(self.folder), stdout=subprocess.PIPE, text=True, check=True
        ).stdout

    def runs(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.ask("runs", "--json", "--limit", "1000").splitlines()]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    for process in made.started:
        process.kill()
        process.wait()


@pytest.mark.parametrize("kind", CLUSTERS)
def test_what_a_killed_leader_leaves_in_a_server_is_dealt_with_by_the_next(
    kind: str, new_database: Callable[[str], str], stage: Stage
) -> None:
    stage.store = new_database(kind).replace("mysql://", "mariadb://")
    for job in ("once", "again"):
        assert f"triggered {job}@" in stage.ask("trigger", job)
    first = stage.start()
    assert wait_for(lambda: stage.effects.read_text().count("began\n") == 2, PATIENCE_S)
    assert wait_for(lambda: stage.has_said(0, "completed", "tick@"), PATIENCE_S)
    second = stage.start()
    assert wait_for(lambda: stage.has_said(1, "standing-by"), PATIENCE_S)
    first.kill()
    first.wait()
    assert wait_for(lambda: "again 2 began\n" in stage.effects.read_text(), PATIENCE_S)
    (stage.folder / "on").touch()
    assert wait_for(lambda: stage.has_said(1, "completed", "again@"), PATIENCE_S)
    assert wait_for(lambda: stage.has_said(1, "completed", "tick@"), PATIENCE_S)
    assert stage.has_said(1, "abandoned", "once@")
    second.send_signal(signal.SIGTERM)
    assert second.wait(PATIENCE_S) == 0
    runs = stage.runs()
    triggered = {run["job"]: (run["state"], run["attempt"]) for run in runs if run["origin"] == "person"}
    assert triggered == {"once": ("abandoned", 1), "again": ("completed", 2)}
    assert sorted(stage.effects.read_text().splitlines()) == [
        "again 1 began",
        "again 2 began",
        "again 2 ended",
        "once 1 began",
    ]
    ticks = [run for run in runs if run["job"] == "tick"]
    times = sorted(datetime.fromisoformat(run["scheduled"]) for run in ticks)
    # Nobody was in office for a while, and none is missing.
    assert times == [times[0] + number * timedelta(seconds=0.5) for number in range(len(times))]
    assert {run["state"] for run in ticks} <= {"completed", "pending"}
    assert len({run["token"] for run in ticks if run["state"] == "completed"}) == 2
