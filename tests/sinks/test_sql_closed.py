"""A sink is closed while others wait for its connections, or give them back."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from psycopg.pq import ConnStatus

from tenure.errors import ConfigError
from tenure.model import Token
from tenure.sinks.postgresql import PostgresSink, PsycopgSink
from tenure.testing.engines import PostgresCluster
from tests.sinks.warmed import warm


@pytest.fixture
def term(request: pytest.FixtureRequest) -> SimpleNamespace:
    return SimpleNamespace(fence=str(request.node.name), token=Token(1))


def test_who_waited_for_room_in_a_sink_that_was_closed_meanwhile_is_told_so(
    postgresql: PostgresCluster, term: SimpleNamespace
) -> None:
    async def on_loop() -> None:
        sink = PostgresSink(postgresql.url, connections_max=1)
        async with sink.transaction(term):
            waiting = asyncio.ensure_future(warm(sink, term))
            while not sink._room.statistics().tasks_waiting:  # noqa: ASYNC110  (it has no event)
                await asyncio.sleep(0)
            await sink.close()
        with pytest.raises(ConfigError, match="closed"):
            await waiting
        await sink.close()

    asyncio.run(on_loop())


def test_a_thread_gives_a_connection_back_before_there_is_room_for_another(
    postgresql: PostgresCluster, term: SimpleNamespace
) -> None:
    with PsycopgSink(postgresql.url, connections_max=1) as sink:
        kept_then: list[int] = []
        release = sink._room.release

        def noting() -> None:
            kept_then.append(len(sink._idle))
            release()

        vars(sink._room)["release"] = noting
        with sink.transaction(term):
            pass
        assert kept_then == [1]


def test_a_connection_that_is_given_back_while_its_sink_is_closed_is_closed(
    postgresql: PostgresCluster, term: SimpleNamespace
) -> None:
    class ClosedBetween(list[Any]):
        """Closed by another thread, which finds nothing, as a connection is about to be added."""

        def append(self, one: Any) -> None:
            sink.close()
            super().append(one)

    sink = PsycopgSink(postgresql.url)
    vars(sink)["_idle"] = ClosedBetween()
    with sink.transaction(term) as connection:
        pgconn = connection.pgconn
    assert pgconn.status == ConnStatus.BAD
    assert not sink._idle
