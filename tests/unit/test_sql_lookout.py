"""When a standby of a SQL store looks again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.stores.sql.lookout import pause_s

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
