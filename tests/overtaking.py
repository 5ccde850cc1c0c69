"""What observers of every database must do alike: take a row only as they saw it. Whoever comes between look and claim stays."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from secrets import token_hex
from typing import Any

from tenure.model import Grant
from tenure.stores.sql.store import SqlStore
from tests.leaping import LeapingClock
from tests.sql_rig import bid, waits, wins

OBSERVER = "?expiry=observer&timeout=30"
TTL_NS = 60 * 10**9  # A fifth of it is what one request has, for which no busy machine stands still.
HOW = ("renewed", "taken")


class Overtaken:
    """Beside an engine: lets somebody come between what the store saw of a row and its claim, once."""

    meanwhile: Callable[[], Awaitable[Grant]] | None = None
    kept: Grant | None = None  # of whoever came

    async def claim(self, *what: Any) -> Any:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            self.kept = await meanwhile()
        return await super().claim(*what)  # type: ignore[misc]


async def check_takes_a_row_only_as_it_saw_it(
    how: str,
    holding: AbstractAsyncContextManager[SqlStore],
    engine: Overtaken,
    make: Callable[[Any, LeapingClock], SqlStore],
) -> None:
    """``make`` makes a store that observes, on the engine that it is given, or on one of its own for None."""
    clock, asked = LeapingClock(), partial(bid, token_hex(4), ttl_ns=TTL_NS)
    late, early = make(engine, clock), make(None, clock)
    async with holding as holder, late, early:
        held = await wins(holder, asked())
        for observer in (late, early):
            await waits(observer, asked())
        clock.ahead_ns += TTL_NS + 10**9  # For both of them the lease is over, and the row as they saw it is theirs.

        async def renews() -> Grant:
            assert await holder.renew(held) == held
            return held

        async def takes() -> Grant:
            return await wins(early, asked())

        engine.meanwhile = renews if how == "renewed" else takes
        told = await waits(late, asked())
        assert engine.kept is not None
        assert told.incumbent is not None
        assert told.incumbent.token == engine.kept.token
        assert await (holder if how == "renewed" else early).renew(engine.kept) == engine.kept
        await waits(late, asked())  # Once it has seen that unchanged for as long, it takes it.
        clock.ahead_ns += TTL_NS + 10**9
        assert (await wins(late, asked())).token > engine.kept.token
