"""The table is the whole machine: every state × event pair is handled as it says, or ignored for the reason it gives."""

import copy
from itertools import product
from pathlib import Path
from typing import get_args

import pytest

from tenure.core.candidate import Candidate
from tenure.core.events import (
    BodyEnded,
    Changed,
    Deposed,
    Event,
    Failed,
    GiveUp,
    Granted,
    MustWait,
    Resign,
    Sealed,
    Stand,
    Tick,
)
from tenure.core.table import CLAIMING, IDLE, IGNORED, LEADING, SEALING, STANDBY, STOPPING, TRANSITIONS, State
from tenure.errors import Reason
from tenure.model import Bid, Grant, Holder, Token, Wait
from tenure.testing.script import Walk, load, run
from tenure.timing import Timing

SCRIPTS = Path(__file__).parents[1] / "scripts"
TIMING = Timing.of()
SECOND = 10**9
EVENTS: tuple[type[Event], ...] = Event.__args__
PAIRS = list(product(State, EVENTS))


class Walker(Candidate):
    """A candidate that remembers every transition it makes, those of passed deadlines included."""

    def __init__(self) -> None:
        super().__init__(bid(0), TIMING)
        self.walked: list[Walk] = []

    def _dispatch(self, event: Event) -> None:
        before = self.state
        super()._dispatch(event)
        self.walked.append((before, type(event), self.state))


def bid(serial: int) -> Bid:
    return Bid("walk", Holder("host", 1, "nonce"), serial, TIMING.ttl_ns)


def granted(attempt: int, token: int = 7, serial: int = 1) -> Granted:
    return Granted(attempt, Grant(bid(serial), Token(token)))


def must_wait(attempt: int, serial: int = 1) -> MustWait:
    return MustWait(attempt, Wait(bid(serial), None))


# Ways into each state, with attempts left open on purpose: an answer to them and an answer to none are both tried.
LED: list[tuple[Event, int]] = [(Stand(), 0), (granted(1), 0), (Sealed(Token(7)), 0), (Tick(), 2 * SECOND)]
WAYS: dict[State, list[list[tuple[Event, int]]]] = {
    IDLE: [[], [(Stand(), 0), (Resign(), 0)]],
    CLAIMING: [[(Stand(), 0)], [(Stand(), 0), (Tick(), 2 * SECOND)], [*LED[:2], (Deposed(Token(7)), 0)]],
    STANDBY: [[(Stand(), 0), (must_wait(1), 0)], [(Stand(), 0), (Tick(), 2 * SECOND), (must_wait(2), 2 * SECOND)]],
    SEALING: [LED[:2], [*LED[:2], (Tick(), 2 * SECOND)]],
    LEADING: [LED[:3], LED],
    STOPPING: [[*LED, (Resign(), 3 * SECOND)], [*LED, (Tick(), 7 * SECOND)], [*LED, (Deposed(Token(7)), 3 * SECOND)]],
}
VARIANTS: dict[type[Event], list[Event]] = {
    Stand: [Stand()],
    Resign: [Resign()],
    GiveUp: [GiveUp(Reason.STALLED), GiveUp(Reason.RESIGNED)],
    Granted: [granted(*numbers) for numbers in product(range(7), (5, 7, 9), (1, 2))],
    MustWait: [must_wait(*numbers) for numbers in product(range(7), (1, 2))],
    Deposed: [Deposed(Token(token)) for token in (5, 7, 9)],
    Failed: [Failed(*fields) for fields in product(range(7), (True, False))],
    Changed: [Changed(attempt) for attempt in range(7)],
    Sealed: [Sealed(Token(token)) for token in (5, 7, 9)],
    BodyEnded: [BodyEnded(Token(token)) for token in (5, 7, 9)],
    Tick: [Tick()],
}
LATER = [0, 1, SECOND, 2 * SECOND, 5 * SECOND, 7 * SECOND, 20 * SECOND]


def brought_to(state: State) -> list[tuple[Walker, int]]:
    """Real candidates in ``state``, each with the instant of its last step."""
    arrived = []
    for way in WAYS[state]:
        walker, now = Walker(), 0
        for event, at in way:
            walker.step(event, at)
            now = at
        assert walker.state is state
        arrived.append((walker, now))
    return arrived


def inside(walker: Walker) -> dict[str, str]:
    """All that a candidate knows, in text (counters are equal only to themselves), but for what every step is told."""
    told = {"_now", "_chance", "_out", "walked"}
    return {name: repr(value) for name, value in vars(walker).items() if name not in told}


def walk(state: State, event: type[Event]) -> set[Walk]:
    """Every transition made by stepping candidates in ``state`` with any ``event``, sooner and later."""
    walked: set[Walk] = set()
    for (walker, now), variant, later in product(brought_to(state), VARIANTS[event], LATER):
        stepped = copy.deepcopy(walker)
        stepped.walked.clear()
        stepped.step(variant, now + later)
        walked |= set(stepped.walked)
    return walked


def name_of(pair: object) -> str:
    return pair.__name__ if isinstance(pair, type) else str(pair)


@pytest.mark.parametrize(("state", "event"), PAIRS, ids=name_of)
def test_every_pair_is_handled_or_ignored_and_never_both(state: State, event: type[Event]) -> None:
    assert ((state, event) in TRANSITIONS) != ((state, event) in IGNORED)


def test_the_table_has_no_other_pairs_and_no_target_twice() -> None:
    assert TRANSITIONS.keys() | IGNORED.keys() == set(PAIRS)
    assert all(len(set(row.to)) == len(row.to) > 0 for row in TRANSITIONS.values())


@pytest.mark.parametrize(("state", "event"), IGNORED, ids=name_of)
def test_an_ignored_pair_changes_nothing_and_says_why(state: State, event: type[Event]) -> None:
    assert len(IGNORED[state, event]) > 10
    for (walker, now), variant in product(brought_to(state), VARIANTS[event]):
        before = inside(walker)
        assert walker.step(variant, now) == []
        assert inside(walker) == before


@pytest.mark.parametrize(("state", "event"), TRANSITIONS, ids=name_of)
def test_a_handled_pair_ends_where_the_table_says(state: State, event: type[Event]) -> None:
    assert callable(getattr(Candidate, TRANSITIONS[state, event].handler))
    walked = walk(state, event)
    assert (state, event) in {(before, kind) for before, kind, _ in walked}
    for before, kind, after in walked:
        row = TRANSITIONS.get((before, kind))
        assert after in (row.to if row else (before,)), f"{before} --{kind.__name__}--> {after}"


def test_every_target_in_the_table_is_reached_by_a_story_or_by_the_walk() -> None:
    reached = {walked for path in SCRIPTS.glob("*.txt") for walked in run(load(path)).walked}
    reached |= {walked for pair in TRANSITIONS for walked in walk(*pair)}
    listed = {(state, event, target) for (state, event), row in TRANSITIONS.items() for target in row.to}
    assert listed - reached == set()


def test_stories_reach_every_handled_pair() -> None:
    told = {(before, event) for path in SCRIPTS.glob("*.txt") for before, event, _ in run(load(path)).walked}
    assert TRANSITIONS.keys() - told == set()


def test_a_handler_that_nobody_calls_is_not_left_behind() -> None:
    handlers = {row.handler for row in TRANSITIONS.values()}
    taking_events = {
        name
        for name, method in vars(Candidate).items()
        for taken in getattr(method, "__annotations__", {}).values()
        if name.startswith("_") and {taken, *get_args(taken)} & set(EVENTS) and name != "_dispatch"
    }
    assert taking_events == handlers
