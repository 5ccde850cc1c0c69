"""The style guide as a test. Each rule is a function from text to violations, tried on a planted one as well."""

import ast
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILE_LINES_MAX = 350
FUNCTION_LINES_MAX = 70
# Where an exception of any kind may be caught: where what the user wrote is awaited, or told, and where tasks and threads are kept up.
MAY_CATCH_ALL = frozenset(
    {"src/tenure/clients/upkeep.py", "src/tenure/facts/subscribing.py", "src/tenure/stores/sqlite/thread.py"}
)
# Chaos and end-to-end tests run real processes and may have to wait for them; these never.
SLEEPLESS = ("tests/unit", "tests/scripts", "tests/contract", "tests/sim", "tests/tidy")

_UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b")
_CONFLICT = re.compile(r"^(?:<{7}|>{7})(?= )", re.MULTILINE)
_MACHINE_PATH = re.compile(r"(?<![\w.:*~/-])/(?:work|root|Users|home/\w+)(?=/|\b)(?!\w)")
_PACKAGE_HOST = re.compile(
    r"pypi\.\w+|python[h]osted|--(?:extra-)?index[-]url|--find[-]links|artifact[o]ry", re.IGNORECASE
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def tracked_files() -> list[Path]:
    """What is, or would be, in the repository: known files and new ones that are not ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted({ROOT / line for line in listing.splitlines() if (ROOT / line).is_file()})


TRACKED = [path for path in tracked_files() if path.suffix != ".png"]  # Pictures have no words in them.
PYTHON = [path for path in TRACKED if path.suffix == ".py"]
SOURCE = [path for path in PYTHON if path.is_relative_to(ROOT / "src")]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(source: str) -> Iterator[Function]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, Function):
            yield node


def long_files(source: str) -> list[str]:
    count = len(source.splitlines())
    return [f"{count} lines"] if count > FILE_LINES_MAX else []


def long_functions(source: str) -> list[str]:
    lengths = {node.name: (node.end_lineno or 0) - node.lineno + 1 for node in functions(source)}
    return [f"{name} has {count} lines" for name, count in lengths.items() if count > FUNCTION_LINES_MAX]


def unfinished(text: str) -> list[str]:
    return _UNFINISHED.findall(text)


def conflicts(text: str) -> list[str]:
    """Marks of a merge that nobody has ended: a document with them passes every other test."""
    return _CONFLICT.findall(text)


def machine_paths(text: str) -> list[str]:
    return _MACHINE_PATH.findall(text)


def package_hosts(text: str) -> list[str]:
    return _PACKAGE_HOST.findall(text)


def sleeps(source: str) -> list[str]:
    """Calls of any library's sleep for longer than nothing; ``sleep(0)`` only lets others run."""
    return [
        f"{ast.unparse(node)} at line {node.lineno}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("sleep", "time.sleep", "asyncio.sleep", "anyio.sleep", "trio.sleep")
        and [ast.unparse(argument) for argument in node.args] != ["0"]
    ]


def catches_all(source: str) -> list[str]:
    return [
        f"line {node.lineno}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or re.search(r"\b(?:Base)?Exception\b", ast.unparse(node.type)))
    ]


def idle_tests(source: str) -> list[str]:
    return [
        node.name
        for node in functions(source)
        if node.name.startswith("test_") and not any(_asserts(part) for part in ast.walk(node))
    ]


def _asserts(node: ast.AST) -> bool:
    match node:
        case ast.Assert():
            return True
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.startswith("check_") or name == "raises"
        case _:
            return False


def without_docstring(source: str) -> list[str]:
    return [] if ast.get_docstring(ast.parse(source)) else ["no docstring"]


def violations(rule: Callable[[str], list[str]], paths: list[Path]) -> dict[str, list[str]]:
    """The files that break a rule, and how."""
    found = {name_of(path): rule(path.read_text(encoding="utf-8")) for path in paths}
    return {name: breaches for name, breaches in found.items() if breaches}


def below(*folders: str) -> list[Path]:
    return [path for path in PYTHON if name_of(path).startswith(folders)]


def test_there_is_something_to_check() -> None:
    assert ROOT / "src" / "tenure" / "core" / "candidate.py" in SOURCE
    assert Path(__file__) in PYTHON


def test_files_are_short() -> None:
    assert violations(long_files, PYTHON) == {}


def test_functions_are_short() -> None:
    assert violations(long_functions, PYTHON) == {}


def test_nothing_is_left_unfinished() -> None:
    assert violations(unfinished, TRACKED) == {}


def test_no_merge_is_left_unfinished() -> None:
    assert violations(conflicts, TRACKED) == {}


def test_tests_do_not_sleep() -> None:
    assert violations(sleeps, below(*SLEEPLESS)) == {}


def test_no_error_is_caught_without_a_name() -> None:
    assert violations(catches_all, [path for path in SOURCE if name_of(path) not in MAY_CATCH_ALL]) == {}


def test_no_file_knows_a_machine() -> None:
    assert violations(machine_paths, TRACKED) == {}


def test_no_file_knows_a_package_host() -> None:
    assert violations(package_hosts, TRACKED) == {}


def test_every_test_asserts() -> None:
    assert violations(idle_tests, [path for path in PYTHON if path.name.startswith("test_")]) == {}


def test_every_module_says_what_it_is_for() -> None:
    assert violations(without_docstring, SOURCE) == {}


@pytest.mark.parametrize(
    ("rule", "planted", "innocent"),
    [
        (long_files, "x = 1\n" * (FILE_LINES_MAX + 1), "x = 1\n" * FILE_LINES_MAX),
        (
            long_functions,
            "def f():\n" + "    x\n" * FUNCTION_LINES_MAX,
            "def f():\n" + "    x\n" * (FUNCTION_LINES_MAX - 1),
        ),
        (unfinished, "# TO" + "DO: later", "# a method"),
        (conflicts, "x\n" + "<" * 7 + " HEAD\nx", ">" * 8 + "\na " + "<" * 7 + " b"),
        (machine_paths, "cd /" + "work/main", "a framework/library"),
        (machine_paths, "'/" + "home/ada/x'", "https://example.org/home/page"),
        (machine_paths, "see /" + "root.", "the chroot/root"),
        (package_hosts, "pip install --index" + "-url https://example.org", "an index of pages"),
        (package_hosts, "https://files.python" + "hosted.org/x", "hosted"),
        (sleeps, "import time\ntime.sleep(1)", "time.sleep"),
        (sleeps, "async def f():\n    await anyio.sleep(0.1)", "async def f():\n    await anyio.sleep(0)"),
        (catches_all, "try: ...\nexcept Exception: ...", "try: ...\nexcept ValueError: ..."),
        (catches_all, "try: ...\nexcept (OSError, BaseException): ...", "try: ...\nexcept* OSError: ..."),
        (catches_all, "try: ...\nexcept: ...", "raise Exception"),
        (idle_tests, "def test_x():\n    f()", "def test_x():\n    assert f()"),
        (idle_tests, "async def test_x():\n    await f()", "def helper():\n    f()"),
        (idle_tests, "def test_x():\n    g(f)", "def test_x():\n    anyio.run(check_store, make)"),
        (idle_tests, "def test_x(): ...", "def test_x():\n    with pytest.raises(E): f()"),
        (without_docstring, "x = 1", '"""What it is."""'),
    ],
)
def test_each_rule_catches_a_planted_violation(rule: Callable[[str], list[str]], planted: str, innocent: str) -> None:
    assert len(rule(planted)) == 1
    assert rule(innocent) == []
