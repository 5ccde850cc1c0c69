"""What the tests of PostgreSQL share."""

from collections.abc import Iterator

import pytest

from tenure.testing.engines import PostgresCluster


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def cluster(postgresql: PostgresCluster) -> Iterator[PostgresCluster]:
    """One server. A test may leave it in any state."""
    yield postgresql
    postgresql.mend()
