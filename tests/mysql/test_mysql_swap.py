"""An observer takes a row only as it saw it: whoever comes between its look and its claim stays in office."""

import pytest

from tenure.stores.mysql import from_url
from tenure.stores.mysql.engine import MySqlEngine
from tenure.stores.mysql.settings import settings_of
from tenure.stores.sql.store import SqlStore
from tenure.testing.engines import MariaDbCluster
from tests.overtaking import HOW, OBSERVER, Overtaken, check_takes_a_row_only_as_it_saw_it

pytestmark = pytest.mark.anyio


class OvertakenEngine(Overtaken, MySqlEngine):
    """One of MariaDB."""


@pytest.mark.parametrize("how", HOW)
async def test_an_observer_takes_a_row_only_as_it_saw_it(how: str, cluster: MariaDbCluster) -> None:
    url = f"{cluster.url}{OBSERVER}"
    settings = settings_of(url)
    await check_takes_a_row_only_as_it_saw_it(
        how,
        from_url(url),
        OvertakenEngine(settings),
        lambda engine, clock: SqlStore(engine or MySqlEngine(settings), settings.sql, clock),
    )
