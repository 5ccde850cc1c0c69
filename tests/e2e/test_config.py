"""``tenure config`` as people use it: real processes, of which the leader is killed."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.processes import freeze
from tests.user import at_home

from tenure.testing.engines.processes import wait_for

TENURE = Path(sys.executable).parent / "tenure"
PATIENCE_S = 60


class Stage:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / ".local" / "state" / "tenure" / "tenure.db"

    def start(self, *words: str) -> "subprocess.Popen[str]":
        command = [str(TENURE), "config", *words]
        return subprocess.Popen(
            command,
            env=at_home(self.folder),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, stdin: str | bytes = "") -> "subprocess.CompletedProcess[bytes]":
        text = stdin.encode() if isinstance(stdin, str) else stdin
        command = [str(TENURE), "config", *words]
        return subprocess.run(
            command, env=at_home(self.folder), cwd=self.folder, input=text, capture_output=True, check=False, timeout=60
        )


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


# The first to be called stays, and each later one looks whether that still runs. A zombie does not.
ONCE = """
if mkdir first; then
    echo $$ > starting && mv starting first/pid
    exec sleep 600
fi
case $(ps -o stat= -p $(cat first/pid)) in ""|Z*) ;; *) echo "$TENURE_TOKEN" > beside;; esac
env | grep ^TENURE_ > variables
cat > "carried-$TENURE_CONFIG_VERSION"
"""


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGSTOP, 143), (signal.SIGHUP, 129)],
    ids=["killed", "frozen", "hung up"],
)
def test_a_proposal_survives_its_leader_and_the_command_does_not(number: int, code: int, stage: Stage) -> None:
    leaders = [stage.start("serve", "limits", "--ttl", "4s", "--", "sh", "-c", ONCE) for _ in range(2)]
    try:
        assert stage.run("propose", "limits", "-", stdin='{"rate": 5}').returncode == 0
        assert wait_for((stage.folder / "first" / "pid").exists, PATIENCE_S), "nobody leads"
        # Which of them leads, only its office tells.
        status = subprocess.run(
            [str(TENURE), "status", "--json"], env=at_home(stage.folder), capture_output=True, check=True
        )
        leading = json.loads(status.stdout)["elections"][0]["leader"]["pid"]
        (ended,) = [leader for leader in leaders if leader.pid == leading]
        if number == signal.SIGSTOP:
            freeze(ended.pid, stage.store)
        else:
            ended.send_signal(number)
        assert wait_for((stage.folder / "carried-1").exists, PATIENCE_S), "nobody took over"
        assert not (stage.folder / "beside").exists(), "the command of before went on"
        assert wait_for(lambda: stage.run("get", "limits").returncode == 0, PATIENCE_S), "it was not applied"
        got = json.loads(stage.run("get", "limits", "--json").stdout)
        assert (got["version"], got["value"], got["token"]) == (1, {"rate": 5}, 2)
        assert json.loads((stage.folder / "carried-1").read_text()) == {"rate": 5}
    finally:
        for leader in leaders:
            leader.send_signal(signal.SIGCONT)
            leader.terminate()
            leader.communicate(timeout=PATIENCE_S)
    assert (ended.returncode, {leader.returncode for leader in leaders}) == (code, {code, 128 + signal.SIGTERM})
    seen = dict(line.split("=", 1) for line in (stage.folder / "variables").read_text().splitlines())
    assert (seen["TENURE_ELECTION"], seen["TENURE_TOKEN"]) == ("config/limits", "2")
    assert seen.keys() >= {"TENURE_HOLDER", "TENURE_FENCE", "TENURE_STORE", "TENURE_CONFIG_VERSION"}


def test_what_a_command_leaves_behind_keeps_nobody_waiting_and_of_its_words_the_end_is_told(stage: Stage) -> None:
    loud = "sleep 600 & head -c 300000 /dev/zero | tr '\\0' x >&2; echo too low >&2; exit 3"
    leader = stage.start("serve", "limits", "--", "sh", "-c", loud)
    try:
        refused = stage.run("propose", "limits", "-", "--wait", "30s", stdin=json.dumps("y" * 65_000))
    finally:
        leader.terminate()
        leader.communicate(timeout=PATIENCE_S)
    assert refused.returncode == 1, refused.stderr
    assert refused.stderr.endswith(b"xxxtoo low\n")
    assert len(refused.stderr) < 1000
    missing = stage.run("serve", "limits", "--", "./no-such-command")
    assert (missing.returncode, missing.stderr.count(b"\n")) == (2, 1)
    assert b"command = ./no-such-command: cannot be started: command not found" in missing.stderr


def test_what_the_command_refuses_is_withdrawn_with_its_words_and_others_are_told_of_conflicts(stage: Stage) -> None:
    leader = stage.start("serve", "limits", "--", "sh", "-c", "grep -q good || { echo too low >&2; exit 3; }")
    try:
        refused = stage.run("propose", "limits", "-", "--wait", "30s", stdin='{"rate": 0}')
        assert refused.returncode == 1
        assert b"was withdrawn: sh ended with 3: too low" in refused.stderr
        assert stage.run("propose", "limits", "-", "--wait", "30s", stdin='"good 1"').returncode == 0
        assert stage.run("propose", "limits", "-", "--wait", "30s", stdin='"good 2"').returncode == 0
        assert stage.run("rollback", "limits", "2", "--wait", "30s").returncode == 0
    finally:
        leader.terminate()
        leader.communicate()
    late = stage.run("propose", "limits", "-", "--seen", "2", stdin='"good 3"')
    assert (late.returncode, json.loads(late.stdout)["applied"]["value"]) == (1, "good 1")
    assert b"limits is at version 4 and not at 2" in late.stderr
    lines = stage.run("history", "limits", "--json").stdout.splitlines()
    assert [(one["version"], one["state"]) for one in map(json.loads, lines)] == [
        (2, "replaced"),
        (3, "replaced"),
        (4, "applied"),
    ]
    assert stage.run("propose", "limits", "-", "--wait", "0.5s", stdin="5").returncode == 75  # Nobody leads.
    assert stage.run("withdraw", "limits").returncode == 0
    watched = stage.run("watch", "limits", "--for", "0.5s").stdout.decode()
    assert watched.startswith("applied   4 ")


@pytest.mark.parametrize(
    ("words", "stdin", "said"),
    [
        (("propose", "limits", "-"), "{rate: 5}", "document - = line 1, column 2: is not JSON"),
        (("propose", "limits", "-"), b"\xff", "is not"),
        (("propose", "limits", "-"), "[1, NaN]", "is no JSON"),
        (("propose", "limits", "-"), "[" * 481 + "]" * 481, "too deep: may have at most 64 levels"),
        (("propose", "limits", "-"), "9" * 5000, "a number: may have at most 4300 digits"),
        (("propose", "limits", "no-such-file"), "", "cannot be read: No such file"),
        (("propose", "a//b", "-"), "{}", "must have no empty part"),
        (("propose", "limits", "-", "--wait", "soon"), "{}", "must be a duration"),
        (("rollback", "limits", "7"), "", "of limits is not kept: there are none"),
        (("get", "limits", "--store", "carrier-pigeon://x"), "", "must begin with"),
        (("propose", "limits", "-", "--store", "redlock://a,b,c", "--accept-best-effort"), "{}", ""),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2_and_nothing_is_proposed(
    words: tuple[str, ...], stdin: str | bytes, said: str, stage: Stage
) -> None:
    told = stage.run(*words, stdin=stdin)
    assert told.returncode == (2 if said else 69), told.stderr
    assert told.stderr.count(b"\n") == 1
    assert said in told.stderr.decode()
    assert stage.run("history", "limits").stdout == b""


def test_more_than_is_ever_read_is_called_too_large_and_a_closed_standard_input_closed(stage: Stage) -> None:
    large = stage.run("propose", "limits", "-", stdin=json.dumps("x" * 600_000))
    assert (large.returncode, large.stderr.count(b"\n")) == (2, 1)
    assert large.stderr.startswith(b"tenure: document - = more than 524288 bytes: must have at most that")
    closed = subprocess.run(
        ["/bin/sh", "-c", '"$0" config propose limits - <&-', TENURE],
        env=at_home(stage.folder),
        capture_output=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert (closed.returncode, closed.stderr) == (2, b"tenure: FILE = -: cannot be read: standard input is closed\n")
