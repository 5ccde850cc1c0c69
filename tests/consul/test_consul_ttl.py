"""A ttl that no session can have: what it is told with."""

import pytest

import tenure
from tenure.errors import ConfigError
from tenure.testing.engines import ConsulCluster


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("ttl_s", "told"),
    [
        (0.5, r"ttl = 0.5 s: must lie .* use a longer ttl, or lower session_ttl_min on the servers$"),
        (100_000, r"ttl = 100000 s: must lie between 1 and 86400 s for consul://.*: use a shorter ttl$"),
    ],
    ids=["short", "long"],
)
async def test_a_ttl_that_no_session_can_have_is_told_with_the_limit_and_the_fix(
    cluster: ConsulCluster, ttl_s: float, told: str
) -> None:
    async def body(_: tenure.Tenure) -> None:
        pytest.fail("it led")

    async with tenure.open_store(cluster.url) as store:
        with pytest.raises(ConfigError, match=told):
            await tenure.Election(store, "ttl", ttl=ttl_s).lead(body)
