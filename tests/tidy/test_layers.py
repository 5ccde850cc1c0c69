"""The layers of the package, and what the core may not do, read from the syntax of every file in src/tenure.

Each check is a function from source text to a list of violations, so that a planted one can be fed to it.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import tenure

PACKAGE = Path(__file__).parents[2] / "src" / "tenure"
FILES = sorted(PACKAGE.rglob("*.py"))

# From the bottom to the top. A file imports from its own unit and from rows below its own, never from a neighbour.
ROWS = (
    ("errors",),
    ("clock", "model", "timing"),
    ("facts",),
    ("core",),
    ("clients",),
    ("stores", "sinks"),
    ("office", "sim"),
    ("election", "lock", "sync", "plan", "metrics"),
    ("apps",),
    ("testing",),
    ("web",),
    ("serve",),
    ("cli", "contrib"),
    ("__main__",),
)
RANK = {unit: rank for rank, row in enumerate(ROWS) for unit in row}
# The laboratory is there to learn from. It may use what users use; nobody uses it but its own commands.
LAB = "lab"
RANK_OF_LAB = RANK["testing"]
COMMANDS_OF_LAB = "cli/lab"  # lab.py and lab_*.py

# Whatever waits, tells the time, draws lots, logs, starts threads or touches the world outside.
CORE_BANNED_MODULES = frozenset(
    (
        "anyio",
        "asyncio",
        "concurrent",
        "datetime",
        "io",
        "logging",
        "multiprocessing",
        "os",
        "random",
        "secrets",
        "select",
        "signal",
        "socket",
        "subprocess",
        "sys",
        "threading",
        "time",
        "trio",
        "uuid",
    )
)
CORE_BANNED_CALLS = frozenset({"print", "open", "input", "exec", "eval", "__import__"})
MACHINE_NAMES = frozenset({"candidate", "machine"})


def unit_of(path: Path) -> str:
    """The part of the package that a file belongs to: the first folder, or the module itself; "" is the root."""
    first = path.relative_to(PACKAGE).parts[0]
    return "" if first == "__init__.py" else first.removesuffix(".py")


def package_of(path: Path) -> tuple[str, ...]:
    return ("tenure", *path.relative_to(PACKAGE).parent.parts)


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def _nodes(tree: ast.AST, *, skip_type_checking: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(tree):
        if skip_type_checking and _is_type_checking(child):
            continue
        yield child
        yield from _nodes(child, skip_type_checking=skip_type_checking)


def imported_names(source: str, package: tuple[str, ...], *, skip_type_checking: bool = False) -> Iterator[str]:
    """Every dotted name that ``source`` imports, wherever in the file; relative ones are resolved."""
    for node in _nodes(ast.parse(source), skip_type_checking=skip_type_checking):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) + 1 - node.level]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from (str(name.value) for name in node.args if isinstance(name, ast.Constant))


def _unit_meant(dotted: str) -> str | None:
    """The unit of a name imported from tenure; "" for the root itself; None for other packages."""
    top, _, rest = dotted.partition(".")
    if top != "tenure":
        return None
    first = rest.partition(".")[0]
    # ``from tenure import MemoryStore`` reaches as high as the module that the name stands for.
    return tenure.EXPORTS.get(first, first).partition(".")[0]


def layer_violations(source: str, path: Path) -> list[str]:
    unit, violations = unit_of(path), []
    if unit not in RANK and unit not in ("", LAB):
        violations.append(f"{unit} stands in no layer: put it into ROWS")
    rank = RANK_OF_LAB if unit == LAB else RANK.get(unit, -1)
    for dotted in imported_names(source, package_of(path), skip_type_checking=unit == ""):
        other = _unit_meant(dotted)
        if other is None or other in (unit, "__version__"):
            continue
        if other == "" and rank < RANK["cli"]:
            violations.append(f"{unit} imports the root of tenure, which stands for every layer: {dotted}")
        elif other == LAB and not path.relative_to(PACKAGE).as_posix().startswith(COMMANDS_OF_LAB):
            violations.append(f"{unit or 'the root'} imports the laboratory: {dotted}")
        elif other and other != LAB and RANK.get(other, len(ROWS)) >= rank:
            violations.append(f"{unit or 'the root'} imports {dotted}, which is not below it")
    return violations


def core_violations(source: str) -> list[str]:
    violations = [
        f"the core imports {dotted}"
        for dotted in imported_names(source, ("tenure", "core"))
        if dotted.partition(".")[0] in CORE_BANNED_MODULES
    ]
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.AsyncFunctionDef() | ast.Await() | ast.AsyncFor() | ast.AsyncWith():
                violations.append(f"the core waits: {type(node).__name__} at line {node.lineno}")
            case ast.comprehension(is_async=1):
                violations.append(f"the core waits: {ast.unparse(node)}")
            case ast.Call(func=ast.Name(id=name)) if name in CORE_BANNED_CALLS:
                violations.append(f"the core calls {name} at line {node.lineno}")
            case _:
                pass
    return violations


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.strip("_").lower()
        case ast.Subscript(value=value) | ast.Call(func=value):
            return _last_name(value)
        case _:
            return ""


def _names_machine(node: ast.expr) -> bool:
    words = set(_last_name(node).split("_"))
    return bool(words & (MACHINE_NAMES | {f"{name}s" for name in MACHINE_NAMES}))


def state_violations(source: str) -> list[str]:
    violations = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(value=owner, attr="state", ctx=ast.Store() | ast.Del()) if _names_machine(owner):
                violations.append(f"assigns {ast.unparse(node)} at line {node.lineno}")
            case ast.Call(func=func, args=[owner, ast.Constant(value="state"), *_]) if _names_machine(owner):
                if ast.unparse(func) in ("setattr", "delattr", "object.__setattr__", "object.__delattr__"):
                    violations.append(f"assigns state by {ast.unparse(node)} at line {node.lineno}")
            case _:
                pass
    return violations


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down_only(path: Path) -> None:
    assert layer_violations(path.read_text(), path) == []


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("errors.py", "from tenure.model import Bid"),
        ("timing.py", "from tenure.clock import Clock"),
        ("core/candidate.py", "from tenure.stores.base import Store"),
        ("core/candidate.py", "def f():\n    import tenure.sim.world"),
        ("core/candidate.py", "from tenure import MemoryStore"),
        ("core/candidate.py", "import tenure"),
        ("core/candidate.py", "from ..stores import memory"),
        ("core/candidate.py", "from importlib import import_module\nimport_module('tenure.cli.main')"),
        (
            "core/candidate.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tenure.office import Office",
        ),
        ("stores/memory.py", "from tenure.testing import check_store"),
        ("stores/memory.py", "from tenure.sinks.fence import Fence"),
        ("sim/world.py", "from tenure.testing import script"),
        ("sim/world.py", "from tenure.lab import raft"),
        ("testing/__init__.py", "from tenure.cli import main"),
        ("lab/raft.py", "from tenure.cli import main"),
        ("cli/main.py", "from tenure.lab.raft import Node"),
        ("__init__.py", "from tenure.clock import Clock"),
        ("novelty.py", "X = 1"),
    ],
)
def test_an_import_upwards_is_caught(file: str, line: str) -> None:
    assert len(layer_violations(line, PACKAGE / file)) == 1


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("core/candidate.py", "from tenure.core.table import State\nfrom tenure.timing import Timing"),
        ("core/candidate.py", "from .table import State\nfrom ..model import Bid\nfrom tenure import Timing"),
        ("testing/__init__.py", "from tenure.sim.world import World\nfrom tenure.stores.base import Store"),
        ("cli/main.py", "import tenure\nfrom tenure import __version__, testing"),
        ("lab/raft.py", "from tenure.clock import Clock"),
        ("cli/lab_raft.py", "from tenure.lab.raft import seeds"),
        ("__init__.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tenure.clock import Clock"),
        ("errors.py", "import re"),
    ],
)
def test_an_import_downwards_is_let_through(file: str, line: str) -> None:
    assert layer_violations(line, PACKAGE / file) == []


@pytest.mark.parametrize("path", sorted((PACKAGE / "core").rglob("*.py")), ids=lambda path: path.name)
def test_the_core_does_no_io(path: Path) -> None:
    assert core_violations(path.read_text()) == []


@pytest.mark.parametrize(
    "planted",
    [
        "import time",
        "from datetime import datetime",
        "import os.path",
        "def f():\n    from random import random",
        "import secrets",
        "import logging",
        "import threading",
        "import asyncio",
        "import anyio",
        "import socket",
        "async def f(): ...",
        "print('here')",
        "open('file')",
    ],
)
def test_io_in_the_core_is_caught(planted: str) -> None:
    assert len(core_violations(planted)) == 1


def test_waiting_in_the_core_is_caught_in_every_form() -> None:
    planted = "async def f(x):\n    await x\n    async for y in x: ...\n    async with x: ...\n    [y async for y in x]"
    assert len(core_violations(planted)) == 5


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_the_candidate_changes_its_state(path: Path) -> None:
    assert path == PACKAGE / "core" / "candidate.py" or state_violations(path.read_text()) == []


@pytest.mark.parametrize(
    "planted",
    [
        "candidate.state = IDLE",
        "self._candidate.state = IDLE",
        "office.machine.state = IDLE",
        "self.candidates[0].state = IDLE",
        "a.machine.state, b = 1, 2",
        "old_candidate.state: State = IDLE",
        "del candidate.state",
        "setattr(machine, 'state', IDLE)",
        "object.__setattr__(self.candidate, 'state', IDLE)",
    ],
)
def test_a_change_of_state_elsewhere_is_caught(planted: str) -> None:
    assert len(state_violations(planted)) == 1


@pytest.mark.parametrize("innocent", ["self.state = 1", "x = candidate.state", "candidate.state == IDLE"])
def test_reading_the_state_is_let_through(innocent: str) -> None:
    assert state_violations(innocent) == []
