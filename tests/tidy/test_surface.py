"""What ``tenure`` exports is one list, EXPORTS in src/tenure/__init__.py; and importing it stays cheap."""

import ast
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import tenure

# The surface as users know it. A change here is a change for them: it belongs into CHANGELOG.md.
SURFACE = [
    "Bid",
    "BootClock",
    "Clock",
    "ClockError",
    "ConfigError",
    "Contended",
    "Document",
    "Election",
    "Ended",
    "Fact",
    "Grant",
    "Holder",
    "Incumbent",
    "Lock",
    "MemoryStore",
    "OutcomeUnknown",
    "Overstay",
    "Reason",
    "Refused",
    "StaleToken",
    "Standby",
    "Store",
    "StoreError",
    "Subscription",
    "Tenure",
    "TenureError",
    "TenureOver",
    "Timing",
    "Token",
    "Traits",
    "Unreachable",
    "UnverifiedToken",
    "VirtualClock",
    "Wait",
    "errors",
    "facts",
    "granted_by",
    "guard",
    "open_store",
    "sinks",
    "subscribe",
    "sync",
    "testing",
]

# Each of these costs more than the rest of ``import tenure`` together.
DEAR_MODULES = {
    "anyio",
    "asyncio",
    "click",
    "concurrent",
    "dataclasses",
    "inspect",
    "logging",
    "rich",
    "socket",
    "trio",
}


def names_for_type_checkers(source: str) -> list[str]:
    """The names that the TYPE_CHECKING block of a module re-exports (``import X as X``)."""
    return [
        alias.asname or ""
        for node in ast.parse(source).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for statement in node.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    ]


def modules_loaded_by(statement: str) -> set[str]:
    """The modules that ``statement`` adds to a fresh interpreter."""
    program = f"import sys, json\nbefore = set(sys.modules)\n{statement}\nprint(json.dumps(sorted(set(sys.modules) - before)))"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(json.loads(answer.stdout))


def test_the_surface_changes_only_on_purpose() -> None:
    assert sorted(tenure.EXPORTS) == SURFACE


@pytest.mark.parametrize("name", SURFACE)
def test_every_export_is_the_thing_that_its_module_defines(name: str) -> None:
    home = import_module(f"tenure.{tenure.EXPORTS[name]}")
    assert getattr(tenure, name) is (home if name == tenure.EXPORTS[name] else getattr(home, name))


def test_type_checkers_see_the_same_surface() -> None:
    assert sorted(names_for_type_checkers(Path(tenure.__file__).read_text())) == SURFACE


def test_the_surface_is_listed_by_dir() -> None:
    assert set(SURFACE) <= set(dir(tenure))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = tenure.Nonsense


def test_importing_tenure_loads_nothing_dear() -> None:
    assert modules_loaded_by("import tenure") & DEAR_MODULES == set()


def test_a_dear_import_would_be_seen() -> None:
    assert modules_loaded_by("import tenure; tenure.MemoryStore") >= {"anyio", "dataclasses"}


def test_the_version_is_the_one_of_the_package() -> None:
    lines = (Path(tenure.__file__).parents[2] / "pyproject.toml").read_text().splitlines()
    assert f'version = "{tenure.__version__}"' in lines
