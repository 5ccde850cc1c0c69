"""What a history costs: the process that leads, per heartbeat and per fact; and its store, per tenure."""

import time
from statistics import median

import anyio
from rows import Figures, exactly

from tenure.apps.history import Recorder, keep
from tenure.apps.history.notes import Notes
from tenure.election import Election
from tenure.facts import publish
from tenure.facts.kinds import Elected, Fact, Renewed
from tenure.facts.subscribing import subscriptions
from tenure.model import Bid, Conflict, Document, Holder, Token, Version
from tenure.office.tenure import Tenure
from tenure.stores.memory import MemoryStore
from tenure.timing import DEFAULT_HEARTBEAT_S

_ELECTIONS, _HEARTBEATS = 10_000, 30
_BLOCKS, _BLOCK = 200, 20
_TENURES = 5  # as many as are written at once


class _Counting(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.fetch_count = self.swap_count = 0

    async def fetch(self, key: str) -> Document | None:
        self.fetch_count += 1
        return await super().fetch(key)

    async def swap(self, key: str, value: bytes, version: Version | None) -> Document | Conflict:
        self.swap_count += 1
        return await super().swap(key, value, version)


def _heartbeat_s() -> float:
    """How long it takes to fold a renewal of all elections."""
    notes, holders = Notes("memory://"), [Holder.fresh() for _ in range(_ELECTIONS)]
    for number, holder in enumerate(holders):
        elected = Fact(Elected(Token(number + 1), 0), 0, 0.0, "memory://", f"e{number}", holder)
        assert len(list(notes.hear(elected))) == 1
    bids = tuple(Bid(f"e{number}", holder, 1, 1) for number, holder in enumerate(holders))
    taken = []
    for number in range(_HEARTBEATS):
        renewed = Fact(Renewed(bids, 10**9 - number, 1), 0, 0.0, "memory://")
        begun = time.thread_time()
        assert list(notes.hear(renewed)) == []
        taken.append(time.thread_time() - begun)
    return median(taken)


def _fact_us() -> float:
    """What a fact costs whoever publishes it while a recorder listens."""
    taken, holder = [], Holder.fresh()
    for block in range(_BLOCKS):
        begun = time.perf_counter_ns()
        for number in range(_BLOCK):
            publish(Elected(Token(block * _BLOCK + number + 1), 0), "memory://", "jobs", holder)
        taken.append((time.perf_counter_ns() - begun) / _BLOCK / 1e3)
        assert all(one.wait_until_told(10) for one in subscriptions())
    return median(taken)


async def _lead(store: MemoryStore, recorder: Recorder) -> None:
    for _ in range(_TENURES):
        before = recorder.written_count

        async def body(_: Tenure, before: int = before) -> None:
            while recorder.written_count == before:  # noqa: ASYNC110  (it is written on another thread)
                await anyio.sleep(0.001)

        await Election(store, "jobs").lead(body)
        while recorder.written_count < before + 2:  # noqa: ASYNC110  (likewise)
            await anyio.sleep(0.001)


def figures() -> Figures:
    """The rows for run.py."""
    share = _heartbeat_s() / DEFAULT_HEARTBEAT_S * 100
    yield f"history: a heartbeat of {_ELECTIONS:,} elections, of a core", share, 0.5, "%", False
    with keep(MemoryStore()) as recorder:
        yield "history: a fact with a recorder", _fact_us(), 5.0, "us", False
    store = _Counting()
    with keep(store) as recorder:
        anyio.run(_lead, store, recorder)
    yield exactly("history: writes per tenure", store.swap_count / _TENURES, 2)
    yield exactly(f"history: reads in {_TENURES} tenures of one process", store.fetch_count, 1)
