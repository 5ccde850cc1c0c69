"""A leader that was frozen past its lease cannot write: on real clusters, into the engine itself and into a database.

That the same game without a fence ends in writes of zombies is shown in ``test_matrix.py``, with all pairs of engines and sinks.
"""

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.game import Game, play
from tests.chaos.place import descents
from tests.chaos.places import PLACES

# Twenty rounds for an engine, or ten: a round mostly waits for a lease to end, so elections run side by side.
ELECTIONS = 5


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("engine", "databases", "rounds"),
    [
        ("etcd", ["sqlite", "postgresql"], 4),
        ("zookeeper", ["sqlite", "postgresql"], 4),
        ("consul", ["sqlite"], 2),
        ("kubernetes", ["sqlite"], 2),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_no_write_of_a_zombie_is_accepted(engine: str, databases: list[str], rounds: int, tmp_path: Path) -> None:
    with ExitStack() as running:
        targets = {kind: running.enter_context(PLACES[kind](tmp_path, 3)) for kind in [engine, *databases]}
        place = targets[engine]
        games = [Game(place, f"z{number}", targets, tmp_path, fenced=True) for number in range(ELECTIONS)]

        async def run() -> list[list[dict[str, Any]]]:
            return await asyncio.gather(*(play(game, rounds) for game in games))

        for game, told in zip(games, asyncio.run(run()), strict=True):
            zombies = {word["token"] for word in told}
            assert len(zombies) == rounds
            assert [word["valid"] for word in told if word["event"] == "woke"] == [False] * rounds
            assert sum(word["event"] == "refused" for word in told) == len(targets) * rounds
            for target in targets.values():
                tokens = target.written(game.election)
                assert zombies <= set(tokens)  # Before it was one, each has written.
                assert descents(tokens) == 0
