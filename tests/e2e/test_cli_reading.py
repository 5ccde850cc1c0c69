"""``tenure status``, ``watch`` and ``resign`` beside a real leader in another process."""

import json
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.user import at_home

DEADLINE_S = 60.0

TTL_S = 5  # A leader hears within a third of it that it is to resign.

# Leads until its standard input ends, so that no leader outlives the tests. "stubborn" does not let itself be cancelled. Once
# asked to resign it is in office until its lease ends, and whoever looks then is a process that has yet to start: on a busy
# machine two seconds were not enough.
LEADER = f"""
import sys, anyio, tenure
url, name, advertise, stubborn = sys.argv[1:]
async def body(term):
    print(term.token, flush=True)
    with anyio.CancelScope(shield=stubborn == "stubborn"):
        await anyio.wait_readable(sys.stdin)
async def main():
    async with tenure.open_store(url) as store:
        await tenure.Election(store, name, ttl=60 if stubborn == "stubborn" else {TTL_S}, advertise=advertise).lead(body)
anyio.run(main)
"""


class Desk:
    """One user with a home folder of their own, and a store in it that need not be named."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.store = home / ".local" / "state" / "tenure" / "tenure.db"
        self.environment = at_home(home)

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "tenure", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE_S,
        )

    def json(self, *arguments: str) -> Any:
        run = self.run(*arguments, "--json")
        assert (run.returncode, run.stderr) == (0, "")
        return json.loads(run.stdout)

    @contextmanager
    def started(self, *arguments: str) -> "Iterator[subprocess.Popen[str]]":
        """A command under way; ended when the block is."""
        with subprocess.Popen(
            [sys.executable, "-m", "tenure", *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    @contextmanager
    def candidate(self, name: str, *, advertise: str = "", stubborn: bool = False) -> "Iterator[subprocess.Popen[str]]":
        self.store.parent.mkdir(parents=True, exist_ok=True)
        program = [sys.executable, "-c", LEADER, f"sqlite://{self.store}", name, advertise]
        with subprocess.Popen(
            [*program, "stubborn" if stubborn else "docile"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    @contextmanager
    def leader(self, name: str, *, advertise: str = "", stubborn: bool = False) -> "Iterator[subprocess.Popen[str]]":
        with self.candidate(name, advertise=advertise, stubborn=stubborn) as process:
            assert line_of(process).strip().isdecimal()
            yield process


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def line_of(process: "subprocess.Popen[str]", *, error: bool = False) -> str:
    """The next line of a process. That it comes at all is for pytest's own timeout to see to."""
    stream = process.stderr if error else process.stdout
    assert stream is not None
    return stream.readline()


def end(process: "subprocess.Popen[str]") -> None:
    """Have a leader end as it should: its body returns and the office is released."""
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(DEADLINE_S) == 0


def eventually(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end_s


def test_status_shows_the_leader_of_another_process(desk: Desk) -> None:
    with desk.leader("billing/close", advertise="http://10.0.0.5:8080") as leader:
        told = desk.json("status")
    assert told["store"] == f"sqlite://{desk.store}"
    [election] = told["elections"]
    assert election["election"] == "billing/close"
    assert (election["leader"]["host"], election["leader"]["pid"]) == (socket.gethostname(), leader.pid)
    assert election["leader"]["holder"].split("/")[1] == str(leader.pid)
    assert (election["token"], election["standbys"], election["resign_asked"]) == (1, [], False)
    assert election["advertised"] == "http://10.0.0.5:8080"
    assert 0 < election["remaining_s"] <= TTL_S
    assert election["since_s"] > 0


def test_status_in_a_pipe_is_columns_for_the_named_elections_in_that_order(desk: Desk) -> None:
    with desk.leader("a") as leader:
        run = desk.run("status", "never/held", "a")
    assert (run.returncode, run.stderr) == (0, "")
    head, never, held = (line.split() for line in run.stdout.splitlines())
    assert head[:3] == ["ELECTION", "LEADER", "TOKEN"]
    assert never[:3] == ["never/held", "nobody", "-"]
    assert held[0] == "a"
    assert held[1].startswith(f"{socket.gethostname()}/{leader.pid}/")


def test_status_counts_those_who_stand_by(desk: Desk) -> None:
    with desk.leader("a"), desk.candidate("a"), desk.candidate("a"):
        eventually(lambda: len(desk.json("status", "a")["elections"][0]["standbys"]) == 2)
        assert " 2  " in desk.run("status").stdout


def test_status_of_the_users_own_store_before_there_is_one_says_so_and_makes_none(desk: Desk) -> None:
    run = desk.run("status")
    assert (run.returncode, run.stdout, run.stderr) == (0, f"no elections yet at sqlite://{desk.store}\n", "")
    assert desk.json("status") == {"store": f"sqlite://{desk.store}", "best_effort": None, "elections": []}
    assert desk.json("status", "a")["elections"][0]["leader"] is None
    assert list(desk.home.iterdir()) == []


def test_the_store_can_be_named_in_every_way(desk: Desk) -> None:
    with desk.leader("a"):
        pass
    copy, url = Desk(desk.home / "other"), f"sqlite://{desk.store}"
    file = desk.home / "tenure.toml"
    file.write_text(f'store = "{url}"', encoding="utf-8")
    found = [copy.json("status", "--store", url), copy.json("status", "--config", str(file))]
    copy.environment["TENURE_STORE"] = url
    assert [told["elections"][0]["election"] for told in [*found, copy.json("status")]] == ["a", "a", "a"]


def test_watch_tells_the_present_and_then_every_change(desk: Desk) -> None:
    with desk.leader("a") as first, desk.started("watch", "--json") as watching:
        present = json.loads(line_of(watching))
        end(first)
        vacant = json.loads(line_of(watching))
        with desk.leader("a") as second:
            elected = json.loads(line_of(watching))
    assert [told["change"] for told in (present, vacant, elected)] == ["present", "vacant", "elected"]
    assert present["leader"]["pid"] == first.pid
    assert (vacant["leader"], vacant["token"]) == (None, None)
    assert (elected["leader"]["pid"], elected["token"]) == (second.pid, 2)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", elected["at"])
    assert present["at"] < vacant["at"] < elected["at"]
    assert elected["store"] == f"sqlite://{desk.store}"


def test_watch_in_a_pipe_is_a_line_for_each_change(desk: Desk) -> None:
    with desk.leader("a", advertise="http://10.0.0.5:8080", stubborn=True) as leader:
        with desk.started("watch", "a") as watching:
            present = line_of(watching)
            assert desk.run("resign", "a").returncode == 0
            asked = line_of(watching)
        who = rf"{re.escape(socket.gethostname())}/{leader.pid}/\w+ with token 1 at http://10\.0\.0\.5:8080"
    assert re.fullmatch(rf"\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{{3}}  a: led by {who} for \S+\n", present)
    assert re.search(rf"  a: asked to resign: {who}\n$", asked)


def test_watch_waits_for_a_store_that_is_not_there_yet_and_makes_none(desk: Desk) -> None:
    with desk.started("watch", "--json") as watching:
        assert line_of(watching, error=True) == f"tenure: no elections yet at sqlite://{desk.store}\n"
        assert list(desk.home.iterdir()) == []
        with desk.leader("a") as leader:
            elected = json.loads(line_of(watching))
    assert (elected["change"], elected["leader"]["pid"]) == ("elected", leader.pid)


def test_watch_says_once_that_the_store_cannot_be_asked_and_goes_on(desk: Desk) -> None:
    with desk.leader("a") as leader:
        end(leader)
    away = desk.store.with_name("away.db")
    with desk.started("watch", "a", "--json") as watching:
        assert json.loads(line_of(watching))["leader"] is None
        desk.store.rename(away)
        trouble = line_of(watching, error=True)
        away.rename(desk.store)
        assert line_of(watching, error=True) == f"tenure: sqlite://{desk.store} answers again\n"
        with desk.leader("a") as second:
            assert json.loads(line_of(watching))["leader"]["pid"] == second.pid
    assert re.fullmatch(r"tenure: sqlite://.*\(still trying\)\n", trouble)


def test_watch_tells_of_an_office_that_was_deleted_from_the_store(desk: Desk) -> None:
    with desk.leader("a", stubborn=True), desk.started("watch", "--json") as watching:
        assert json.loads(line_of(watching))["change"] == "present"
        with closing(sqlite3.connect(desk.store)) as operator, operator:
            operator.execute("DELETE FROM office")
        vacant = json.loads(line_of(watching))
    assert (vacant["change"], vacant["election"], vacant["leader"]) == ("vacant", "a", None)


@pytest.mark.parametrize("column", ["host", "nonce", "advertised"])
def test_a_store_that_holds_what_is_no_text_is_refused_in_one_line(desk: Desk, column: str) -> None:
    with desk.leader("a", stubborn=True):
        with closing(sqlite3.connect(desk.store)) as operator, operator:
            operator.execute(f"UPDATE office SET {column} = x'ff00', expires = expires + 3600000000000")  # noqa: S608
        runs = [desk.run("status"), desk.run("status", "--json")]
        with desk.started("watch", "--json") as watching:
            told = line_of(watching, error=True)
    for run in runs:
        assert (run.returncode, run.stdout) == (69, "")
    for said in (told, *(run.stderr for run in runs)):
        assert re.fullmatch(rf"tenure: sqlite://{desk.store}: elections was refused: .*\n", said)


def test_watch_ends_by_itself_after_the_given_time(desk: Desk) -> None:
    with desk.leader("a"):
        run = desk.run("watch", "--for", "300ms")
        once = desk.run("watch", "--for", "0", "--json")
    assert (run.returncode, run.stderr) == (0, "")
    assert len(run.stdout.splitlines()) == len(once.stdout.splitlines()) == 1


def test_watch_ends_quietly_at_an_interrupt(desk: Desk) -> None:
    with desk.leader("a"), desk.started("watch") as watching:
        line_of(watching)
        watching.send_signal(signal.SIGINT)
        assert watching.communicate(timeout=DEADLINE_S) == ("", "")
        assert watching.returncode == 130


def test_watch_ends_when_nobody_reads_it_any_more(desk: Desk) -> None:
    with desk.leader("a"), desk.started("watch") as watching:
        line_of(watching)
        assert watching.stdout is not None
        watching.stdout.close()
        assert watching.wait(DEADLINE_S) == 74
        assert line_of(watching, error=True) == ""


def test_resign_asks_the_leader_who_leaves(desk: Desk) -> None:
    with desk.leader("a") as leader:
        run = desk.run("resign", "a", "--wait", "50s")
        assert (run.returncode, run.stderr) == (0, "")
        who = rf"{re.escape(socket.gethostname())}/{leader.pid}/\w+ \(token 1\)"
        assert re.fullmatch(rf"asked {who} to leave a\n{who} has left\n", run.stdout)
        assert line_of(leader) == "2\n"  # It stands again, and nobody else does.


def test_resign_without_wait_returns_at_once_and_the_request_is_seen(desk: Desk) -> None:
    with desk.leader("a", stubborn=True) as leader:
        asked = desk.json("resign", "a")
        assert asked["asked"].split("/")[1] == str(leader.pid)
        assert (asked["election"], asked["token"], asked["left"]) == ("a", 1, None)
        assert asked["store"] == f"sqlite://{desk.store}"
        assert desk.json("status", "a")["elections"][0]["resign_asked"]


def test_resign_gives_up_waiting_with_exit_code_75(desk: Desk) -> None:
    with desk.leader("a", stubborn=True):
        run = desk.run("resign", "a", "--wait", "200ms")
        told = desk.run("resign", "a", "--wait", "0", "--json")
    assert run.returncode == told.returncode == 75
    assert re.fullmatch(r"tenure: .* \(token 1\) is still in office\n", run.stderr)
    assert json.loads(told.stdout)["left"] is False


def test_resign_of_an_office_that_nobody_holds_says_so(desk: Desk) -> None:
    run = desk.run("resign", "a", "--wait", "1h")
    assert (run.returncode, run.stdout, run.stderr) == (0, "nobody is in office in a\n", "")
    assert list(desk.home.iterdir()) == []
    with desk.leader("a") as leader:
        end(leader)
    assert desk.json("resign", "a") == {
        "store": f"sqlite://{desk.store}",
        "election": "a",
        "asked": None,
        "token": None,
        "left": None,
    }


def test_an_interrupt_while_waiting_is_one_line_and_exit_code_130(desk: Desk) -> None:
    with desk.leader("a", stubborn=True), desk.started("resign", "a", "--wait", "1h") as waiting:
        assert line_of(waiting).startswith("asked ")
        waiting.send_signal(signal.SIGINT)
        # Click ends the line on which a terminal shows ^C.
        assert waiting.communicate(timeout=DEADLINE_S) == ("", "\ntenure: interrupted\n")
        assert waiting.returncode == 130
