"""A word to resign is heard within a bound, however many elections a process leads."""

import asyncio

from tenure.model import Grant
from tenure.stores.etcd import from_url
from tenure.stores.etcd.roll import COMPARED_MAX
from tenure.testing.engines import EtcdCluster
from tests.etcd.etcd_faults import bid_of, play

COUNT = 1500


def test_one_of_many_leaders_hears_that_it_is_asked_to_resign_when_its_hundred_has_its_turn(
    newest: EtcdCluster,
) -> None:
    async def story() -> None:
        async with from_url(newest.url) as store, from_url(newest.url) as other:
            grants: list[Grant] = []
            for first in range(0, COUNT, 100):
                names = [f"words/{number}" for number in range(first, first + 100)]
                answers = await asyncio.gather(*(store.claim(bid_of(name, ttl_s=600)) for name in names))
                grants += [answer for answer in answers if isinstance(answer, Grant)]
            assert len(grants) == COUNT
            # Two groups on one lease, in turn, of which none may keep the other from its turns.
            groups = grants[:700], grants[700:]
            await store.renew_together(groups[0])
            asked = [grants[number] for number in (0, 333, 699, 700, 1111, COUNT - 1)]
            for grant in asked:
                assert await other.ask_to_resign(grant.bid.election) is not None
            for _ in range(max(map(len, groups)) // COMPARED_MAX):
                for group in groups:
                    assert await store.renew_together(group) == group
            assert [grant for grant in grants if store.resign_asked(grant)] == asked

    play(story())
