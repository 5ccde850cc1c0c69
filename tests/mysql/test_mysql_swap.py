"""An observer takes a row only as it saw it: whoever comes between its look and its claim stays in office."""

from collections.abc import Awaitable, Callable
from functools import partial
from secrets import token_hex

import pytest

from tenure.model import Grant
from tenure.stores.mysql import MySqlStore, from_url
from tenure.stores.mysql.engine import MySqlEngine
from tenure.stores.mysql.settings import settings_of
from tenure.stores.sql.rows import Ask, Office, Taken
from tenure.stores.sql.store import SqlStore
from tenure.testing.engines import MariaDbCluster
from tests.leaping import LeapingClock
from tests.sql_rig import bid, waits, wins

pytestmark = pytest.mark.anyio

OBSERVER = "?expiry=observer&timeout=30"
TTL_NS = 60 * 10**9  # A fifth of it is what one request has, for which no busy machine stands still.


class Overtaken(MySqlEngine):
    """Lets somebody come between what the store saw of a row and its claim, once."""

    meanwhile: Callable[[], Awaitable[Grant]] | None = None
    kept: Grant | None = None  # of whoever came

    async def claim(self, ask: Ask, within_s: float) -> Taken | Office | None:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            self.kept = await meanwhile()
        return await super().claim(ask, within_s)


@pytest.mark.parametrize("how", ["renewed", "taken"])
async def test_an_observer_takes_a_row_only_as_it_saw_it(how: str, cluster: MariaDbCluster) -> None:
    election, clock, settings = token_hex(4), LeapingClock(), settings_of(f"{cluster.url}{OBSERVER}")
    engine, asked = Overtaken(settings), partial(bid, election, ttl_ns=TTL_NS)
    late, early = SqlStore(engine, settings.sql, clock), MySqlStore(settings, clock=clock)
    async with from_url(f"{cluster.url}{OBSERVER}") as holder, late, early:
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
