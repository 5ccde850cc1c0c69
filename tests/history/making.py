"""Records, facts and traits for tests, and a store that fails."""

import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace

import anyio

import tenure
from tenure.apps.history import Recorder, TenureRecord
from tenure.apps.history.records import Record, Sighting
from tenure.errors import Refused
from tenure.facts.kinds import Fact, What
from tenure.model import Conflict, Document, Holder, Version
from tenure.stores.base import Expiry, Traits, Wake
from tenure.stores.memory import MemoryStore

ADA, BOB = Holder("ada", 1, "0" * 16), Holder("bob", 2, "1" * 16)
STORE = "memory://"
T0_S = 1_790_000_000.0
TTL_S = 0.4
TRAITS = Traits(
    queue=False,
    wake=Wake.WATCH,
    expiry=Expiry.ENGINE,
    token_source="a counter",
    ttl_min_ns=1,
    ttl_max_ns=10**15,
    expiry_slack_ns=500_000_000,
)


def record(token: int, holder: Holder = ADA, began_s: float = T0_S, **said: object) -> Record:
    return replace(Record(token, str(holder), began_s, ttl_s=8.0), **said)  # type: ignore[arg-type]


def sighting(token: int, ago_s: float, watched_s: float = 100.0) -> Sighting:
    return Sighting(token, ago_s, watched_s)


def fact(what: What, at_s: float, election: str = "jobs", holder: Holder | None = ADA, store: str = STORE) -> Fact:
    """A fact at a time after ``T0_S``, on the wall clock and on the boot clock."""
    return Fact(what, int(at_s * 1e9), T0_S + at_s, store, election, holder)


def until(condition: Callable[[], bool], within_s: float = 60.0) -> Callable[[object], Awaitable[None]]:
    """A body that leads until something has come to be."""

    async def body(_: object) -> None:
        with anyio.fail_after(within_s):
            while not condition():  # noqa: ASYNC110  (what is waited for happens on another thread)
                await anyio.sleep(0.02)

    return body


class Frail(MemoryStore):
    """Holds elections as ever, and keeps documents as badly as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.error: BaseException | None = None
        self.bad: str | None = None  # a document that it will not have
        self.blocks: anyio.Event | None = None
        self.blocked = threading.Event()
        self.swap_count = 0

    async def fetch(self, key: str) -> Document | None:
        await self._suffer()
        return await super().fetch(key)

    async def swap(self, key: str, value: bytes, version: Version | None) -> Document | Conflict:
        await self._suffer()
        if key == self.bad:
            raise Refused(self.address, "swap", "no right to this one")
        self.swap_count += 1
        return await super().swap(key, value, version)

    async def _suffer(self) -> None:
        if self.blocks is not None:
            self.blocked.set()
            await self.blocks.wait()
        if self.error is not None:
            raise self.error


async def nothing(_: tenure.Tenure) -> None:
    pass


def tokens(tenures: list[TenureRecord]) -> list[int]:
    return [one.token for one in tenures]


def recorded(recorder: Recorder, count: int) -> bool:
    return recorder.written_count == count
