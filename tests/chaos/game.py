"""The game with zombies: two processes share an election, and whoever leads is frozen until the other leads and has written.

Then it goes on where it was, with a writer that nobody can stop (``zombie.py``). What counts is what can be read afterwards:
tokens never go down in the order in which the writes landed.
"""

import asyncio
import fcntl
import json
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenure.testing.engines.processes import wait_for
from tests.chaos.places import Place

PATIENCE_S = 60


@dataclass(frozen=True)
class Game:
    """One election in ``store``, whose leaders write to ``targets``, fenced or not. Its files are in ``folder``."""

    store: Place
    election: str
    targets: dict[str, Place]
    folder: Path
    fenced: bool

    def order(self, number: int) -> str:
        """What one of its processes is told."""
        return json.dumps(
            {
                "store": self.store.store,
                "election": self.election,
                "targets": {kind: place.target for kind, place in self.targets.items()},
                "busy": str(self.busy(number)),
                "fenced": self.fenced,
            }
        )

    def busy(self, number: int) -> Path:
        """What one of its processes locks while it writes."""
        return self.folder / f"{self.election}-{number}"

    @property
    def after_it_woke(self) -> str:
        """What becomes of the writes of a zombie."""
        return "refused" if self.fenced else "accepted"


class Candidate:
    """One process and what it has said."""

    def __init__(self, process: Process, busy: Path) -> None:
        self.process, self.busy = process, busy
        self.said: list[dict[str, Any]] = []
        self.frozen_at_s = 0.0
        self._news = asyncio.Condition()
        self._listener = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, game: Game, number: int) -> "Candidate":
        command = [sys.executable, "-m", "tests.chaos.zombie", game.order(number)]
        return cls(await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE), game.busy(number))

    async def _listen(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            async with self._news:
                self.said.append(json.loads(line))
                self._news.notify_all()

    async def says(self, above: int = 0, **due: Any) -> dict[str, Any]:
        """Return the first word that it has said since it was last frozen, or will say, with these parts and such a token."""

        def fits(word: dict[str, Any]) -> bool:
            return word["at_s"] >= self.frozen_at_s and word["token"] > above and word | due == word

        async with self._news:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await self._news.wait_for(lambda: any(map(fits, self.said)))
            except TimeoutError:
                raise AssertionError(f"nothing like {due} above {above} among {self.said[-20:]}") from None
        return next(filter(fits, self.said))

    async def freeze(self, places: list[Place]) -> None:
        """Stop it between two of its writes: who is frozen with a lock on a file keeps everybody from writing to it."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                self._stop()
                if not self._is_writing() and not any(place.blocked() for place in places):
                    self.frozen_at_s = time.monotonic()
                    return
                self.signal(signal.SIGCONT)
                await asyncio.sleep(0.001)

    def _stop(self) -> None:
        self.signal(signal.SIGSTOP)
        threads = Path(f"/proc/{self.process.pid}/task")
        assert wait_for(lambda: all(_state(thread) == "T" for thread in threads.iterdir()), PATIENCE_S)

    def _is_writing(self) -> bool:
        with self.busy.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    async def end(self) -> None:
        self.signal(signal.SIGCONT)
        assert self.process.stdin is not None
        self.process.stdin.close()
        await self.process.wait()
        await self._listener


async def play(game: Game, rounds: int) -> list[dict[str, Any]]:
    """Freeze whoever leads, again and again, and return what the zombies said after they woke."""
    for place in game.targets.values():
        place.prepare(game.election)
    leader = await Candidate.start(game, 1)
    token = (await leader.says(event="leads"))["token"]
    standby = await Candidate.start(game, 2)
    told: list[dict[str, Any]] = []
    try:
        for _ in range(rounds):
            stale = token
            for sink in game.targets:
                await leader.says(event="wrote", token=stale, sink=sink)
            await leader.freeze([game.store, *game.targets.values()])
            token = (await standby.says(above=stale, event="leads"))["token"]
            for sink in game.targets:
                await standby.says(event="wrote", token=token, sink=sink)
            leader.signal(signal.SIGCONT)
            told += [await leader.says(event=event, token=stale) for event in ("woke", "ended")]
            told += [await leader.says(event=game.after_it_woke, token=stale, sink=sink) for sink in game.targets]
            leader, standby = standby, leader
    finally:
        for candidate in (leader, standby):
            await candidate.end()
    return told


def _state(thread: Path) -> str:
    """What a thread does, as the kernel has it: the word behind its name, which stands in brackets."""
    return (thread / "stat").read_text().rpartition(")")[2].split()[0]
