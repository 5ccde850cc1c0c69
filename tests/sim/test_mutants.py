"""The checkers' own test: every mutant is killed by the checker that it names, within 500 seeds."""

from pathlib import Path

import pytest

from tenure.sim.checkers import CHECKERS
from tenure.sim.killing import SEEDS_MAX, kill, table
from tenure.sim.mutants import MUTANTS

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "mutants.md"


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_killed_by_its_checker(name: str) -> None:
    assert kill(name) <= SEEDS_MAX


def test_every_checker_has_killed_a_mutant() -> None:
    assert {mutant.checker for mutant in MUTANTS.values()} == set(CHECKERS)


def test_the_table_in_the_docs_is_what_the_run_gives() -> None:
    assert table() in PAGE.read_text(encoding="utf-8"), "out of step: run `make docs`"
