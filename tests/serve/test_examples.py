"""The examples in Go, Node and shell lead through a real sidecar."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tenure.testing.engines.binaries import MissingEngine
from tests.processes import check_eventually
from tests.serve.outside import Process, Stage, staged

EXAMPLES = Path(__file__).parents[2] / "examples" / "sidecar"
LOCKED = EXAMPLES / "shell" / "locked.sh"


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with staged(tmp_path) as made:
        yield made


def needed(program: str, fix: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise MissingEngine(program, fix)
    return found


def go(folder: Path) -> list[str]:
    built = folder / "leader"
    words = [needed("go", "apt-get install -y golang"), "build", "-o", str(built), "."]
    subprocess.run(words, cwd=EXAMPLES / "go", check=True, env={**os.environ, "GOFLAGS": "-mod=mod", "GOPROXY": "off"})
    return [str(built)]


def node(_: Path) -> list[str]:
    return [needed("node", "apt-get install -y nodejs"), str(EXAMPLES / "node" / "leader.mjs")]


class Program:
    """One that was started, and what it says."""

    def __init__(self, words: list[str], sidecar: Process, stage: Stage, **variables: str) -> None:
        self.output = stage.folder / f"output-{time.monotonic_ns()}"
        named = {"TENURE_SIDECAR": sidecar.url, "TENURE_TOKEN_FILE": str(stage.token)}
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(words, stdout=output, env={**os.environ, **named, **variables})

    @property
    def lines(self) -> list[str]:
        return self.output.read_text().splitlines()

    def works_with(self) -> int:
        """The token that it last worked with; 0: none yet."""
        return max((int(line.split()[-1]) for line in self.lines if line.startswith("works with")), default=0)

    def end(self, how: int) -> int:
        self.process.send_signal(how)
        return self.process.wait(30)


@pytest.mark.timeout(240)  # Go builds its own library first, once.
@pytest.mark.parametrize("made", [go, node], ids=["go", "node"])
def test_one_works_at_a_time_another_takes_over_when_it_is_killed_and_a_signal_resigns(
    stage: Stage, made: Callable[[Path], list[str]]
) -> None:
    words = [*made(stage.folder), "billing/close"]
    sidecar = stage.start()
    first = Program(words, sidecar, stage)
    check_eventually(first.works_with)
    second = Program(words, sidecar, stage)
    check_eventually(lambda: sidecar.client.get("/v1/elections/billing/close").json()["here"]["clients"] == 2)
    assert not second.works_with()
    first.end(signal.SIGKILL)
    check_eventually(second.works_with)
    assert second.works_with() > first.works_with()
    # The leader is asked to leave: it stops, and stands again.
    token = second.works_with()
    sidecar.post("/v1/elections/billing/close/resign", wait_s=20)
    check_eventually(lambda: second.works_with() > token)
    assert any(line.startswith("stands again") for line in second.lines)
    assert second.end(signal.SIGTERM) == 0
    assert second.lines[-1] == "resigned"
    assert sidecar.status("/leader/billing/close") == 503


def test_a_shell_script_runs_a_command_under_a_lock_and_ends_it_when_the_lock_is_lost(stage: Stage) -> None:
    for program in ("curl", "jq"):
        needed(program, f"apt-get install -y {program}")
    sidecar = stage.start()
    says = ["sh", "-c", 'echo "works with token $TENURE_TOKEN"; exit 7']
    quick = Program([str(LOCKED), "backup", *says], sidecar, stage)
    assert quick.process.wait(30) == 7
    assert quick.works_with() == 1
    holds = ["sh", "-c", 'echo "works with token $TENURE_TOKEN"; exec sleep 100']
    slow = Program([str(LOCKED), "backup", *holds], sidecar, stage)
    check_eventually(slow.works_with)
    assert Program([str(LOCKED), "backup", *says], sidecar, stage).process.wait(30) == 75
    waits = Program([str(LOCKED), "backup", *says], sidecar, stage, WAIT_S="60")
    sidecar.post("/v1/elections/backup/resign", wait_s=20)
    assert slow.process.wait(30) == 124
    assert waits.process.wait(30) == 7
    assert waits.works_with() > slow.works_with()
