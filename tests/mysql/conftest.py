"""What the tests of MySQL share."""

from collections.abc import Iterator

import pytest

from tenure.testing.engines import MariaDbCluster


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def cluster(mariadb: MariaDbCluster) -> Iterator[MariaDbCluster]:
    """One server. A test may leave it in any state."""
    yield mariadb
    mariadb.mend()
