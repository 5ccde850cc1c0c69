"""Every kind of store with every kind of sink: a zombie's writes are refused in all of them, and without a fence in none.

One row of the matrix is one test: its leaders write to all sinks at once. That of Sentinels shows the way to the store, which is that of
``redis://``; what a failover does there is shown by the tests of Redis. ``make test-matrix`` prints the whole table: how many stale writes were tried, how many of them landed, and how many
landed where there was no fence.
"""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.chaos.game import Game, play
from tests.chaos.more_triggers import InMySQLTriggers, InSQLiteTriggers
from tests.chaos.outside import InS3
from tests.chaos.place import Place, descents
from tests.chaos.places import PLACES, STORES, InMariaDb, InPostgres
from tests.chaos.results import Cell, Record, record_row
from tests.chaos.triggers import InTriggers

ROUNDS = 2


# Not for the whole session: a client of kazoo that is left running draws from everybody's random numbers.
@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Place]]:
    """One of each, with one node: who votes for what has no part in this."""
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("matrix")
        found = {kind: stack.enter_context(start(folder, 1)) for kind, start in PLACES.items()}
        in_postgres, in_mysql = found["postgresql"], found["mysql"]
        assert isinstance(in_postgres, InPostgres)
        assert isinstance(in_mysql, InMariaDb)
        yield found | {
            "pg-trigger": InTriggers(in_postgres.cluster),
            "mysql-trigger": InMySQLTriggers(in_mysql.cluster),
            "sqlite-trigger": InSQLiteTriggers(folder),
        }


def heading(kind: str, place: Place) -> str:
    """What a sink is called in the table; of S3 there is more than one server, and not all are real."""
    return f"{kind} ({place.served_by})" if isinstance(place, InS3) else kind


@pytest.mark.timeout(240)
@pytest.mark.parametrize("store", STORES)
def test_a_zombie_is_refused_by_every_sink(
    store: str, places: dict[str, Place], tmp_path: Path, record_property: Record
) -> None:
    targets = {kind: place for kind, place in places.items() if place.target}
    fenced = Game(places[store], f"fenced-{store}", targets, tmp_path, fenced=True)
    control = Game(places[store], f"control-{store}", targets, tmp_path, fenced=False)

    async def both() -> list[str]:
        games = await asyncio.gather(play(fenced, ROUNDS), play(control, 1))
        return [word["sink"] for word in games[0] if word["event"] == "refused"]

    refused = asyncio.run(both())
    row = {
        kind: Cell(
            tried=refused.count(kind),
            accepted=descents(place.written(fenced.election)),
            accepted_without=descents(place.written(control.election)),
        )
        for kind, place in targets.items()
    }
    record_row(record_property, store, {heading(kind, targets[kind]): cell for kind, cell in row.items()})
    for kind, cell in row.items():
        assert cell.tried == ROUNDS, kind
        assert cell.accepted == 0, kind
        assert cell.accepted_without > 0, kind
