"""The steps of a folder: numbered files of SQL or Python. Read whole, and refused whole, before anything is applied.

A step is ``0007_add_index.sql`` or ``0007-backfill.py``; numbers begin at 1 and leave none out. A step is applied in one transaction
unless its first lines say otherwise, in a comment:

``tenure: no-transaction``             it is begun once. If nobody knows how it ended, somebody has to say so.
``tenure: no-transaction repeatable``  it may be begun again: ``CREATE INDEX CONCURRENTLY IF NOT EXISTS``.
"""

import ast
import re
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from inspect import iscoroutine
from pathlib import Path
from traceback import walk_tb
from typing import Any, Final

from tenure.apps.ledger.base import Call, Kind, Statement
from tenure.apps.migrate.statements import NeverEnds, is_fed, split, what_commits, what_ends_it
from tenure.errors import ConfigError, Refused

STEP_BYTES_MAX: Final = 16 * 1024 * 1024  # Data of that size is loaded by other means.
NAME_CHARACTERS_MAX: Final = 200
_NAME: Final = re.compile(r"(?P<number>[0-9]{1,9})[_-](?P<name>[^/]+)\.(?P<suffix>sql|py)")
_SAID: Final = re.compile(r"^\s*(?:--|#)\s*tenure:\s*(?P<words>.*?)\s*$", re.MULTILINE)
_SUFFIXES: Final = {".sql", ".py"}


class How(StrEnum):
    """How a step is applied."""

    TRANSACTION = "transaction"
    ONCE = "no-transaction"
    REPEATABLE = "no-transaction repeatable"


@dataclass(frozen=True, slots=True)
class Step:
    """One step, and what is to be done for it."""

    number: int
    name: str
    file: str
    checksum: str
    how: How
    work: tuple[Statement | Call, ...]

    def __str__(self) -> str:
        return f"{self.number} {self.name}"

    def line_of(self, error: BaseException) -> int | None:
        """Return the line of this step, if it is Python, on which an error came about; None: it came about elsewhere."""
        passed = [line for frame, line in walk_tb(error.__traceback__) if frame.f_code.co_filename == self.file]
        return passed[-1] if passed else None


def steps_of(folder: Path, kind: Kind) -> list[Step]:
    """Return the steps of a folder in their order, as they would be applied to this kind of database.

    Raises ConfigError for whatever is wrong with the first file, or with their numbers.
    """
    try:
        files = sorted(
            path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES and path.name[0] not in "._"
        )
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL in it.
        raise ConfigError("steps", folder, f"cannot be read: {getattr(error, 'strerror', error)}") from None
    steps = sorted((_step(file, kind) for file in files), key=lambda step: step.number)
    if not steps:
        raise ConfigError("steps", folder, "has no step: a step is a file such as 0001_create_users.sql")
    for place, step in enumerate(steps, start=1):
        if place > 1 and step.number == steps[place - 2].number:
            raise ConfigError("steps", folder, f"has two steps {step.number}: {steps[place - 2].name} and {step.name}")
        if step.number != place:
            missing = f"{place}" if step.number == place + 1 else f"{place} to {step.number - 1}"
            raise ConfigError("steps", folder, f"has a gap: {step} is there, and {missing} is not")
    return steps


def _step(file: Path, kind: Kind) -> Step:
    parts = _NAME.fullmatch(file.name)
    if parts is None or not parts["name"].isprintable():
        raise ConfigError("step", file.name, "must be called by its number and name, such as 0001_create_users.sql")
    if not file.is_file():  # Whoever opens a pipe waits for somebody to write to it.
        raise ConfigError("step", file.name, "must be a file")
    if len(parts["name"]) > NAME_CHARACTERS_MAX:
        raise ConfigError("step", f"{file.name[:40]}…", f"must have a name of up to {NAME_CHARACTERS_MAX} characters")
    text, checksum = _read(file)
    how = _how(file.name, text)
    work = _sql(file.name, text, kind, how) if parts["suffix"] == "sql" else (Call(_function(file.name, text, kind)),)
    return Step(int(parts["number"]), parts["name"], file.name, checksum, how, work)


def _read(file: Path) -> tuple[str, str]:
    try:
        with file.open("rb") as opened:
            content = opened.read(STEP_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError("step", file.name, f"cannot be read: {error.strerror}") from None
    if len(content) > STEP_BYTES_MAX:
        raise ConfigError("step", file.name, f"must have at most {STEP_BYTES_MAX} bytes")
    try:
        # Not read_text: it would change line ends, and with them what stands in quotes.
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError("step", file.name, f"must be UTF-8, and is not at byte {error.start}") from None
    return text, sha256(content).hexdigest()


def _how(name: str, text: str) -> How:
    head = re.match(r"(?:\s*(?:--|#)[^\n]*(?:\n|\Z)|\s*\n)*", text)
    said = _SAID.findall(head[0] if head else "")
    if not said:
        return How.TRANSACTION
    words = " ".join(said[0].lower().split())
    if len(said) > 1 or words not in (How.ONCE, How.REPEATABLE):
        raise ConfigError("step", name, f"must say {How.ONCE} or {How.REPEATABLE} after tenure: in its first lines")
    return How(words)


def _sql(name: str, text: str, kind: Kind, how: How) -> tuple[Statement, ...]:
    try:
        statements = split(text, kind)
    except NeverEnds as mark:
        raise ConfigError("step", name, f"has a quote or a comment that never ends: no {mark} follows") from None
    if not statements:
        raise ConfigError("step", name, "has no statement")
    for statement in statements:
        if how is How.TRANSACTION and (words := what_ends_it(statement)):
            raise ConfigError(
                "step", name, f"must not {words}: a step is one transaction, which begins and ends by itself"
            )
        if kind == "mysql" and how is How.TRANSACTION and (words := what_commits(statement)):
            rule = f"must say '-- tenure: {How.REPEATABLE}' or '{How.ONCE}': MySQL commits {words} by itself, before it is recorded"
            raise ConfigError("step", name, rule)
        if kind == "mysql" and statement[:10].upper().startswith("DELIMITER"):
            rule = (
                "must not DELIMITER, which is mysql's: a routine has a file of its own, to the end of which it goes on"
            )
            raise ConfigError("step", name, rule)
        if is_fed(statement):
            raise ConfigError(
                "step", name, "must not COPY FROM STDIN: there is nothing to read from; use INSERT, or a step in Python"
            )
    return tuple(Statement(statement) for statement in statements)


def _function(name: str, text: str, kind: Kind) -> Callable[[Any], Any]:
    """Return ``apply`` of a step in Python, which is not carried out before it is called."""
    try:
        tree = ast.parse(text, name)
        code = compile(tree, name, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        told = f"{getattr(error, 'msg', None) or str(error) or type(error).__name__}" + (
            f", line {line}" if line else ""
        )
        raise ConfigError("step", name, f"is not Python: {told}") from None
    made = [
        node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "apply"
    ]
    if not made:
        raise ConfigError("step", name, "must have a function apply(connection)")
    if kind == "sqlite" and isinstance(made[-1], ast.AsyncFunctionDef):
        raise ConfigError("step", name, "must not be async: the connection of SQLite blocks")

    def apply(connection: Any) -> Any:
        found: dict[str, Any] = {"__name__": f"tenure_step_{name}", "__file__": name}
        with _no_exit(name):
            exec(code, found)  # noqa: S102  (a step is the user's own program)
            result = found["apply"](connection)
        return _awaited(name, result) if iscoroutine(result) else _nothing(name, result)

    return apply


async def _awaited(name: str, coroutine: Coroutine[Any, Any, Any]) -> None:
    with _no_exit(name):
        result = await coroutine
    _nothing(name, result)


def _nothing(name: str, result: object) -> None:
    """Refuse what is returned: a generator, for one, has done nothing yet."""
    if result is not None:
        raise Refused(
            "step", name, f"apply() must return None, and returned a {type(result).__name__}: nothing was applied"
        )


@contextmanager
def _no_exit(name: str) -> Iterator[None]:
    """Let a step fail that would leave the program, which would say that all is well."""
    try:
        yield
    except SystemExit as leaving:
        raise Refused("step", name, f"it called sys.exit({leaving.code!r}): nothing was applied") from None
