"""When a standby of a SQL store looks again."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.jumping import in_no_time

from tenure.errors import Unreachable
from tenure.stores.sql.lookout import Lookout, pause_s

POLLS_S = st.floats(min_value=0.01, max_value=60)
CHANCES = st.floats(min_value=0, max_value=1, exclude_max=True)


@given(POLLS_S, CHANCES)
def test_chance_makes_a_pause_shorter_by_up_to_half_and_never_longer(poll_s: float, chance: float) -> None:
    assert poll_s / 2 <= pause_s(poll_s, [], chance) <= poll_s


@given(POLLS_S, CHANCES, CHANCES)
def test_who_draws_another_chance_looks_at_another_moment(poll_s: float, one: float, other: float) -> None:
    apart_s = pause_s(poll_s, [], one) - pause_s(poll_s, [], other)
    assert apart_s == pytest.approx(poll_s * (one - other) / 2)


@pytest.mark.parametrize(
    ("left_ns", "seconds"),
    [([2 * 10**9, 7 * 10**9], 2.0), ([0, 3 * 10**9], 3.0), ([60 * 10**9], 7.5), ([1], 0.005), ([0, 0], 7.5)],
)
def test_a_lease_that_ends_sooner_is_looked_at_when_it_ends(left_ns: list[int], seconds: float) -> None:
    assert pause_s(10.0, left_ns, 0.5) == seconds


async def looked_at(count: int, poll_s: float) -> list[float]:
    """Return when a standby looked, of an office that somebody holds."""
    loop, moments_s, enough = asyncio.get_running_loop(), [], asyncio.Event()

    async def look(elections: list[str]) -> dict[str, int]:
        moments_s.append(loop.time())
        if len(moments_s) == count:
            enough.set()
        return dict.fromkeys(elections, 10**15)

    lookout = Lookout(look, poll_s)
    waiting = asyncio.ensure_future(lookout.wait("held"))
    await enough.wait()
    await lookout.end(Unreachable("sql://h", "changed", "the store was closed"))
    with pytest.raises(Unreachable):
        await waiting
    return moments_s[:count]


def test_no_two_standbys_look_at_the_same_moments_nor_one_in_a_steady_beat() -> None:
    async def both() -> list[list[float]]:
        return await asyncio.gather(*(looked_at(21, poll_s=10.0) for _ in range(2)))

    one, other = in_no_time(both())
    for moments_s in (one, other):
        pauses_s = [round(later - sooner, 6) for sooner, later in pairwise(moments_s)]
        assert all(5 <= each_s <= 10 for each_s in pauses_s), pauses_s
        assert len(set(pauses_s)) > 10, pauses_s
    assert len({*one, *other}) > 30, (one, other)
