"""One seed draws everything, within what the issue of clocks and majorities allows."""

import pytest

from tenure.errors import ConfigError
from tenure.sim.plan import FAULTS, SEED_MAX, Options, draw
from tenure.sim.run import judge
from tenure.sim.shrink import command, shrink

SEEDS = range(300)


def test_seeds_cover_two_to_seven_candidates_with_and_without_a_queue() -> None:
    plans = [draw(Options(seed)) for seed in SEEDS]
    assert {plan.candidates for plan in plans} == {2, 3, 4, 5, 6, 7}
    assert {plan.queue for plan in plans} == {True, False}
    assert len({plan.timing for plan in plans}) > 100


def test_clocks_stay_within_half_the_declared_drift_and_a_majority_stays_up() -> None:
    for seed in SEEDS:
        plan = draw(Options(seed))
        assert all(abs(ppm) <= plan.timing.drift * 500_000 for ppm in plan.clock_ppm)
        assert len(plan.clock_ppm) == plan.candidates + 1
        assert 2 * (plan.candidates - len(plan.stay_down)) > plan.candidates
        assert all(fault.at + fault.for_ns <= plan.heal_at < plan.end_at for fault in plan.faults)


def test_leaving_a_fault_out_leaves_the_others_as_they_were() -> None:
    for seed in range(50):
        whole = draw(Options(seed))
        for kind in ("pause", "crash", "partition"):
            part = draw(Options(seed, without=frozenset({kind})))
            assert [fault for fault in whole.faults if fault.kind != kind] == list(part.faults)


def test_saying_what_the_seed_would_draw_anyway_changes_nothing() -> None:
    for seed in range(50):
        plan = draw(Options(seed))
        assert draw(Options(seed, candidates=plan.candidates)) == plan
        assert draw(Options(seed, timing=plan.timing)) == plan


def test_every_fault_is_at_work_in_some_seed_and_absent_from_others() -> None:
    for kind in FAULTS:
        changed = [draw(Options(seed)) != draw(Options(seed, without=frozenset({kind}))) for seed in range(60)]
        assert any(changed), kind
        assert not all(changed), kind


def test_show_prints_everything_that_was_drawn() -> None:
    plan = draw(Options(3))
    shown = plan.show()
    assert all(f"{name}:" in shown for name in plan.__slots__)
    assert shown.count("\n  ") == len(plan.faults) > 0


@pytest.mark.parametrize(
    "bad",
    [
        {"seed": -1},
        {"seed": SEED_MAX + 1},
        {"seed": 1, "candidates": 1},
        {"seed": 1, "candidates": 8},
        {"seed": 1, "without": frozenset({"rain"})},
    ],
)
def test_impossible_options_are_refused_in_one_line(bad: dict[str, object]) -> None:
    with pytest.raises(ConfigError) as refused:
        Options(**bad)  # type: ignore[arg-type]
    assert "\n" not in str(refused.value)


def test_the_largest_seed_runs() -> None:
    assert judge(Options(SEED_MAX)).violations == ()


def test_a_failing_seed_shrinks_to_fewer_faults_and_candidates_and_replays() -> None:
    def broken_by(options: Options) -> set[str]:
        return {violation.checker for violation in judge(options, "suspend-blind-clock").violations}

    failing = next(Options(seed) for seed in range(100) if "one-valid-tenure" in broken_by(Options(seed)))
    small = shrink(failing, "one-valid-tenure", "suspend-blind-clock")
    assert "one-valid-tenure" in broken_by(small)
    assert len(small.without) > 3
    assert "suspend" not in small.without  # the one that it cannot do without
    assert draw(small).candidates <= draw(failing).candidates
    assert command(small, "suspend-blind-clock").startswith(f"tenure sim --seed {failing.seed} --without ")
