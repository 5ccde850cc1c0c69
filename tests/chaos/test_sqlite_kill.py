"""Twenty processes take turns in one office while some are killed: never two at once, and tokens rise.

The witness knows nothing of the store. Everybody who takes office writes a line into one pipe before it does anything,
and another one before it begins to leave; a pipe keeps the order in which whole lines were written. So the lines of the
pipe must read enter, leave, enter, leave; an entry may follow another one only if the first was killed, or if its
lease had ended by the clock that all processes of a machine share.
"""

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest

from tenure.clock import BootClock
from tenure.errors import Unreachable
from tenure.model import Bid, Grant, Holder, Wait
from tenure.stores.sqlite import SQLiteStore

PROCESSES = 20
TURNS = 200
TTL_NS = 1_500_000_000
PATIENCE = 0.5  # How often who is told to wait does. Whoever does not asks again while somebody is in office.
KILL_EVERY = 300  # tenures: a dozen deaths on the way, every other one in office


class Line(NamedTuple):
    what: str
    pid: int
    token: int
    now: int
    valid_until: int


async def contend(path: str, pipe: int, turns: int) -> None:
    """Take office ``turns`` times, and leave it each time."""
    clock, holder = BootClock(), Holder.fresh()

    def say(what: str, token: int, valid_until: int) -> None:
        os.write(pipe, f"{what} {os.getpid()} {token} {clock.now()} {valid_until}\n".encode())

    try:
        async with SQLiteStore(path) as store:
            for serial in range(1, turns + 1):
                bid = Bid("office", holder, serial, TTL_NS)
                grant, valid_until = await take(store, bid, clock)
                say("enter", grant.token, valid_until)
                with suppress(Unreachable):
                    kept = await store.renew(grant)  # Time in which somebody else could wrongly come in.
                    assert kept == grant or clock.now() >= valid_until, f"{kept} within the validity of {grant}"
                say("leave", grant.token, valid_until)
                with suppress(Unreachable):  # Then it lapses.
                    await store.release(bid)
    finally:
        say("end", 0, 0)  # However it ends: who reads the pipe must not wait for one that has failed.


async def take(store: SQLiteStore, bid: Bid, clock: BootClock) -> tuple[Grant, int]:
    while True:
        sent_at = clock.now()
        try:
            answer = await store.claim(bid)
            if isinstance(answer, Wait):
                if random.random() < PATIENCE:
                    await store.changed(answer)
            elif clock.now() < sent_at + TTL_NS:  # As any holder does: a grant that came too late is not acted on.
                return answer, sent_at + TTL_NS
        except Unreachable:
            continue  # Twenty at one lock: somebody may come away empty-handed, which is said and does no harm.


@dataclass
class Fleet:
    """The processes, the pipe that they all write to, and how many turns each of those that run has left."""

    path: Path
    processes: dict[int, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    turns_left: dict[int, int] = field(default_factory=dict)
    killed: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        inlet, self.outlet = os.pipe()
        self.pipe = os.fdopen(inlet)
        for _ in range(PROCESSES):
            self.start(TURNS)

    def start(self, turns: int) -> None:
        command = [sys.executable, __file__, str(self.path), str(self.outlet), str(turns)]
        process = subprocess.Popen(command, pass_fds=[self.outlet])
        self.processes[process.pid], self.turns_left[process.pid] = process, turns

    def lines(self) -> Iterator[Line]:
        """What is written by those in office, until the last process has ended."""
        while self.turns_left:
            what, *numbers = self.pipe.readline().split()
            line = Line(what, *map(int, numbers))
            if line.what == "end":
                self.turns_left.pop(line.pid, None)
                continue
            if line.what == "leave" and line.pid not in self.killed:
                self.turns_left[line.pid] -= 1
            yield line

    def kill(self, pid: int) -> None:
        """Kill a process in whatever it is doing, and have another one do what it left undone."""
        self.processes[pid].send_signal(signal.SIGKILL)
        self.processes[pid].wait()
        self.killed.add(pid)
        self.start(self.turns_left.pop(pid))

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
        os.close(self.outlet)
        self.pipe.close()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    # In memory if there is such a folder. What a process had written when it was killed is kept either way, and a disk
    # that many share may stall for seconds under four thousand syncs.
    memory = Path("/dev/shm")  # noqa: S108
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as folder:
        fleet = Fleet(Path(folder, "office.db"))
        yield fleet
        fleet.end()


def test_never_two_in_office_and_tokens_rise_while_processes_are_killed(fleet: Fleet) -> None:
    chance = random.Random(4)
    in_office: Line | None = None
    tokens = [0]
    for line in fleet.lines():
        if line.what == "enter":
            assert in_office is None or in_office.pid in fleet.killed or line.now >= in_office.valid_until, (
                f"{line} came while {in_office} was in office"
            )
            assert line.token > tokens[-1]
            in_office = line
            tokens.append(line.token)
            if len(tokens) % KILL_EVERY == 0:
                in_its_office = len(tokens) % (2 * KILL_EVERY) == 0 and line.pid in fleet.turns_left
                fleet.kill(line.pid if in_its_office else chance.choice(list(fleet.turns_left)))
        elif in_office is not None and line.token == in_office.token:
            in_office = None
    assert len(tokens) > PROCESSES * TURNS
    assert len(fleet.killed) >= PROCESSES * TURNS // KILL_EVERY
    exit_codes = {pid: process.wait() for pid, process in fleet.processes.items() if pid not in fleet.killed}
    assert set(exit_codes.values()) == {0}
    with closing(sqlite3.connect(fleet.path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("SELECT last_token FROM store").fetchone()[0] >= tokens[-1]


if __name__ == "__main__":
    asyncio.run(contend(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
