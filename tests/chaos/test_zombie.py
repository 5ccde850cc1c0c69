"""A leader that was frozen past its lease cannot write: on real clusters, into the engine itself and into a database.

That the same game without a fence ends in writes of zombies is shown in ``test_matrix.py``, with all pairs of engines and sinks.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.game import Game, play
from tests.chaos.place import descents
from tests.chaos.places import PLACES, InSQLite

# Twenty rounds for an engine, or ten: a round mostly waits for a lease to end, so elections run side by side.
ELECTIONS = 5


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("engine", "rounds"), [("etcd", 4), ("zookeeper", 4), ("consul", 2), ("kubernetes", 2)])
def test_no_write_of_a_zombie_is_accepted(engine: str, rounds: int, tmp_path: Path) -> None:
    with PLACES[engine](tmp_path, 3) as place:
        targets = {engine: place, "sqlite": InSQLite(tmp_path)}
        games = [Game(place, f"z{number}", targets, tmp_path, fenced=True) for number in range(ELECTIONS)]

        async def run() -> list[list[dict[str, Any]]]:
            return await asyncio.gather(*(play(game, rounds) for game in games))

        for game, told in zip(games, asyncio.run(run()), strict=True):
            zombies = {word["token"] for word in told}
            assert len(zombies) == rounds
            assert [word["valid"] for word in told if word["event"] == "woke"] == [False] * rounds
            assert sum(word["event"] == "refused" for word in told) == 2 * rounds
            for target in targets.values():
                tokens = target.written(game.election)
                assert zombies <= set(tokens)  # Before it was one, each has written.
                assert descents(tokens) == 0
