"""The machine keeps every promise in every seed, and the fence keeps them even when clocks do not."""

from collections import Counter

import pytest

from tenure.core.candidate import Candidate
from tenure.core.events import Event
from tenure.core.table import IGNORED, TRANSITIONS
from tenure.sim.history import Kind
from tenure.sim.plan import Options, draw
from tenure.sim.run import judge_seeds, play
from tenure.sim.world import Parts, World


@pytest.mark.parametrize("first_seed", range(0, 1000, 250))
def test_no_promise_is_broken(first_seed: int) -> None:
    outcomes = list(judge_seeds(Options(first_seed), 250, jobs=1))
    assert [outcome for outcome in outcomes if outcome.violations] == []
    assert not any(outcome.overlap for outcome in outcomes)
    assert sum(outcome.tenure_count for outcome in outcomes) > 250 * 10


@pytest.mark.parametrize("first_seed", range(0, 500, 250))
def test_wild_clocks_break_belief_and_never_the_fence(first_seed: int) -> None:
    outcomes = list(judge_seeds(Options(first_seed, wild_clocks=True), 250, jobs=1))
    assert any(outcome.overlap for outcome in outcomes)
    assert [outcome for outcome in outcomes if outcome.violations] == []


class _Checked(Candidate):
    """The shipped machine, which also looks up every transition that it makes in the table."""

    def _dispatch(self, event: Event) -> None:
        before = self.state
        super()._dispatch(event)
        pair = (before, type(event))
        assert self.state in (TRANSITIONS[pair].to if pair in TRANSITIONS else (before,)), (pair, self.state)
        assert (pair in TRANSITIONS) is not (pair in IGNORED)


def test_every_transition_made_in_the_simulator_stands_in_the_table() -> None:
    for seed in range(100):
        assert World(draw(Options(seed)), Parts(candidate=_Checked)).run()


def test_the_simulator_really_does_what_it_claims_to() -> None:
    """Over 200 seeds each kind of thing happens, so no checker passes for want of material."""
    seen: Counter[Kind] = Counter()
    notes: set[str] = set()
    for seed in range(200):
        for entry in play(Options(seed))[1]:
            seen[entry.kind] += 1
            if entry.kind is Kind.FAULT:
                notes.add(entry.note.split("  ")[-1].split()[0])
    assert set(seen) == set(Kind)
    assert seen[Kind.REFUSED] > 100  # zombies did write
    assert seen[Kind.OVERSTAYED] > 100  # bodies did ignore cancellation
    assert {"pause", "suspend", "crash", "partition", "wall-step", "store-restart", "store-outage", "resign"} <= notes
    assert {"worker-restart", "fell"} <= notes
