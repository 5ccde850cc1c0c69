"""The machine keeps every promise in every seed, and the fence keeps them even when clocks do not."""

from collections import Counter

import pytest

from tenure.core.candidate import Candidate
from tenure.core.events import BodyEnded, Deposed, Event, Failed, Granted, Resign, Sealed, Tick
from tenure.core.table import IGNORED, TRANSITIONS, State
from tenure.errors import Reason
from tenure.sim.history import REASONS, Kind
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

    made: set[tuple[State, type[Event], State]]

    def _dispatch(self, event: Event) -> None:
        before = self.state
        super()._dispatch(event)
        self.made.add((before, type(event), self.state))
        pair = (before, type(event))
        assert self.state in (TRANSITIONS[pair].to if pair in TRANSITIONS else (before,)), (pair, self.state)
        assert (pair in TRANSITIONS) is not (pair in IGNORED)


def test_every_transition_made_in_the_simulator_stands_in_the_table_and_nearly_all_are_made() -> None:
    made: set[tuple[State, type[Event], State]] = set()
    for seed in range(300):
        parts = Parts(candidate=type("_Counted", (_Checked,), {"made": made}))
        assert World(draw(Options(seed)), parts).run()
    possible = {(state, event, to) for (state, event), row in TRANSITIONS.items() for to in row.to}
    # A simulated driver ends exactly the body that runs, and a seal answers exactly the office that is held; a claim
    # that was granted anew while its tenure was being sealed takes three faults at once.
    never = possible - made
    assert {event for _, event, _ in never} <= {BodyEnded, Sealed, Granted, Deposed, Failed, Tick, Resign}, never
    assert len(never) <= 12, never


def test_the_simulator_really_does_what_it_claims_to() -> None:
    """Over 200 seeds each kind of thing happens, so no checker passes for want of material."""
    seen: Counter[Kind] = Counter()
    reasons: Counter[Reason] = Counter()
    notes: set[str] = set()
    for seed in range(200):
        for entry in play(Options(seed))[1]:
            seen[entry.kind] += 1
            if entry.kind is Kind.STOPPING:
                reasons[REASONS[entry.number]] += 1
            if entry.kind is Kind.FAULT:
                notes.add(entry.note.split("  ")[-1].split()[0])
    assert set(seen) == set(Kind)
    assert seen[Kind.REFUSED] > 100  # zombies did write
    assert seen[Kind.OVERSTAYED] > 50  # bodies did ignore cancellation
    assert {"pause", "suspend", "crash", "partition", "wall-step", "store-restart", "store-outage", "resign"} <= notes
    assert {"worker-restart", "deletion", "fell"} <= notes
    assert set(reasons) == set(Reason) - {Reason.STALLED}
    assert min(reasons.values()) > 10
