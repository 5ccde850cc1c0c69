"""``tenure history`` beside real leaders in other processes: what it tells is what happened, and no more than is known."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import pytest

import tenure
from tenure.apps.history import TenureRecord, read_history
from tenure.testing.engines import RedisCluster
from tests.processes import check_eventually
from tests.user import at_home

DEADLINE_S = 60.0
TTL_S = 1.0
TENURE = [sys.executable, "-m", "tenure"]
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Desk:
    """One user with a home folder of their own."""

    def __init__(self, home: Path) -> None:
        self.home, self.environment = home, at_home(home)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*TENURE, *arguments], env=self.environment, capture_output=True, text=True, check=False, timeout=DEADLINE_S
        )

    def history(self, *arguments: str) -> Any:
        run = self.run("history", *arguments, "--json")
        assert (run.returncode, run.stderr) == (0, "")
        return json.loads(run.stdout)

    @contextmanager
    def started(
        self, *options: str, command: tuple[str, ...] = ("sh", "-c", "echo in office; cat")
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A ``tenure run`` of the election "jobs", which leads until its input ends."""
        with subprocess.Popen(
            [*TENURE, "run", "jobs", "-q", "--ttl", f"{TTL_S}", *options, "--", *command],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def await_leader(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until this process is in office and has written so."""

        async def tenures() -> list[TenureRecord]:
            async with tenure.open_store(f"sqlite://{self.home}/.local/state/tenure/tenure.db") as store:
                return await read_history(store, "jobs")

        def is_there() -> bool:
            found = anyio.run(tenures)
            return bool(found) and found[-1].in_office and f"/{process.pid}/" in found[-1].holder

        assert process.stdout is not None
        assert process.stdout.readline() == b"in office\n"
        check_eventually(is_there)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def at_s(instant: str) -> float:
    return datetime.fromisoformat(instant).timestamp()


def leave(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(DEADLINE_S) == 0


def test_a_leader_that_is_killed_has_vanished_between_two_instants_and_its_successor_measured_the_gap(
    desk: Desk,
) -> None:
    with desk.started() as leader:
        desk.await_leader(leader)
        with desk.started() as standby:
            check_eventually(lambda: f"/{standby.pid}/" in desk.run("status", "jobs", "--json").stdout)
            before_s = time.time()
            os.kill(leader.pid, signal.SIGKILL)
            leader.wait(DEADLINE_S)
            after_s = time.time()
            desk.await_leader(standby)
            leave(standby)
    found = desk.history("jobs")
    first, second = found["tenures"]
    assert (first["reason"], first["ended_at"], second["reason"]) == ("vanished", None, "resigned")
    assert at_s(first["ended_after"]) <= after_s  # It was killed in between, and that is all that is told.
    assert at_s(first["ended_before"]) >= before_s
    assert second["gap_s"] is None
    real_s = second["began_s"] - before_s, second["began_s"] - after_s
    assert second["gap_min_s"] <= real_s[0]
    assert second["gap_max_s"] >= real_s[1]
    (change,) = found["rto"]["changes"]
    assert (change["reason"], change["verdict"]) == ("vanished", "kept")
    assert change["planned_s"] == TTL_S + 1
    assert change["measured_elect_s"] is not None


def test_who_resigns_is_told_with_its_gap_and_margin(desk: Desk) -> None:
    for _ in range(2):
        with desk.started("--ttl", "30s") as leader:
            desk.await_leader(leader)
            leave(leader)
    first, second = desk.history("jobs")["tenures"]
    assert (first["reason"], second["reason"]) == ("resigned", "resigned")
    assert second["gap_s"] == round(second["began_s"] - first["ended_s"], 3)
    assert second["gap_clocks"] == "one"
    run = desk.run("history", "jobs")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.splitlines()[0].split() == "TOKEN HOLDER BEGAN ENDED LASTED GAP MARGIN END".split()  # noqa: SIM905
    assert "kept 1 of 1; the longest took up to" in run.stdout
    assert "\x1b" not in run.stdout
    last = desk.history("jobs", "--last", "1")
    assert [one["token"] for one in last["tenures"]] == [2]
    assert [(one["from_token"], one["to_token"]) for one in last["rto"]["changes"]] == [(1, 2)]  # the last failover
    assert desk.history("jobs", "--last", "9" * 30)["rto"]["kept"] == 1
    missed = desk.run("history", "jobs", "--rto", "1ms").stdout
    assert "missed 1 of 1" in missed
    assert "over the RTO, without the time to load" in missed


def test_while_somebody_leads_it_is_told_that_it_does(desk: Desk) -> None:
    with desk.started("--ttl", "30s") as leader:
        desk.await_leader(leader)
        found = desk.history("jobs")
        assert found["leader"]["token"] == found["tenures"][0]["token"] == 1
        assert "in office" in desk.run("history", "jobs").stdout
        leave(leader)


@pytest.mark.parametrize("how", ["option", "variable", "file"])
def test_who_wants_no_history_has_none(desk: Desk, how: str) -> None:
    options = ["--no-history"] if how == "option" else []
    if how == "variable":
        desk.environment["TENURE_HISTORY"] = "0"
    if how == "file":
        folder = desk.home / ".config" / "tenure"
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text("history = false\n")
    with desk.started(*options, command=("true",)) as leader:
        assert leader.wait(DEADLINE_S) == 0
    assert desk.history("jobs")["tenures"] == []
    assert "no tenures of jobs are recorded at sqlite://" in desk.run("history", "jobs").stdout


def test_where_the_store_keeps_no_documents_it_is_kept_on_this_machine_and_said_so(desk: Desk) -> None:
    with RedisCluster(3, independent=True) as servers:
        desk.environment |= {"TENURE_STORE": servers.url, "TENURE_ACCEPT_BEST_EFFORT": "1"}
        ran = desk.run("run", "jobs", "--", "true")
        assert (ran.returncode, "history" in ran.stderr) == (0, False)
        found = desk.history("jobs")
        assert (found["kept"], [one["reason"] for one in found["tenures"]]) == ("local", ["resigned"])
        assert "keeps no documents" in desk.run("history", "jobs", "--last", "1").stderr
        assert desk.run("lock", "backup", "--", "true").returncode == 0
        assert "on this machine" in desk.run("history", "backup").stdout


def test_locks_are_not_recorded(desk: Desk) -> None:
    assert desk.run("lock", "backup", "--", "true").returncode == 0
    assert desk.history("backup")["tenures"] == []


def test_shards_are_recorded_each_by_itself(desk: Desk) -> None:
    with desk.started("--shards", "2", command=("sh", "-c", "echo {shard}")) as leader:
        check_eventually(lambda: desk.run("history", "jobs/1", "--json").returncode == 0)
        check_eventually(lambda: desk.history("jobs/1")["tenures"])
        leader.terminate()
        leader.wait(DEADLINE_S)
    assert [one["reason"] for one in desk.history("jobs/0")["tenures"]] == ["resigned"]
    run = desk.run("history", "jobs")
    assert run.returncode == 2
    assert "did you mean 'jobs/0' or 'jobs/1'" in run.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["jobs", "--last", "-3"], "--last"),
        (["jobs", "--last", "0"], "--last"),
        (["jobs", "--last", "many"], "--last"),
        (["jobs", "--rto", "0"], "--rto = 0 s: must be more than 0"),
        (["jobs", "--rto", "soon"], "must be a duration"),
        (["jobs", "--store", "ftp://user:geheim@h1"], "must begin with"),
        (["jobs", "--store", "sqlite:///no/such/file.db"], "is missing or empty"),
        (["a//b"], "must have no empty part"),
        ([], "Missing argument"),
        (["jobs"], "was never held: sqlite://"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(desk: Desk, arguments: list[str], said: str) -> None:
    run = desk.run("history", *arguments)
    assert (run.returncode, run.stdout, len(run.stderr.splitlines())) == (2, "", 1)
    assert said in run.stderr
    assert "geheim" not in run.stderr


def test_an_unknown_election_is_refused_with_the_names_that_are_near(desk: Desk) -> None:
    assert desk.run("lock", "billing/close", "--", "true").returncode == 0
    run = desk.run("history", "biling/close")
    assert run.returncode == 2
    assert run.stderr.strip().endswith("did you mean 'billing/close'?")
    assert "did you mean" not in desk.run("history", "quite-another").stderr


def test_on_a_terminal_there_are_bars_that_fit_into_it(desk: Desk) -> None:
    for _ in range(2):
        with desk.started("--ttl", "30s") as leader:
            desk.await_leader(leader)
            leave(leader)
    for width in (40, 80, 160):
        seen = on_terminal(desk, width, "history", "jobs")
        lines = seen.splitlines()
        bars = [line for line in lines if "█" in line and "in office" not in line]
        assert len(bars) == 2, seen
        assert all(len(line) <= width for line in bars), seen
        assert "resigned" in seen
        assert "kept 1 of 1" in seen


def on_terminal(desk: Desk, width: int, *arguments: str) -> str:
    """What a command shows on a terminal of that width, without colours."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environment = desk.environment | {"TERM": "xterm-256color", "LANG": "C.UTF-8", "PYTHONUTF8": "1"}
    process = subprocess.Popen([*TENURE, *arguments], env=environment, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    seen = b""
    while True:
        try:
            seen += os.read(master, 65536)
        except OSError:  # Linux says so when nobody has the other end any more.
            break
    os.close(master)
    assert process.wait(DEADLINE_S) == 0, seen
    return ESCAPE.sub("", seen.decode()).replace("\r\n", "\n")
