"""The second round of Redlock: votes alone put nobody in office, a token that a majority has written does."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tenure.clients.redis import Script, settings_of
from tenure.errors import OutcomeUnknown
from tenure.model import Bid, Holder
from tenure.stores.redis import scripts
from tenure.stores.redis.answers import Answer
from tenure.stores.redis.redlock import RedlockStore
from tenure.testing.engines import RedisCluster
from tenure.testing.engines.cluster import Node
from tenure.testing.engines.processes import wait_for

OFFICE = "tenure:office:settled"


class Losing(RedlockStore):
    """Something happens when all have voted, and nobody has heard of the token yet."""

    meanwhile: Callable[[], None]

    async def _ask(self, script: Script, *words: Any, **options: Any) -> list[Answer]:
        if script is scripts.SETTLE:
            await asyncio.to_thread(self.meanwhile)
        return await super()._ask(script, *words, **options)


@pytest.mark.parametrize("how", ["killed", "forgotten"])
def test_nobody_is_in_office_whose_token_a_majority_has_not_written(how: str) -> None:
    with RedisCluster(3, independent=True) as servers:
        *lost, last = servers.nodes

        def has_voted(node: Node) -> bool:
            return servers.ctl("EXISTS", OFFICE, node=node) == "1"

        def lose() -> None:
            # Two votes are enough to go on with, and the third may still be on its way.
            assert wait_for(lambda: all(map(has_voted, servers.nodes)), 30)
            for node in lost:
                if how == "killed":
                    node.kill()
                else:  # as a server does that has let the vote expire
                    assert servers.ctl("DEL", OFFICE, node=node) == "1"

        async def run() -> None:
            async with Losing(settings_of(servers.url)) as store:
                store.meanwhile = lose
                with pytest.raises(OutcomeUnknown, match="a majority gave its vote, and did not confirm the token"):
                    await store.claim(Bid("settled", Holder.fresh(), 1, 120 * 10**9))

        asyncio.run(run())
        assert servers.ctl("EXISTS", OFFICE, node=last) == "0", "a claim that failed has left its vote behind"
