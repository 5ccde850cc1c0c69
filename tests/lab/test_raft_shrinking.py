"""A seed that fails is made small: it breaks the same promise, and nothing that is left can be left out."""

from dataclasses import replace

import pytest

from tenure.lab.raft.seeds import Options, draw_setup, judge
from tenure.lab.raft.shrinking import as_options, shrink


def breaks(seed: int, options: Options, checker: str) -> bool:
    return any(violation.checker == checker for violation in judge(seed, options).violations)


def strikes_of(seed: int, options: Options) -> int:
    return len(draw_setup(seed, options).plan.strikes)


def failing(mutant: str, checker: str) -> tuple[int, Options]:
    """The first seed in which the mutant is seen though many faults strike."""
    options = Options(mutant=mutant)
    return next(
        (seed, options) for seed in range(400) if strikes_of(seed, options) > 15 and breaks(seed, options, checker)
    )


@pytest.mark.parametrize(
    ("mutant", "checker"),
    [("two-votes", "election-safety"), ("any-log", "leader-completeness"), ("tidy-leader", "leader-append-only")],
)
def test_what_is_left_breaks_the_same_promise_and_no_strike_of_it_can_be_left_out(mutant: str, checker: str) -> None:
    seed, options = failing(mutant, checker)
    small = shrink(seed, options, checker)
    assert breaks(seed, small, checker)
    kept = small.strikes or tuple(range(strikes_of(seed, small)))
    assert len(kept) < strikes_of(seed, options) / 2
    for number in kept:
        fewer = replace(small, strikes=tuple(other for other in kept if other != number))
        assert not breaks(seed, fewer, checker)


def test_a_seed_that_fails_without_any_fault_is_left_with_none() -> None:
    seed, options = failing("two-votes", "election-safety")
    bare = replace(options, strikes=())
    quiet = next(seed for seed in range(seed, seed + 100) if breaks(seed, bare, "election-safety"))
    assert strikes_of(quiet, shrink(quiet, options, "election-safety")) == 0


def test_of_seven_servers_no_more_are_left_than_it_takes() -> None:
    options, checker = Options(mutant="two-votes"), "election-safety"
    large = (seed for seed in range(400) if draw_setup(seed, options).plan.nodes == 7)
    seed = next(seed for seed in large if breaks(seed, options, checker))
    small = shrink(seed, options, checker)
    assert not any(
        breaks(seed, replace(small, servers=count), checker) for count in (3, 5) if count < (small.servers or 7)
    )


def test_options_that_nobody_has_changed_are_no_words() -> None:
    assert as_options(Options()) == ""
    chosen = Options(
        frozenset({"loss", "crash"}), 3, pre_vote=True, check_quorum=False, mutant="any-log", strikes=(0, 4)
    )
    words = " --mutant any-log --without crash,loss --servers 3 --pre-vote --no-check-quorum --strikes 1,5"
    assert as_options(chosen) == words
    assert as_options(Options(strikes=())) == " --strikes none"
