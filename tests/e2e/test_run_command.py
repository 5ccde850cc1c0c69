"""``tenure run`` and ``tenure lock`` with one real supervisor: codes, signals, streams, options."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import tenure

TENURE = Path(sys.executable).parent / "tenure"
PYTHON = [sys.executable, "-I", "-S", "-c"]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for a store, and nothing else that could set anything."""
    for name in [name for name in os.environ if name.startswith("TENURE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("TENURE_STORE", f"sqlite://{tmp_path}/store.db")
    return tmp_path / "store.db"


@pytest.fixture
def start(store: Path) -> Iterator[Start]:
    """Starts ``tenure`` with what it says and reads as text; whatever still runs at the end is killed."""
    started: list[subprocess.Popen[str]] = []
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}

    def start(*words: str) -> "subprocess.Popen[str]":
        started.append(subprocess.Popen([TENURE, *words], text=True, cwd=store.parent, **pipes))  # type: ignore[call-overload]
        return started[-1]

    yield start
    for process in started:
        process.kill()  # and the guardian kills the rest
        process.communicate()


def finish(process: "subprocess.Popen[str]", said: str = "") -> tuple[int, str, str]:
    out, err = process.communicate(said, timeout=30)
    assert "Traceback" not in err
    return process.returncode, out, err


def check_eventually(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline_s, "it never came to be"
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["run", "x", "--", "true"], 0),
        (["run", "x", "--", "sh", "-c", "exit 7"], 7),
        (["run", "x", "--", "sh", "-c", "kill -TERM $$"], 128 + signal.SIGTERM),
        (["run", "x", "--", "./no-such-command"], 127),
        (["run", "x", "--", "./plain"], 126),
        (["run", "x", "--", "./"], 126),
        (["run", "x", "--", "./no-program"], 126),
        (["run", "x", "--", "./no-interpreter"], 127),
        (["lock", "x", "--", "sh", "-c", "exit 7"], 7),
        (["lock", "x", "--", "sh", "-c", "kill -KILL $$"], 128 + signal.SIGKILL),
        (["lock", "x", "--", "no-such-command"], 127),
    ],
)
def test_the_exit_code_is_the_commands_own_or_a_shells(start: Start, store: Path, words: list[str], code: int) -> None:
    for name, text, mode in (
        ("plain", "", 0o644),
        ("no-program", "x", 0o755),
        ("no-interpreter", "#!/no/such\n", 0o755),
    ):
        (store.parent / name).write_text(text)
        (store.parent / name).chmod(mode)
    assert finish(start(*words))[0] == code


@pytest.mark.parametrize("words", [["no-such-command"], ["/"]])
def test_a_machine_that_cannot_run_the_command_does_not_stand(start: Start, store: Path, words: list[str]) -> None:
    code, _, err = finish(start("run", "x", "--", *words))
    assert code in (126, 127)
    assert err.count("\n") == 1
    assert not store.exists()


def test_the_command_finds_its_tenure_in_the_environment(start: Start, store: Path) -> None:
    show = "import os; print(sorted(item for item in os.environ.items() if item[0].startswith('TENURE_')))"
    _, out, err = finish(start("run", "a/b", "--", *PYTHON, show))
    found = dict(eval(out))  # noqa: S307  (printed by our own command)
    assert err == "tenure: elected in a/b with token 1\n"
    assert found.pop("TENURE_HOLDER").count("/") == 2
    assert found.pop("TENURE_FENCE").endswith("/a/b")
    assert found == {"TENURE_ELECTION": "a/b", "TENURE_STORE": f"sqlite://{store}", "TENURE_TOKEN": "1"}


SECRET = """
import os, sys
from tenure.cli.main import main
from tenure.errors import Unreachable
from tenure.stores.opening import SCHEMES, _Scheme
from tenure.stores.sqlite import SQLiteStore
class Shut:
    async def __aenter__(self):
        raise Unreachable("vault://ada:hunter2@host", "open", "vault://ada:hunter2@host is down")
    async def __aexit__(self, *_): ...
def from_url(url):
    return Shut() if url.endswith("shut") else SQLiteStore(os.environ["PLACE"])
sys.modules["vault"] = sys.modules["__main__"]
SCHEMES["vault"] = _Scheme("vault", "from_url")
main()
"""


@pytest.mark.parametrize(("path", "code"), [("open", 0), ("shut", 69)])
def test_a_password_reaches_neither_the_command_nor_a_message(store: Path, path: str, code: int) -> None:
    words = [sys.executable, "-c", SECRET, "run", "x", "--", "env"]
    environment = os.environ | {"TENURE_STORE": f"vault://ada:hunter2@host/{path}", "PLACE": str(store)}
    run = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=30)
    assert run.returncode == code, run.stderr
    assert ("TENURE_STORE=sqlite" in run.stdout) is (code == 0)
    assert "hunter2" not in run.stdout + run.stderr
    assert run.stderr.count("\n") == 1


def test_standard_input_and_output_are_the_commands(start: Start) -> None:
    assert finish(start("run", "x", "-q", "--", "cat"), "line\n") == (0, "line\n", "")


def test_everything_after_the_dashes_is_the_commands(start: Start) -> None:
    words = ["echo", "--help", "--", "-q", "--once"]
    assert finish(start("run", "--once", "x", "-q", "--", *words))[:2] == (0, "--help -- -q --once\n")
    assert finish(start("run", "-q", "x", "echo", "-n", "--once"))[:2] == (0, "--once")


# It takes signals one after the other: one that comes between a look at what has come and a pause would never be seen.
TRAPS = """
import os, signal, sys
def say(word): os.write(1, (word + "\\n").encode())
trapped = [signal.Signals["SIG" + name] for name in ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "WINCH")]
signal.pthread_sigmask(signal.SIG_BLOCK, trapped)
say(f"{os.getpid() == os.getpgrp()}")
for _ in range(int(sys.argv[1])): say(signal.Signals(signal.sigwait(trapped)).name)
sys.exit(5)
"""


def test_signals_reach_the_command_in_a_group_of_its_own_and_its_code_comes_back(start: Start) -> None:
    names = ["USR1", "WINCH", "USR2", "HUP", "QUIT", "INT", "TERM", "TERM"]
    process = start("run", "x", "--restart", "on-failure", "--", *PYTHON, TRAPS, str(len(names)))
    assert process.stdout is not None
    assert process.stdout.readline() == "True\n"
    for name in names:
        process.send_signal(signal.Signals[f"SIG{name}"])
        assert process.stdout.readline() == f"SIG{name}\n"
    assert finish(process)[0] == 5


def test_a_command_that_takes_its_time_to_stop_stays_in_office(start: Start) -> None:
    process = start("run", "x", "--ttl", "4", "--", *PYTHON, TRAPS, "2")
    assert process.stdout is not None
    process.stdout.readline()
    process.terminate()
    assert process.stdout.readline() == "SIGTERM\n"
    assert finish(start("lock", "x", "--wait", "5s", "--", "true"))[0] == 75
    process.send_signal(signal.SIGUSR1)
    assert finish(process)[0] == 5


def test_a_command_that_reads_its_settings_again_on_hup_is_supervised_as_before(start: Start) -> None:
    process = start("run", "x", "--restart", "on-failure", "--", *PYTHON, TRAPS, "2")
    assert process.stdout is not None
    assert process.stdout.readline() == "True\n"
    for _ in range(2):
        process.send_signal(signal.SIGHUP)
        assert process.stdout.readline() == "SIGHUP\n"
    assert process.stdout.readline() == "True\n"  # it had exited with 5, and was started again
    for _ in range(2):
        process.terminate()
        assert process.stdout.readline() == "SIGTERM\n"
    assert finish(process)[0] == 5


def test_a_starter_that_is_gone_is_not_taken_for_the_command(tmp_path: Path, store: Path) -> None:
    package = tmp_path / "copy" / "tenure"
    shutil.copytree(Path(tenure.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "apps" / "run" / "starter.py").write_text("if __name__ == '__main__': raise SystemExit(2)")
    run = subprocess.run(
        [sys.executable, "-m", "tenure", "run", "x", "--", "echo", "never"],
        env={**os.environ, "PYTHONPATH": str(package.parent)},
        cwd=store.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert (run.returncode, run.stdout) == (126, "")
    assert "starter does not run" in run.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_a_standby_ends_it(start: Start, number: signal.Signals) -> None:
    leader = start("run", "x", "--", "cat")
    assert leader.stderr is not None
    assert "elected" in leader.stderr.readline()
    standby = start("run", "x", "--", "echo", "never")
    assert standby.stderr is not None
    line = standby.stderr.readline()
    assert f"/{leader.pid}/" in line
    assert "(token 1) leads" in line
    standby.send_signal(number)
    assert finish(standby)[:2] == (128 + number, "")
    assert finish(leader)[0] == 0


@pytest.mark.parametrize(("patience", "longer_s"), [(["--no-wait"], 0.6), (["--wait", "2s"], 2.5)])
def test_who_is_not_elected_in_time_says_who_leads(start: Start, patience: list[str], longer_s: float) -> None:
    leader = start("lock", "x", "--", "cat")
    assert leader.stderr is not None
    leader.stderr.readline()
    code, out, err = finish(start("run", "x", "-q", *patience, "--", "echo", "never"))
    assert (code, out) == (75, "")
    assert err.startswith("tenure: not elected in x")
    assert f"/{leader.pid}/" in err
    assert finish(leader)[0] == 0
    assert finish(start("lock", "x", *patience, "--", "sh", "-c", f"sleep {longer_s}; echo now"))[:2] == (0, "now\n")


def test_who_is_not_healthy_in_time_says_so(start: Start) -> None:
    words = ["--wait", "5s", "--healthy", "false", "--", "echo", "never"]
    assert finish(start("run", "x", "-q", *words)) == (
        75,
        "",
        "tenure: not elected in x within 5 s: the health check fails\n",
    )


def test_a_command_that_fails_is_started_again_in_the_same_tenure(start: Start) -> None:
    script = 'echo $TENURE_TOKEN; test -e again && exit 0; touch again; echo "ä"; exit 9'
    code, out, err = finish(start("run", "x", "--restart", "on-failure", "--", "sh", "-c", script))
    assert (code, out) == (0, "1\nä\n1\n")
    assert "the command exited with 9: starting it again in " in err


def test_a_candidate_stands_and_leads_only_while_it_is_healthy(start: Start, store: Path) -> None:
    healthy = store.parent / "healthy"
    process = start("run", "x", "--ttl", "8", "--healthy", "test -e healthy", "--", "sh", "-c", "echo up; exec cat")
    assert process.stdout is not None
    assert process.stderr is not None
    assert "not standing for x: the health check exited with 1" in process.stderr.readline()
    healthy.touch()
    assert "the health check succeeds" in process.stderr.readline()
    assert "elected" in process.stderr.readline()
    assert process.stdout.readline() == "up\n"
    healthy.unlink()
    assert "withdrawing" in process.stderr.readline()
    assert "lost x (token 1): resigned" in process.stderr.readline()
    assert finish(start("lock", "x", "--wait", "20s", "--", "true"))[0] == 0
    healthy.touch()
    assert process.stdout.readline() == "up\n"
    assert finish(process)[0] == 0


def test_a_health_check_that_hangs_has_failed_and_leaves_nothing_behind(start: Start, store: Path) -> None:
    # Checks are made again and again, and each may be ended before it has written: what others wrote is added to, never cut.
    groups = store.parent / "groups"
    groups.touch()
    check = "echo $$ >> groups; sleep 1000 & wait"
    process = start("run", "x", "--ttl", "1", "--healthy", check, "--", "echo", "never")
    assert process.stderr is not None
    assert "the health check took longer than 0.25 s" in process.stderr.readline()
    check_eventually(groups.read_text)
    process.terminate()
    assert finish(process)[:2] == (143, "")
    for group in groups.read_text().split():
        with pytest.raises(ProcessLookupError):
            check_eventually(partial(os.killpg, int(group), 0))


def test_json_is_one_object_a_line(start: Start) -> None:
    _, out, err = finish(start("lock", "x", "--json", "--", "echo", "out"))
    assert out == "out\n"
    assert [json.loads(line) for line in err.splitlines()] == [
        {"event": "elected", "election": "x", "token": 1, "text": "elected in x with token 1"}
    ]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["run", "x"], "no command"),
        (["run", "x", "--"], "no command"),
        (["run"], "ELECTION"),
        (["run", "x", "y", "--", "true"], "'y' before --"),
        (["run", "..", "--", "true"], "'..'"),
        (["run", "x\ny", "--", "true"], "printable"),
        (["run", "x", "--store", "memory://", "--", "true"], "one process"),
        (["run", "x", "--store", "nowhere://host", "--", "true"], "must begin with"),
        (["run", "x", "--ttl", "0", "--", "true"], "ttl = 0 s: must be more than 0"),
        (["run", "x", "--ttl", "50ms", "--", "true"], "between 0.1 and"),
        (["run", "x", "--grace", "9s", "--", "true"], "grace"),
        (["lock", "x", "--wait", "soon", "--", "true"], "--wait = soon"),
        (["lock", "x", "--wait", "1s", "--no-wait", "--", "true"], "--no-wait"),
        (["lock", "x", "--restart", "never", "--", "true"], "--restart"),
        (["run", "x", "--healthy", "", "--", "true"], "shell command"),
        (["run", "x", "--restart", "always", "--", "true"], "on-failure"),
    ],
)
def test_bad_input_is_told_in_one_line(start: Start, words: list[str], part: str) -> None:
    code, out, err = finish(start(*words))
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert part in err
