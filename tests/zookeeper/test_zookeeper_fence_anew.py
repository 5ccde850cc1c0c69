"""A fence that is deleted by hand and made anew while somebody looks at it."""

import pytest

from tenure.clients.zookeeper import Session
from tenure.clients.zookeeper.wire import delete, get_children, get_data
from tenure.errors import StaleToken
from tenure.model import Token
from tenure.sinks.zookeeper import ZooKeeperSink
from tenure.testing.engines import ZooKeeperEnsemble
from tests.zookeeper.zookeeper_rig import latest, operator

pytestmark = pytest.mark.anyio


class LooksSlowly(ZooKeeperSink):
    """Sees what the fence says, and what is below it only after another one has made it anew."""

    def __init__(self, url: str, other: ZooKeeperSink, hand: Session) -> None:
        super().__init__(url)
        self._other, self._hand = other, hand

    async def _look(self, session: Session, path: str) -> tuple[int, int | None, list[str]]:
        highest, version, children = await super()._look(session, path)
        for name in children:
            await self._hand.ask(delete(f"{path}/{name}"))
        await self._hand.ask(delete(path))
        await self._other.seal("anew", Token(7))
        return highest, version, (await super()._look(session, path))[2]


async def test_a_fence_that_was_made_anew_between_two_looks_is_not_lowered(ensemble: ZooKeeperEnsemble) -> None:
    async with ZooKeeperSink(ensemble.url) as other, operator(ensemble.url) as hand:
        await other.seal("anew", Token(3))
        async with LooksSlowly(ensemble.url, other, hand) as sink:
            with pytest.raises(StaleToken):
                await sink.seal("anew", Token(5))
        path = other._path("anew")
        assert int((await latest(hand, get_data(path)))[0]) == 7
        assert list(map(int, (await latest(hand, get_children(path)))[0])) == [7]
