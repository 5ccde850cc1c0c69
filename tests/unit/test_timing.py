"""The numbers of an election: defaults, what is refused and how, and what may be concluded from what is not."""

import math
from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tenure.errors import ConfigError
from tenure.timing import Timing, to_ns

S = 10**9
MS = 10**6
DEFAULT = Timing.of()
WEEK_S = 7 * 24 * 3600

heartbeats_s = st.floats(0.001, 3600)
chances = st.floats(0, 1, exclude_max=True)
instants = st.integers(0, 2**62)
drifts = st.floats(0, 0.2)


@st.composite
def timings(draw: st.DrawFn) -> Timing:
    """Any timing that is accepted, from the heartbeat that it is built of."""
    misses = draw(st.integers(2, 10))
    return Timing.of(heartbeat=draw(heartbeats_s), misses=misses, drift=draw(st.floats(0, 0.1)))


def test_the_defaults_are_a_heartbeat_of_2_s_three_misses_and_a_lease_of_8_s() -> None:
    assert (DEFAULT.renew_every_ns, DEFAULT.misses, DEFAULT.ttl_ns) == (2 * S, 3, 8 * S)
    assert (DEFAULT.attempt_timeout_ns, DEFAULT.grace_ns) == (2 * S, 1 * S)
    assert (DEFAULT.drift, DEFAULT.valid_for_ns) == (0.01, 7_920_000_000)


def test_a_holder_acts_on_its_own_word_for_three_quarters_of_the_default_lease() -> None:
    assert DEFAULT.local_share == 0.75
    assert DEFAULT.locally_valid_until(5) == 5 + 6 * S


@given(st.integers(4, 3600))
def test_a_lease_and_its_heartbeat_are_two_words_for_one_timing(heartbeat_s: int) -> None:
    assert Timing.of(heartbeat=heartbeat_s, misses=3) == Timing.of(ttl=4 * heartbeat_s, misses=3)


def test_the_three_numbers_of_client_go_are_lease_heartbeat_and_the_age_at_which_a_leader_stops() -> None:
    timing = Timing.of_client_go()
    assert timing == Timing.of_client_go(lease_duration=15, renew_deadline=10, retry_period=2)
    assert (timing.ttl_ns, timing.renew_every_ns, timing.misses) == (15 * 10**9, 2 * 10**9, 5)
    assert timing.valid_until(0) - timing.grace_ns == 10 * 10**9


@given(
    st.floats(min_value=0.01, max_value=600),
    st.floats(min_value=0.01, max_value=600),
    st.floats(min_value=0.01, max_value=600),
)
@example(15.0, 10.0, 2.0)
def test_numbers_of_client_go_are_taken_or_refused_by_their_own_names(
    lease_s: float, deadline_s: float, period_s: float
) -> None:
    assume(abs(2 * period_s - deadline_s) > 1e-6)
    assume(abs(deadline_s - lease_s * 0.99) > 1e-6)
    if 2 * period_s < deadline_s < lease_s * 0.99:
        timing = Timing.of_client_go(lease_duration=lease_s, renew_deadline=deadline_s, retry_period=period_s)
        assert timing.valid_for_ns - timing.grace_ns == round(deadline_s * 1e9)
    else:
        with pytest.raises(ConfigError, match=r"lease_duration .* 2 x retry_period < renew_deadline"):
            Timing.of_client_go(lease_duration=lease_s, renew_deadline=deadline_s, retry_period=period_s)


def test_both_may_be_given() -> None:
    timing = Timing.of(ttl=10, heartbeat=2)
    assert (timing.ttl_ns, timing.renew_every_ns) == (10 * S, 2 * S)


def test_every_other_number_may_be_given() -> None:
    timing = Timing.of(ttl=10, heartbeat=1, misses=4, attempt_timeout=3, grace=2, drift=0.1, local_share=0.5)
    assert timing == Timing(10 * S, 1 * S, 3 * S, 2 * S, 0.1, 4, 0.5)


@given(st.integers(1, WEEK_S * 10**6))
def test_a_timedelta_is_exact(microseconds: int) -> None:
    assert to_ns("ttl", timedelta(microseconds=microseconds)) == microseconds * 1000


@given(heartbeats_s)
def test_seconds_are_rounded_to_the_nearest_nanosecond(seconds: float) -> None:
    assert abs(Fraction(to_ns("ttl", seconds)) - Fraction(seconds) * S) <= 1


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, "8", None, 8j, [8]])
def test_what_is_no_duration_is_refused_by_its_name(value: object) -> None:
    with pytest.raises(ConfigError, match="must be a number of seconds") as caught:
        to_ns("grace", value)
    assert (caught.value.setting, caught.value.value) == ("grace", str(value))


@pytest.mark.parametrize("misses", [0, -1, True, 2.5, "3"])
def test_misses_must_be_a_whole_number_of_at_least_one(misses: Any) -> None:
    with pytest.raises(ConfigError, match="must be a whole number from 1 to 1000") as caught:
        Timing.of(misses=misses)
    assert (caught.value.setting, caught.value.value) == ("misses", str(misses))


FITTING: dict[str, Any] = {"ttl": 8, "heartbeat": 2, "misses": 3, "attempt_timeout": 2, "grace": 1}


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({"ttl": 0}, "ttl = 0 s"),
        ({"ttl": -8}, "ttl = -8 s"),
        ({"heartbeat": 0}, "renew_every = 0 s"),
        ({"attempt_timeout": 0}, "attempt_timeout = 0 s"),
        ({"attempt_timeout": timedelta(seconds=-1)}, "attempt_timeout = -1 s"),
        ({"grace": 0}, "grace = 0 s"),
    ],
)
def test_a_number_that_cannot_be_is_refused_by_its_name(setting: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Timing.of(**(FITTING | setting))
    assert str(caught.value) == f"{told}: must be more than 0"


@pytest.mark.parametrize(
    ("setting", "relation"),
    [
        ({"ttl": WEEK_S + 1}, "0.001 s <= ttl <= 604800 s"),
        ({"drift": -0.01}, "0 <= drift < 1"),
        ({"drift": 1.0}, "0 <= drift < 1"),
        ({"drift": math.nan}, "0 <= drift < 1"),
        ({"local_share": 0.0}, "0 < local_share <= 1 - drift"),
        ({"local_share": 0.995}, "0 < local_share <= 1 - drift"),
        ({"local_share": math.nan}, "0 < local_share <= 1 - drift"),
        ({"misses": 4}, "misses x renew_every < ttl"),
        ({"heartbeat": 3}, "misses x renew_every < ttl"),
        ({"ttl": 6}, "misses x renew_every < ttl"),
        ({"attempt_timeout": 5}, "renew_every + attempt_timeout + grace < ttl x (1 - drift)"),
        ({"grace": 3.92}, "renew_every + attempt_timeout + grace < ttl x (1 - drift)"),
        (
            {"drift": 0.5, "local_share": 0.3, "attempt_timeout": 1},
            "renew_every + attempt_timeout + grace < ttl x (1 - drift)",
        ),
    ],
)
def test_numbers_that_do_not_fit_are_refused_with_all_of_them_and_the_relation(
    setting: dict[str, Any], relation: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        Timing.of(**FITTING | setting)
    assert (caught.value.setting, caught.value.rule) == ("timing", f"must satisfy {relation}")
    numbers = FITTING | {"drift": 0.01, "local_share": 0.75} | setting
    seconds = {name: to_ns(name, numbers[name]) / S for name in ("ttl", "heartbeat", "attempt_timeout", "grace")}
    assert caught.value.value == (
        f"ttl {seconds['ttl']:g} s, renew_every {seconds['heartbeat']:g} s x {numbers['misses']} misses, "
        f"attempt_timeout {seconds['attempt_timeout']:g} s, grace {seconds['grace']:g} s, "
        f"drift {numbers['drift']:g}, local_share {numbers['local_share']:g}"
    )


@given(
    ttl_ms=st.integers(-1, 200),
    renew_every_ms=st.integers(-1, 60),
    attempt_timeout_ms=st.integers(-1, 60),
    grace_ms=st.integers(-1, 60),
    misses=st.integers(0, 5),
    drift=st.sampled_from([-0.1, 0.0, 0.25, 0.5, 1.0]),
)
def test_a_timing_is_accepted_exactly_if_its_parts_fit(
    *, ttl_ms: int, renew_every_ms: int, attempt_timeout_ms: int, grace_ms: int, misses: int, drift: float
) -> None:
    fits = (
        min(renew_every_ms, attempt_timeout_ms, grace_ms, misses) > 0
        and 0 <= drift < 1
        and misses * renew_every_ms < ttl_ms
        and (renew_every_ms + attempt_timeout_ms + grace_ms) * MS < math.floor(ttl_ms * MS * (1 - Fraction(drift)))
    )
    try:
        Timing(
            ttl_ms * MS, renew_every_ms * MS, attempt_timeout_ms * MS, grace_ms * MS, drift, misses, local_share=0.25
        )
    except ConfigError:
        assert not fits
    else:
        assert fits


@given(timings(), instants)
def test_validity_is_dated_from_the_send_and_never_longer_than_the_lease_less_drift(timing: Timing, sent: int) -> None:
    valid_for_ns = timing.valid_until(sent) - sent
    assert valid_for_ns == timing.ttl_ns - math.ceil(timing.ttl_ns * timing.drift)
    # A nanosecond is what floating point may be off by; a lease of a week has 6 × 10¹⁴ of them.
    assert 0 <= timing.ttl_ns * (1 - Fraction(timing.drift)) - valid_for_ns + 1 <= 2


@given(
    ttl_ns=st.integers(S // 1000, WEEK_S * S),
    drift=st.floats(0.0001, 0.2),
    holder_rate=st.floats(-1, 1),
    engine_rate=st.floats(-1, 1),
    flight_ns=st.integers(0, S),
)
def test_a_holder_stops_believing_before_the_engine_lets_go_if_both_clocks_run_within_half_the_drift(
    ttl_ns: int, drift: float, holder_rate: float, engine_rate: float, flight_ns: int
) -> None:
    assume(ttl_ns * Fraction(drift) ** 2 / 2 > 2)  # Else the bound is closer than the nanosecond that is rounded to.
    part = ttl_ns // 10
    timing = Timing(ttl_ns, part, part, part, drift, misses=3)
    # True time: the request leaves at 0 and the engine carries it out when it arrives. A slow clock believes longest,
    # a fast one lets go first.
    half = Fraction(drift) / 2
    belief_ends = timing.valid_for_ns / (1 + half * Fraction(holder_rate))
    lease_ends = flight_ns + ttl_ns / (1 + half * Fraction(engine_rate))
    assert belief_ends < lease_ends


@given(timings(), instants)
def test_acting_without_asking_ends_no_later_than_belief(timing: Timing, sent: int) -> None:
    assert sent < timing.locally_valid_until(sent) <= timing.valid_until(sent)


@given(timings(), st.integers(1, 100), chances)
def test_a_retry_comes_within_a_heartbeat_and_never_at_once(timing: Timing, failure_count: int, chance: float) -> None:
    ceiling_ns = timing.renew_every_ns >> max(0, 5 - failure_count)
    assert ceiling_ns // 2 <= timing.retry_after_ns(failure_count, chance) <= ceiling_ns <= timing.renew_every_ns


def test_the_first_retry_waits_for_a_sixteenth_of_a_heartbeat_at_most_and_the_fifth_for_a_whole_one() -> None:
    longest = [
        DEFAULT.retry_after_ns(failure_count, 1.0) * 16 / DEFAULT.renew_every_ns for failure_count in range(1, 8)
    ]
    assert longest == [1, 2, 4, 8, 16, 16, 16]


@given(timings(), st.integers(1, 100), chances, chances)
def test_more_failures_and_more_chance_never_shorten_the_wait(
    timing: Timing, failure_count: int, one: float, other: float
) -> None:
    low, high = sorted((one, other))
    wait_ns = timing.retry_after_ns(failure_count, low)
    assert wait_ns <= timing.retry_after_ns(failure_count, high)
    assert wait_ns <= timing.retry_after_ns(failure_count + 1, low)


@given(timings(), chances)
def test_an_answer_is_waited_for_three_quarters_to_all_of_its_time(timing: Timing, chance: float) -> None:
    assert 3 * timing.attempt_timeout_ns <= 4 * timing.answer_within_ns(0, chance) <= 4 * timing.attempt_timeout_ns


@given(timings(), st.integers(0, 100), chances)
def test_the_wait_for_an_answer_doubles_up_to_a_heartbeat(timing: Timing, failure_count: int, chance: float) -> None:
    longest_ns = max(timing.attempt_timeout_ns, timing.renew_every_ns)
    once_ns = timing.answer_within_ns(failure_count, 0.0)
    assert timing.answer_within_ns(failure_count + 1, 0.0) == min(2 * once_ns, longest_ns)
    assert timing.answer_within_ns(failure_count, chance) <= once_ns


@pytest.mark.parametrize("value", [1e300, 10**400, -1e300])
def test_a_number_that_no_clock_can_show_is_refused(value: float) -> None:
    with pytest.raises(ConfigError, match="must be a number of seconds"):
        Timing.of(ttl=value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("ttl_ns", 8e9), ("misses", 2.5), ("misses", True), ("drift", "0.1"), ("drift", None), ("local_share", "x")],
)
def test_the_constructor_refuses_what_is_no_number_by_its_name(name: str, value: object) -> None:
    numbers = {"ttl_ns": 8 * S, "renew_every_ns": 2 * S, "attempt_timeout_ns": 2 * S, "grace_ns": S, name: value}
    with pytest.raises(ConfigError, match=f"^{name} = "):
        Timing(**numbers)  # type: ignore[arg-type]


@given(timings(), chances)
def test_a_silent_watch_is_trusted_until_any_dead_incumbent_has_lapsed(timing: Timing, chance: float) -> None:
    assert 2 * timing.ttl_ns <= timing.recheck_after_ns(chance) <= timing.ttl_ns * 5 // 2


@given(timings(), st.integers(0, S), st.integers(0, S))
def test_the_time_to_a_leader_covers_a_dead_watch_and_grows_by_eight_messages(
    timing: Timing, delay_ns: int, more_ns: int
) -> None:
    filled_ns = timing.office_filled_within_ns(delay_ns)
    assert filled_ns > timing.recheck_after_ns(1.0) + timing.attempt_timeout_ns
    assert timing.office_filled_within_ns(delay_ns + more_ns) - filled_ns == 8 * more_ns


@given(timings(), instants, st.integers(0, 2**62))
def test_a_renewal_is_due_within_a_heartbeat_on_a_mark_that_only_the_phase_shifts(
    timing: Timing, sent: int, phase_ns: int
) -> None:
    due = timing.renew_at(sent, phase_ns)
    assert sent < due <= sent + timing.renew_every_ns
    assert (due - phase_ns) % timing.renew_every_ns == 0
    assert timing.is_mark(timing.renew_at(sent))
