"""Seeds that once failed pass now, and still fail with the old mistake put back."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tenure.sim.plan import Options
from tenure.sim.run import judge

ENTRIES: list[dict[str, Any]] = tomllib.loads((Path(__file__).parent / "regressions.toml").read_text(encoding="utf-8"))[
    "regression"
]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry['checker']}-{entry['seed']}")
def test_seed_passes_now_and_fails_with_the_mistake_put_back(entry: dict[str, Any]) -> None:
    options = Options(entry["seed"], without=frozenset(entry.get("without", ())), candidates=entry.get("candidates"))
    assert judge(options).violations == ()
    if "mutant" in entry:
        assert entry["checker"] in {violation.checker for violation in judge(options, entry["mutant"]).violations}
    assert entry["story"].strip()
    assert entry["fixed_by"].strip()
