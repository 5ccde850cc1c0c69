"""Raft keeps its promises under faults, and every rule that is broken on purpose breaks the promise that rests on it."""

from dataclasses import replace
from pathlib import Path

import pytest

from tenure.errors import ConfigError
from tenure.lab.faults import FAULTS
from tenure.lab.raft.breakages import CountsOldEntries
from tenure.lab.raft.checkers import CHECKERS, check
from tenure.lab.raft.killing import kill, row
from tenure.lab.raft.mutants import MUTANTS
from tenure.lab.raft.seeds import HARRY, SCALE_NS, Options, draw_setup, judge, judge_seeds, play
from tenure.lab.raft.stage import perform
from tenure.lab.raft.stories import STORIES

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "how-raft-elects.md"


def test_no_promise_is_broken() -> None:
    outcomes = list(judge_seeds(0, 200, 1, Options()))
    assert [outcome for outcome in outcomes if outcome.violations] == []
    assert sum(outcome.elections for outcome in outcomes) > 600
    assert sum(outcome.committed for outcome in outcomes) > 2000


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_breaks_the_promise_that_it_should_and_the_page_says_so(name: str) -> None:
    made = row(name)
    assert "survived" not in made
    assert made in PAGE.read_text().splitlines(), "run make docs"


def test_a_mutant_that_nobody_has_noticed_survives() -> None:
    assert kill("forgets-vote", seeds=3) is None


def test_every_promise_has_a_mutant_that_breaks_it() -> None:
    assert {mutant.checker for mutant in MUTANTS.values()} == set(CHECKERS)


def test_the_mistake_of_figure_8_is_seen_in_its_story() -> None:
    for kind, broken in ((CountsOldEntries, {"leader-completeness", "state-machine-safety"}), (None, set())):
        stage = perform(STORIES["figure-8"], *([kind] if kind else []))
        found = check(stage.world.history, stage.world.plan, SCALE_NS)
        assert {violation.checker for violation in found} == broken


def test_a_seed_is_the_same_every_time_and_on_every_core() -> None:
    assert play(draw_setup(7, Options())) == play(draw_setup(7, Options()))
    assert list(judge_seeds(0, 40, 2, Options())) == list(judge_seeds(0, 40, 1, Options()))


def test_an_option_changes_nothing_that_it_does_not_name() -> None:
    setup = draw_setup(3, Options())
    chosen = draw_setup(3, Options(pre_vote=not setup.settings.pre_vote))
    assert replace(chosen.settings, pre_vote=setup.settings.pre_vote) == setup.settings
    assert chosen.plan == setup.plan


def test_without_any_fault_there_is_one_election() -> None:
    options = Options(without=frozenset((*FAULTS, HARRY)))
    assert {judge(seed, options).elections for seed in range(8)} == {1}


@pytest.mark.parametrize("servers", [0, 1, 2, 4, 6, 9])
def test_an_even_number_of_servers_is_refused(servers: int) -> None:
    with pytest.raises(ConfigError, match="must be 3, 5 or 7"):
        Options(servers=servers)
