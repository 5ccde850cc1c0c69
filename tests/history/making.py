"""Records, facts and traits for tests."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import anyio

from tenure.apps.history.records import Record, Sighting
from tenure.facts.kinds import Fact, What
from tenure.model import Holder
from tenure.stores.base import Expiry, Traits, Wake

ADA, BOB = Holder("ada", 1, "0" * 16), Holder("bob", 2, "1" * 16)
STORE = "memory://"
T0_S = 1_790_000_000.0
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
