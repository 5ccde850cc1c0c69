"""A ttl that no Lease can have: what it is told with."""

import pytest

import tenure
from tenure.errors import ConfigError
from tenure.testing.engines import KubernetesCluster


@pytest.mark.anyio
async def test_a_ttl_that_no_lease_can_have_is_told_with_the_limit_and_the_fix(cluster: KubernetesCluster) -> None:
    async def body(_: tenure.Tenure) -> None:
        pytest.fail("it led")

    async with tenure.open_store(cluster.url) as store:
        limits = "must lie between 1 and 604800 s for kubernetes://default: use a longer ttl$"
        with pytest.raises(ConfigError, match=f"ttl = 0.5 s: {limits}"):
            await tenure.Election(store, "short", ttl=0.5).lead(body)
