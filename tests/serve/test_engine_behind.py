"""Strangers ask the engine more than it answers: what that costs who has the token."""

import asyncio
from contextlib import ExitStack, closing

import pytest

from tenure.serve.connection import Connections
from tenure.serve.crowd import Crowd
from tenure.serve.sidecar import ASKING_MAX
from tests.serve.inside import inside
from tests.serve.wire import Wire

HISTORY = "/v1/elections/jobs/history"


@pytest.mark.parametrize("more", [(), (b"GET",)], ids=["as they are", "and have begun to ask for more"])
def test_who_waits_for_the_engine_is_closed_before_a_heartbeat_that_was_not_read_yet(
    more: tuple[bytes, ...],
) -> None:
    async def main() -> None:
        connections = Connections(Crowd(3, 1))
        async with inside() as there, asyncio.timeout(20):
            held = await there.wait((await there.stand(ttl_s=60, keep_s=60))["id"])
            for _ in range(ASKING_MAX):
                await there.sidecar.asking.acquire()
            with ExitStack() as stack:
                listens, first, second = (stack.enter_context(closing(Wire(there, connections))) for _ in range(3))
                for wire, path in ((listens, "/v1/events"), (first, HISTORY), (second, HISTORY)):
                    wire.ask(path)
                while len(there.sidecar.asking._waiters or ()) < 2:  # noqa: ASYNC110  (nobody tells)
                    await asyncio.sleep(0)
                for content in more:
                    first.protocol.data_received(content)
                    second.protocol.data_received(content)
                beats, comes = (stack.enter_context(closing(Wire(there, connections))) for _ in range(2))
                assert (first.is_closed, second.is_closed) == (True, True)
                assert not any(wire.is_closed for wire in (listens, beats, comes))
                beats.ask(f"/v1/candidacies/{held['id']}")
                await beats.until_written(b'"state":"leading"')

    asyncio.run(main())


def test_who_asks_again_without_reading_is_closed_before_a_heartbeat_that_was_not_read_yet() -> None:
    async def main() -> None:
        connections = Connections(Crowd(2, 1))
        async with inside() as there, asyncio.timeout(20):
            with ExitStack() as stack:
                unread = stack.enter_context(closing(Wire(there, connections)))
                unread.ask("/health")
                await unread.until_written(b"healthy")
                unread.stop()
                unread.ask("/health")  # It is not answered before there is room.
                stack.enter_context(closing(Wire(there, connections)))
                beats = stack.enter_context(closing(Wire(there, connections)))
                assert (unread.is_closed, beats.is_closed) == (True, False)

    asyncio.run(main())
