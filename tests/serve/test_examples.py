"""The examples in Go, Node and shell lead through a real sidecar."""

import os
import re
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

_PATIENCE_S = 90  # Starting Node, or Go's own library being built, takes a while on a machine that does something else.
# A lease that a busy machine does not lose. Who is killed is succeeded all the same after its own time, keep_s.
_TTL = ("--ttl", "30s")
_WORKS = re.compile(r"^works with token (\d+)\n", re.MULTILINE)
EXAMPLES = Path(__file__).parents[2] / "examples" / "sidecar"
LOCKED = EXAMPLES / "shell" / "locked.sh"


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with staged(tmp_path) as made:
        yield made


def check_soon(condition: Callable[[], object]) -> None:
    check_eventually(condition, _PATIENCE_S)


def needed(program: str, fix: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise MissingEngine(program, fix)
    return found


def for_scripts(stage: Stage) -> Process:
    """Start a sidecar for scripts of the shell."""
    for program in ("curl", "jq"):
        needed(program, f"apt-get install -y {program}")
    return stage.start(*_TTL)


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
        stage.others.append(self.process)

    @property
    def lines(self) -> list[str]:
        return self.output.read_text().splitlines()

    def works_with(self) -> int:
        """The token that it last worked with; 0: none yet."""
        return max(map(int, _WORKS.findall(self.output.read_text())), default=0)  # A line may be half written.

    def end(self, how: int) -> int:
        self.process.send_signal(how)
        return self.process.wait(_PATIENCE_S)


@pytest.mark.timeout(600)  # Go builds its own library first, once.
@pytest.mark.parametrize("made", [go, node], ids=["go", "node"])
def test_one_works_at_a_time_another_takes_over_when_it_is_killed_and_a_signal_resigns(
    stage: Stage, made: Callable[[Path], list[str]]
) -> None:
    words = [*made(stage.folder), "billing/close"]
    sidecar = stage.start(*_TTL)
    first = Program(words, sidecar, stage)
    check_soon(first.works_with)
    second = Program(words, sidecar, stage)
    check_soon(lambda: sidecar.client.get("/v1/elections/billing/close").json()["here"]["clients"] == 2)
    assert not second.works_with()
    first.end(signal.SIGKILL)
    check_soon(second.works_with)
    assert second.works_with() > first.works_with()
    # The leader is asked to leave: it stops, and stands again.
    token = second.works_with()
    sidecar.post("/v1/elections/billing/close/resign", wait_s=20)
    check_soon(lambda: second.works_with() > token)
    assert any(line.startswith("stands again") for line in second.lines)
    assert second.end(signal.SIGTERM) == 0
    assert second.lines[-1] == "resigned"
    assert sidecar.status("/leader/billing/close") == 503


@pytest.mark.timeout(600)
def test_a_shell_script_runs_a_command_under_a_lock_and_ends_it_when_the_lock_is_lost(stage: Stage) -> None:
    sidecar = for_scripts(stage)
    says = ["sh", "-c", 'echo "works with token $TENURE_TOKEN"; exit 7']
    quick = Program([str(LOCKED), "backup", *says], sidecar, stage)
    assert quick.process.wait(_PATIENCE_S) == 7
    assert quick.works_with() == 1
    holds = ["sh", "-c", 'echo "works with token $TENURE_TOKEN"; exec sleep 100']
    slow = Program([str(LOCKED), "backup", *holds], sidecar, stage)
    check_soon(slow.works_with)
    assert Program([str(LOCKED), "backup", *says], sidecar, stage).process.wait(_PATIENCE_S) == 75
    waits = Program([str(LOCKED), "backup", *says], sidecar, stage, WAIT_S="60")
    sidecar.post("/v1/elections/backup/resign", wait_s=20)
    assert slow.process.wait(_PATIENCE_S) == 124
    assert waits.process.wait(_PATIENCE_S) == 7
    assert waits.works_with() > slow.works_with()


@pytest.mark.timeout(600)
def test_a_shell_script_that_is_killed_leaves_the_lock_to_its_command_and_no_longer(stage: Stage) -> None:
    sidecar = for_scripts(stage)
    fifo = stage.folder / "goes-on"
    os.mkfifo(fifo)
    holds = ["sh", "-c", f'echo "works with token $TENURE_TOKEN"; exec cat "{fifo}"']
    script = Program([str(LOCKED), "backup", *holds], sidecar, stage)
    check_soon(script.works_with)
    with fifo.open("wb"):
        script.end(signal.SIGKILL)
        refused = sidecar.client.post("/v1/locks/backup", json={"wait_s": 5})
        assert refused.status_code == 423, "its command goes on"
    check_soon(lambda: sidecar.client.post("/v1/locks/backup", json={"wait_s": 5}).status_code == 200)


@pytest.mark.timeout(600)
def test_a_shell_script_that_is_told_to_end_holds_the_lock_until_its_command_has_ended(stage: Stage) -> None:
    sidecar = for_scripts(stage)
    may_end = stage.folder / "may-end"
    stops = f"echo stops; until test -e {may_end}; do sleep 0.05; done; exit 5"
    works = f"trap '{stops}' TERM; echo \"works with token $TENURE_TOKEN\"; while :; do sleep 0.05; done"
    script = Program([str(LOCKED), "backup", "sh", "-c", works], sidecar, stage)
    check_soon(script.works_with)
    script.process.send_signal(signal.SIGTERM)
    check_soon(lambda: "stops" in script.lines)
    assert sidecar.client.post("/v1/locks/backup", json={"wait_s": 2}).status_code == 423
    may_end.touch()
    assert script.process.wait(_PATIENCE_S) == 5
    assert sidecar.post("/v1/locks/backup")["token"] > script.works_with()
