"""The workload with which Jepsen measured locks: clients add to a set that they read and write back under a lock.

Each round a client is frozen between its read and its write until others have the lock and have added. Then it writes what it
has. With a lock alone that takes from the set what the others were told is in it; with a fence it is refused.
"""

import asyncio
import json
from pathlib import Path

import pytest

from tenure.testing.engines import EtcdCluster
from tests.chaos.results import Record, record_line
from tests.chaos.speaker import PATIENCE_S, Speaker

CLIENTS, ROUNDS = 3, 5


async def freeze_between_read_and_write(client: Speaker, state: Path) -> int:
    """Stop a client when it has read and has not written; returns the token of its lock."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            token: int = (await client.says(event="read"))["token"]
            client.stop()
            if _said_in(state) == f"{token} has read":
                return token
            client.go_on()


def _said_in(state: Path) -> str:
    return state.read_text()


async def play(url: str, fence: str, folder: Path) -> set[int]:
    """Freeze one client after the other, and return the elements that any of them was told to be in the set."""
    states = [folder / f"{fence}.{number}" for number in range(CLIENTS)]
    clients = [await Speaker.start("tests.chaos.adder", url, fence, str(state), fence) for state in states]
    try:
        for number in range(ROUNDS):
            frozen = clients[number % CLIENTS]
            stale = await freeze_between_read_and_write(frozen, states[number % CLIENTS])
            others = [client for client in clients if client is not frozen]
            added = [asyncio.ensure_future(client.says(above=stale, event="added")) for client in others]
            await asyncio.wait(added, return_when=asyncio.FIRST_COMPLETED)
            frozen.go_on()
            await frozen.says(event="refused" if fence == "fenced" else "added", token=stale)
            await asyncio.gather(*added)
    finally:
        for client in clients:
            await client.end()
    return {word["element"] for client in clients for word in client.said if word["event"] == "added"}


def lost(cluster: EtcdCluster, name: str, added: set[int]) -> set[int]:
    """The elements that somebody was told to be in the set, and that are not."""
    return added - set(json.loads(cluster.ctl("get", f"set/{name}", "--print-value-only")))


@pytest.mark.timeout(240)
def test_a_set_under_a_lock_loses_nothing_with_a_fence_and_something_without(
    tmp_path: Path, record_property: Record
) -> None:
    with EtcdCluster() as cluster:

        async def both() -> list[set[int]]:
            return await asyncio.gather(*(play(cluster.url, fence, tmp_path) for fence in ("fenced", "unfenced")))

        with_fence, without = asyncio.run(both())
        assert len(with_fence) > ROUNDS
        lost_with, lost_without = lost(cluster, "fenced", with_fence), lost(cluster, "unfenced", without)
        counted = f"{len(lost_with)} of {len(with_fence)} with a fence, {len(lost_without)} of {len(without)} without"
        record_line(record_property, f"added to a set under a lock, and lost: {counted}")
        assert lost_with == set()
        assert len(lost_without) >= ROUNDS
