"""An observer takes a row only as it saw it: whoever comes between its look and its claim stays in office."""

import pytest

from tenure.stores.postgresql import from_url
from tenure.stores.postgresql.engine import PostgresEngine
from tenure.stores.postgresql.settings import settings_of
from tenure.stores.sql.store import SqlStore
from tenure.testing.engines import PostgresCluster
from tests.overtaking import HOW, OBSERVER, Overtaken, check_takes_a_row_only_as_it_saw_it

pytestmark = pytest.mark.anyio


class OvertakenEngine(Overtaken, PostgresEngine):
    """One of PostgreSQL."""


@pytest.mark.parametrize("how", HOW)
async def test_an_observer_takes_a_row_only_as_it_saw_it(how: str, cluster: PostgresCluster) -> None:
    url = f"{cluster.url}{OBSERVER}"
    settings = settings_of(url)
    await check_takes_a_row_only_as_it_saw_it(
        how,
        from_url(url),
        OvertakenEngine(settings),
        lambda engine, clock: SqlStore(engine or PostgresEngine(settings), settings.sql, clock),
    )
