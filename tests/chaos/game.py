"""The game with zombies: two processes share an election, and whoever leads is frozen until the other leads and has written.

Then it goes on where it was, with a writer that nobody can stop (``zombie.py``). What counts is what can be read afterwards:
tokens never go down in the order in which the writes landed.
"""

import asyncio
import fcntl
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos.place import Place
from tests.chaos.speaker import PATIENCE_S, Speaker


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


class Candidate(Speaker):
    """One process of a game. ``busy`` is what it locks while it writes."""

    busy: Path

    async def freeze(self, places: list[Place]) -> None:
        """Stop it between two of its writes: who is frozen with a lock on a file keeps everybody from writing to it."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                self.stop()
                if not self._is_writing() and not any(place.blocked() for place in places):
                    return
                self.go_on()
                await asyncio.sleep(0.001)

    def _is_writing(self) -> bool:
        with self.busy.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False


async def _start(game: Game, number: int) -> Candidate:
    candidate = await Candidate.start("tests.chaos.zombie", game.order(number))
    candidate.busy = game.busy(number)
    return candidate


async def play(game: Game, rounds: int) -> list[dict[str, Any]]:
    """Freeze whoever leads, again and again, and return what the zombies said after they woke."""
    for place in game.targets.values():
        place.prepare(game.election)
    leader = await _start(game, 1)
    token = (await leader.says(event="leads"))["token"]
    standby = await _start(game, 2)
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
            leader.go_on()
            told += [await leader.says(event=event, token=stale) for event in ("woke", "ended")]
            told += [await leader.says(event=game.after_it_woke, token=stale, sink=sink) for sink in game.targets]
            leader, standby = standby, leader
    finally:
        for candidate in (leader, standby):
            await candidate.end()
    return told
