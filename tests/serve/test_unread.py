"""Who holds a stream and reads little or nothing of it: how much of that is a reason to end its connection."""

import asyncio
from contextlib import closing

import pytest

from tenure.serve import connection
from tenure.serve.connection import Connections
from tenure.serve.hub import PENDING_BYTES_MAX
from tests.serve.inside import BEARER, inside
from tests.serve.wire import Wire


@pytest.mark.parametrize(("setting", "least"), [("READ_WITHIN_S", 0.0), ("UNREAD_MAX", 0)])
def test_who_leads_by_a_stream_that_it_does_not_read_goes_on_leading(
    setting: str, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, setting, least)

    async def main() -> None:
        async with inside() as there:
            stood = await there.stand(ttl_s=60, keep_s=60)
            await there.wait(stood["id"])
            with closing(Wire(there, Connections())) as wire:
                wire.ask(f"/v1/candidacies/{stood['id']}/stream")
                await wire.until_written(b'"state":"leading"')
                wire.stop()
                for _ in range(10):  # As often as it takes to be closed and told of it.
                    await asyncio.sleep(0.001)
                beat = (await there.client.post(f"/v1/candidacies/{stood['id']}/heartbeat", headers=BEARER)).json()
                assert (beat["state"], wire.is_closed) == ("leading", False)
                # It is the office that hangs on it, and not the connection: of that the next answer is to be read as any other.
                wire.read()
                await there.client.delete(f"/v1/candidacies/{stood['id']}", headers=BEARER)
                await wire.until_written(b"\r\n0\r\n\r\n")
                wire.ask("/v1/board")
                wire.stop()
                async with asyncio.timeout(10):
                    while not wire.is_closed:  # noqa: ASYNC110  (nobody tells)
                        await asyncio.sleep(0.001)

    asyncio.run(main())


@pytest.mark.parametrize(("setting", "least"), [("READ_WITHIN_S", 0.0), ("UNREAD_MAX", 0)])
def test_a_stream_that_nobody_reads_goes_when_its_candidacy_is_over_and_not_while_something_is_promised(
    setting: str, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, setting, least)

    async def main() -> None:
        async with inside() as there, asyncio.timeout(10):
            stood = await there.stand(ttl_s=60, keep_s=60)
            await there.wait(stood["id"])
            connections = Connections()
            with closing(Wire(there, connections)) as wire:
                wire.ask(f"/v1/candidacies/{stood['id']}/stream")
                await wire.until_written(b'"state":"leading"')
                wire.stop()
                there.sidecar.register.get(str(stood["id"])).dismiss("asked")
                await there.wait(stood["id"], "leading")
                for _ in range(10):  # As often as it takes to be closed and told of it.
                    await asyncio.sleep(0.001)
                beat = (await there.client.post(f"/v1/candidacies/{stood['id']}/heartbeat", headers=BEARER)).json()
                assert (beat["state"], beat["valid_for_s"] > 0, wire.is_closed) == ("lost", True, False)
                await there.client.delete(f"/v1/candidacies/{stood['id']}", headers=BEARER)
                while len(connections.crowd):  # noqa: ASYNC110  (nobody tells)
                    await asyncio.sleep(0.001)
                assert wire.is_closed
                assert not connections.unread

    asyncio.run(main())


def test_who_reads_its_stream_in_time_is_told_how_its_candidacy_ended_and_keeps_its_connection() -> None:
    async def main() -> None:
        async with inside() as there, asyncio.timeout(10):
            stood = await there.stand(ttl_s=60, keep_s=60)
            await there.wait(stood["id"])
            connections = Connections()
            with closing(Wire(there, connections)) as wire:
                wire.ask(f"/v1/candidacies/{stood['id']}/stream")
                await wire.until_written(b'"state":"leading"')
                wire.stop()
                await there.client.delete(f"/v1/candidacies/{stood['id']}", headers=BEARER)
                while not connections.unread:  # noqa: ASYNC110  (nobody tells)
                    await asyncio.sleep(0)
                assert b'"state":"ended"' not in wire.written
                wire.read()
                await wire.until_written(b"\r\n0\r\n\r\n")
                assert b'"state":"ended"' in wire.written
                assert (list(connections.unread), wire.is_closed) == ([], False)

    asyncio.run(main())


def test_who_listens_and_has_read_what_it_had_missed_is_not_one_of_those_who_do_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "READ_WITHIN_S", 0.0)

    async def main() -> None:
        async with inside() as there, asyncio.timeout(10):
            hub, connections = there.sidecar.hub, Connections()
            since = hub.last_id
            hub.publish("fact", {"n": "x" * 1_000_000})
            with closing(Wire(there, connections)) as wire:
                wire.ask(f"/v1/events?last_event_id={since}")
                await wire.until_written(b"xxx")
                for _ in range(10):
                    await asyncio.sleep(0.001)
                assert list(connections.unread) == [wire.protocol], "all of it is before it, and the hub sees to that"
                # It is never up to date, as more comes while it reads, and never far behind.
                wire.pending = PENDING_BYTES_MAX
                while connections.unread:  # noqa: ASYNC110  (nobody tells)
                    await asyncio.sleep(0)
                assert not wire.is_closed
                assert len(hub.clients) == len(connections.crowd) == 1

    asyncio.run(main())
