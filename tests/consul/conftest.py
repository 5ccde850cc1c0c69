"""What the tests of Consul share."""

from collections.abc import Iterator

import pytest

from tenure.testing.engines import ConsulCluster


@pytest.fixture
def cluster(consul: ConsulCluster) -> Iterator[ConsulCluster]:
    """Three servers. A test may leave them in any state."""
    yield consul
    consul.mend()
