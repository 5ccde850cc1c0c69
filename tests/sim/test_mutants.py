"""The checkers' own test: every mutant is killed by the checker that it names, within 500 seeds."""

from pathlib import Path

import pytest

from tenure.sim.checkers import CHECKERS
from tenure.sim.killing import row
from tenure.sim.mutants import MUTANTS

ROWS = (Path(__file__).parents[2] / "docs" / "explanation" / "mutants.md").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_killed_by_its_checker_as_the_docs_say(name: str) -> None:
    assert row(name) in ROWS, "out of step: run `make docs`"


def test_every_checker_has_killed_a_mutant() -> None:
    assert {mutant.checker for mutant in MUTANTS.values()} == set(CHECKERS)


def test_the_table_in_the_docs_has_a_row_for_every_mutant_and_no_others() -> None:
    assert [line.split("`")[1] for line in ROWS if line.startswith("| `")] == list(MUTANTS)
