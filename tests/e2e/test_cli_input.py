"""Bad input through the real command: one line that names the fix, exit code 2, no traceback, no password."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.user import at_home

PASSWORD = "hunter2"
READING = [("status",), ("watch", "--for", "0"), ("resign", "x")]
ALL = [*READING, ("run", "x", "--", "true"), ("lock", "x", "--", "true")]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def tenure(home: Path, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "tenure", *arguments],
        env=at_home(home, **variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def check_refused(run: "subprocess.CompletedProcess[str]", *said: str) -> None:
    assert (run.returncode, run.stdout) == (2, "")
    assert len(run.stderr.splitlines()) == 1
    assert "Traceback" not in run.stderr
    assert PASSWORD not in run.stderr
    assert [words for words in said if words not in run.stderr] == []


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (f"redis://ada:{PASSWORD}@[::1", "is not a URL"),
        ("memory://", "lives in one process"),
        ("", "must begin with sqlite://"),
        ("tenure.db", "must begin with sqlite://"),
        (f"sqlite://ada:{PASSWORD}@loft/x.db", "has a host"),
        ("sqlite:///:memory:", "must be a file on a disk"),
    ],
)
def test_what_is_no_store_is_refused_without_its_password(home: Path, url: str, said: str) -> None:
    check_refused(tenure(home, "status", "--store", url), said)


@pytest.mark.parametrize("command", ALL, ids=lambda words: words[0])
def test_an_unknown_store_is_refused_without_its_password_wherever_it_was_named(
    home: Path, command: tuple[str, ...]
) -> None:
    url = f"carrier-pigeon://ada:{PASSWORD}@loft/7"
    file = home / "tenure.toml"
    file.write_text(f'store = "{url}"\n', encoding="utf-8")
    file.chmod(0o600)
    for run in (
        tenure(home, command[0], "--store", url, *command[1:]),
        tenure(home, *command, TENURE_STORE=url),
        tenure(home, *command, TENURE_CONFIG=str(file)),
    ):
        check_refused(run, "must begin with sqlite://", "ada:***@loft")


@pytest.mark.parametrize("arguments", [(f"redis://ada:{PASSWORD}@cache",), ("status", f"redis://ada:{PASSWORD}@cache")])
def test_a_password_in_the_wrong_place_is_not_shown(home: Path, arguments: tuple[str, ...]) -> None:
    check_refused(tenure(home, *arguments), "***@cache")


def test_a_warning_of_an_open_file_is_one_line_without_the_password(home: Path) -> None:
    file = home / "tenure.toml"
    file.write_text(f'store = "carrier-pigeon://ada:{PASSWORD}@loft"\n', encoding="utf-8")
    file.chmod(0o644)
    run = tenure(home, "status", "--config", str(file))
    warning, refusal = run.stderr.splitlines()
    assert warning.startswith("tenure: warning: ")
    assert "must begin with sqlite://" in refusal
    assert PASSWORD not in run.stderr + run.stdout


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "at least one character"),
        ("a\nb", "must be printable"),
        ("x" * 10_000, "at most 255 bytes"),
        ("..", "no empty part"),
        ("a//b", "no empty part"),
        (" a", "without space at its ends"),
        ("\udcff", "must be printable"),
    ],
    ids=repr,
)
def test_what_is_no_name_of_an_election_is_refused(home: Path, name: str, said: str) -> None:
    check_refused(tenure(home, "status", name), said)


@pytest.mark.parametrize("command", ["watch", "resign", "run", "lock"])
def test_every_command_refuses_what_is_no_name(home: Path, command: str) -> None:
    check_refused(tenure(home, command, "..", *(("--", "true") if command in ("run", "lock") else ())), "no empty part")


@pytest.mark.parametrize("command", ALL, ids=lambda words: words[0])
def test_a_place_that_cannot_hold_a_store_is_refused_and_nothing_is_made(
    home: Path, command: tuple[str, ...], tmp_path: Path
) -> None:
    def refused(path: Path, *said: str) -> None:
        check_refused(tenure(home, *command, TENURE_STORE=f"sqlite://{path}"), str(path), *said)

    rubbish = tmp_path / "rubbish.db"
    rubbish.write_text("no database at all " * 100, encoding="utf-8")
    before = rubbish.read_bytes()
    refused(tmp_path / "gone" / "tenure.db", "missing or empty" if command in READING else "folder that does not exist")
    refused(tmp_path, "it is a folder")
    refused(rubbish, "cannot be read as a database")
    assert rubbish.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "rubbish.db"]


@pytest.mark.parametrize("command", READING, ids=lambda words: words[0])
def test_reading_a_store_that_was_named_and_is_not_there_is_refused_and_makes_none(
    home: Path, command: tuple[str, ...], tmp_path: Path
) -> None:
    check_refused(tenure(home, *command, TENURE_STORE=f"sqlite://{tmp_path}/slip.db"), "missing or empty", "tenure run")
    (tmp_path / "empty.db").touch()
    check_refused(tenure(home, *command, TENURE_STORE=f"sqlite://{tmp_path}/empty.db"), "missing or empty")
    assert not (tmp_path / "slip.db").exists()
    assert (tmp_path / "empty.db").stat().st_size == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "x", "--ttl", "-3", "--", "true"), "--ttl = -3"),
        (("run", "x", "--ttl", "0", "--", "true"), "tenure: ttl = 0 s: must be more than 0"),
        (("run", "x", "--ttl", "30d", "--", "true"), "ttl <= 604800 s"),
        (("lock", "x", "--grace", "1h", "--", "true"), "must satisfy renew_every + attempt_timeout + grace < ttl"),
        (("watch", "--for", "soon"), "--for = soon"),
        (("resign", "x", "--wait", "-1"), "--wait = -1"),
        (("resign",), "Missing argument 'ELECTION'"),
        (("resign", "x", "y"), "unexpected extra argument"),
        (("run", "x", "--ttl", "8s", "true"), "no command called '--ttl': after options, put the command after --"),
        (("lock", "x", f"--store=redis://ada:{PASSWORD}@cache", "true"), "put the command after --"),
        (("status", "--config", "gone.toml"), "config = gone.toml: cannot be read: No such file"),
        (("status", "--config", "."), "cannot be read: Is a directory"),
        (("status", "--jsno"), "--jsno"),
        (("statsu",), "did you mean 'status'?"),
        (("nonsense",), "There is no command 'nonsense'"),
        (("x" * 10_000,), "There is no command"),
        (("two\nlines",), "There is no command"),
        (("completion", "tcsh"), "'tcsh' is not one of 'bash', 'zsh', 'fish'"),
        (("completion",), "Missing argument"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else "",
)
def test_a_slip_on_the_command_line_is_one_line(home: Path, arguments: tuple[str, ...], said: str) -> None:
    check_refused(tenure(home, *arguments), said)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("colour = 'red'", "unknown key 'colour': it may have store, ttl, grace"),
        ("ttl = true", "must be a duration"),
        ("store = 7", "must be a URL in quotes"),
        ("store", "is not TOML"),
    ],
)
def test_a_file_that_cannot_work_is_named(home: Path, content: str, said: str) -> None:
    file = home / "tenure.toml"
    file.write_text(content, encoding="utf-8")
    check_refused(tenure(home, "status", "--config", str(file)), str(file), said)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--help",),
        ("--version",),
        ("run", "--help"),
        ("status",),
        ("status", "--json"),
        ("watch", "a", "--for", "0"),
        ("resign", "a"),
        ("completion", "zsh"),
        ("sim", "--seeds", "1"),
        ("sim", "--seed", "1", "--story"),
        ("demo",),
    ],
    ids=" ".join,
)
def test_output_that_nobody_reads_is_exit_code_74_without_a_word(home: Path, arguments: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "tenure", *arguments]
    run = subprocess.run(
        command, env=at_home(home), stdout=writer, stderr=subprocess.PIPE, text=True, check=False, timeout=60
    )
    os.close(writer)
    assert (run.returncode, run.stderr) == (74, "")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("status",), 74, "tenure: standard output is closed\n"),
        (("run", "x", "-q", "--", "sh", "-c", "echo heard; exit 7"), 7, ""),
        (("lock", "x", "-q", "--", "sh", "-c", "echo heard; exit 7"), 7, ""),
    ],
    ids=["status", "run", "lock"],
)
def test_closed_output_is_an_error_only_for_who_prints(
    home: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    closing = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "tenure", *arguments]
    run = subprocess.run(closing, env=at_home(home), stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    assert (run.returncode, run.stderr) == (code, said)


def signalled_while_importing(home: Path, number: signal.Signals, pid: str) -> "subprocess.CompletedProcess[str]":
    """A command that gets a signal while it imports click, and whose process has the number ``pid``."""
    (home / "click.py").write_text(f"import os, signal\nos.kill(os.REAL, {number})\n", encoding="utf-8")
    start = f"import os\nos.REAL = os.getpid()\nos.getpid = lambda: {pid}\nfrom tenure.cli.main import main\nmain()"
    return subprocess.run(
        [sys.executable, "-c", start],
        env=at_home(home, PYTHONPATH=str(home)),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_an_interrupt_while_it_starts_is_exit_code_130_without_a_traceback(home: Path) -> None:
    run = signalled_while_importing(home, signal.SIGINT, "os.REAL")
    assert (run.returncode, run.stderr) == (130, "")


def test_an_interrupt_while_it_leaves_makes_no_traceback(home: Path) -> None:
    start = (
        "import atexit, os, signal\natexit.register(os.kill, os.getpid(), signal.SIGINT)\n"
        "from tenure.cli.main import main\nmain()"
    )
    run = subprocess.run(
        [sys.executable, "-c", start], env=at_home(home), capture_output=True, text=True, check=False, timeout=60
    )
    assert (run.returncode, run.stderr) == (-signal.SIGINT, "")


@pytest.mark.parametrize(("pid", "code"), [("1", 128 + signal.SIGTERM), ("os.REAL", -signal.SIGTERM)])
def test_only_process_1_needs_a_handler_to_be_ended_while_it_starts(home: Path, pid: str, code: int) -> None:
    run = signalled_while_importing(home, signal.SIGTERM, pid)
    assert (run.returncode, run.stderr) == (code, "")


def test_a_variable_that_cannot_work_is_named(home: Path) -> None:
    check_refused(tenure(home, "status", TENURE_TTL="soon"), "TENURE_TTL = soon")


def test_a_store_that_answers_no_more_is_exit_code_69(home: Path, tmp_path: Path) -> None:
    store = tmp_path / "tenure.db"
    assert tenure(home, "lock", "x", "--store", f"sqlite://{store}", "--", "true").returncode == 0
    lock = [sys.executable, "-c", LOCKING, str(store)]
    with subprocess.Popen(lock, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as locking:
        assert locking.stdout is not None
        assert locking.stdout.readline() == "locked\n"
        run = tenure(home, "resign", "x", "--store", f"sqlite://{store}")
        locking.communicate()
    assert (run.returncode, run.stdout) == (69, "")
    assert run.stderr == f"tenure: sqlite://{store}: ask_to_resign was not sent: others kept the file locked for 1 s\n"


LOCKING = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


def test_without_a_command_the_help_is_shown(home: Path) -> None:
    run = tenure(home)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == tenure(home, "--help").stdout
    assert "Exit codes:" in run.stdout


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_the_version_is_told(home: Path, option: str) -> None:
    assert tenure(home, option).stdout.startswith("tenure, version ")


def test_a_name_that_the_encoding_lacks_is_shown_escaped(home: Path) -> None:
    run = tenure(home, "status", "\N{SNOWMAN}", PYTHONIOENCODING="iso-8859-1")
    assert (run.returncode, run.stderr) == (0, "")
    assert "\\u2603" in run.stdout


def test_warnings_of_python_do_not_reach_the_user(home: Path) -> None:
    main = "import warnings\nfrom tenure.cli.main import main\n"
    run = subprocess.run(
        [sys.executable, "-c", main + "import sys, atexit\natexit.register(warnings.warn, 'for developers')\nmain()"],
        env=at_home(home),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.parametrize("group", ["config", "cron", "fence", "lab", "metrics"])
def test_a_group_of_commands_without_one_tells_which_there_are(home: Path, group: str) -> None:
    run = tenure(home, group)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == tenure(home, group, "--help").stdout
    assert run.stdout.startswith(f"Usage: tenure {group} ")
