"""From one supervisor to the next: the command never runs twice at a time, whatever becomes of who ran it.

The commands write their token into one file, every two milliseconds. Each line is appended by one write, so the order of
the lines is the order of the writes: if a command wrote after its successor, the tokens would not rise.
"""

import asyncio
import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.processes import alive, check_eventually, freeze, marked
from tests.supervisors import Supervisor, Supervisors

from tenure.stores.sqlite import SQLiteStore

# Arguments: the file, and how to behave. ``stubborn`` ignores TERM and ``polite`` says goodbye; ``two`` has a second process
# in the group; ``brief`` ends when there has been enough.
WRITER = """
import os, signal, sys, time
def goodbye(*_):
    write("goodbye-" + who)
    sys.exit()
def write(who): os.write(lines, f"{os.environ['TENURE_TOKEN']} {who} {os.getpid()}\\n".encode())
if "polite" in sys.argv: signal.signal(signal.SIGTERM, goodbye)
if "stubborn" in sys.argv: signal.signal(signal.SIGTERM, signal.SIG_IGN)
who = "grandchild" if "two" in sys.argv and os.fork() == 0 else "child"
lines = os.open(sys.argv[1], os.O_APPEND | os.O_CREAT | os.O_WRONLY)
while True:
    write(who)
    if "brief" in sys.argv and who == "child" and os.path.exists("enough"): sys.exit(3)
    time.sleep(0.002)
"""


class Stage(Supervisors):
    def start(self, ttl_s: float, *behaviour: str, words: tuple[str, ...] = ("run",)) -> Supervisor:
        return self.launch(*words, "x", "--ttl", f"{ttl_s}", program=WRITER, arguments=behaviour)

    def lines(self) -> list[tuple[int, str, int]]:
        return [(int(token), who, int(pid)) for token, who, pid in self.words()]

    def tokens(self) -> list[int]:
        return [token for token, _, _ in self.lines()]

    def pid(self, who: str) -> int:
        """The process that wrote last as ``who``, once there is one."""
        check_eventually(lambda: any(name == who for _, name, _ in self.lines()))
        return [pid for _, name, pid in self.lines() if name == who][-1]

    def await_successor(self) -> None:
        """Wait until the command has been started under a larger token, and has written for a while."""
        before = max(self.tokens())
        check_eventually(lambda: sum(token > before for token in self.tokens()) > 20)

    def has_said(self, text: str, count: int) -> bool:
        return self.errors().count(text) == count

    def ask_to_resign(self) -> None:
        async def ask() -> None:
            async with SQLiteStore(self.folder / "store.db") as store:
                await store.ask_to_resign("x")

        asyncio.run(ask())


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    stage.end()
    assert stage.tokens() == sorted(stage.tokens())


def test_over_several_hand_overs_the_command_never_runs_twice_at_a_time(stage: Stage) -> None:
    for _ in range(2):
        stage.start(4, "polite", "two")  # with time to say goodbye, also on a busy machine
    stage.pid("child")
    for _ in range(4):
        stage.ask_to_resign()
        stage.await_successor()
    asked = [token for token, who, _ in stage.lines() if who == "goodbye-child"]
    assert asked == sorted(set(stage.tokens()))[:4]  # None was killed without having been asked.
    assert stage.errors().count("resigned; stopping the command") == 4
    assert len(set(stage.tokens())) == 5


def test_a_leader_that_is_told_to_end_makes_way_at_once(stage: Stage) -> None:
    leader = stage.start(30)
    stage.pid("child")
    stage.start(30)
    check_eventually(lambda: "standing by" in stage.errors())
    leader.terminate()
    stage.await_successor()  # which does not wait for a lease of half a minute
    assert leader.wait() == 128 + signal.SIGTERM


def test_the_command_of_a_frozen_supervisor_is_dead_before_the_next_one_begins(stage: Stage) -> None:
    frozen = stage.start(2, "stubborn", "two")
    child = stage.pid("child")
    stage.start(2)
    freeze(frozen.pid, stage.folder / "store.db")
    stage.await_successor()
    assert not alive(child)
    frozen.send_signal(signal.SIGCONT)
    check_eventually(lambda: "lost x (token 1)" in stage.errors())
    check_eventually(lambda: f"/{stage.started[1].pid}/" in stage.errors())  # It stands by again.
    assert frozen.poll() is None


def test_a_killed_supervisor_takes_child_and_grandchild_along_at_once(stage: Stage) -> None:
    supervisor = stage.start(3600, "stubborn", "two")
    child, grandchild = stage.pid("child"), stage.pid("grandchild")
    supervisor.kill()
    check_eventually(lambda: not alive(child) and not alive(grandchild))  # long before its lease ends


def test_a_supervisor_killed_while_it_starts_the_command_leaves_nothing_running(stage: Stage) -> None:
    for count in range(1, 6):
        supervisor = stage.start(3600, words=("run", "--once"))
        check_eventually(partial(stage.has_said, "elected", count))
        supervisor.kill()
        supervisor.wait()
        check_eventually(lambda: not marked(stage.mark))
        (stage.folder / "store.db").unlink()  # The lease would last for an hour.
        (stage.folder / "lines").write_text("")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_guardian_that_was_killed_or_frozen_is_replaced(stage: Stage, number: signal.Signals) -> None:
    supervisor = stage.start(1, "stubborn")
    child = stage.pid("child")
    (guardian,) = [pid for pid in marked(stage.mark) if pid not in (child, supervisor.pid)]
    os.kill(guardian, number)
    check_eventually(lambda: not alive(guardian))
    check_eventually(lambda: len(marked(stage.mark)) == 3)
    count = len(stage.lines())
    check_eventually(lambda: len(stage.lines()) > count + 200)  # The new one lets the command go on …
    supervisor.kill()  # … and guards it.
    check_eventually(lambda: not alive(child))


def test_a_command_that_ignores_term_is_killed_before_the_next_one_begins(stage: Stage) -> None:
    stage.start(1, "stubborn")
    child = stage.pid("child")
    stage.start(1)
    stage.ask_to_resign()
    stage.await_successor()
    assert not alive(child)


def test_a_grandchild_that_outlives_its_parent_is_killed_before_the_office_is_released(stage: Stage) -> None:
    leader = stage.start(30, "brief", "two")
    grandchild = stage.pid("grandchild")
    stage.start(30)
    check_eventually(lambda: "standing by" in stage.errors())
    (stage.folder / "enough").touch()
    stage.await_successor()
    assert not alive(grandchild)
    assert leader.wait() == 3


@pytest.mark.parametrize("words", [("run", "--once"), ("lock",)])
def test_an_office_that_is_lost_for_good_is_124(stage: Stage, words: tuple[str, ...]) -> None:
    leader = stage.start(1, words=words)
    stage.pid("child")
    stage.ask_to_resign()
    assert leader.wait() == 124


def test_a_leader_whose_store_has_gone_stops_its_command_and_stands_by(stage: Stage) -> None:
    leader = stage.start(4)
    child = stage.pid("child")
    (stage.folder / "store.db").rename(stage.folder / "elsewhere.db")
    check_eventually(lambda: "store-gone; stopping the command" in stage.errors())
    check_eventually(lambda: not alive(child))
    check_eventually(lambda: "trying again" in stage.errors())
    leader.terminate()
    assert leader.wait() == 128 + signal.SIGTERM
