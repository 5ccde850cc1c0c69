"""A crontab: jobs in a TOML file. Read whole, and refused whole, before anything is run."""

import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, Final, TypeVar

from tenure.apps.cron.jobs import CATCH_UP_LIMIT, Callback, Job
from tenure.apps.cron.schedule import At, Every, Expression, Schedule, zone_of
from tenure.apps.cron.scheduler import HISTORY, HISTORY_MOST, MAX_PARALLEL, MAX_PARALLEL_MOST, by_id, within
from tenure.apps.durations import duration_s
from tenure.errors import ConfigError
from tenure.office.desk import check_name

T = TypeVar("T")
FILE_BYTES_MAX: Final = 1024 * 1024
KEYS: Final = ("election", "ledger", "timezone", "max_parallel", "history", "job")
JOB_KEYS: Final = (
    *("id", "command", "call", "cron", "timezone", "every", "at", "catch_up", "catch_up_limit", "catch_up_within"),
    *("overlap", "max_parallel", "timeout", "retries", "retry_pause", "jitter", "idempotent", "output"),
)
_SHELL: Final = "/bin/sh"
_OUTPUTS: Final = ("keep", "pass")
# What a module of the user's may raise while it is imported. Whatever else comes is shown as Python shows it.
_IMPORT_ERRORS: Final = (
    *(ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError, OSError),
    *(RuntimeError, SyntaxError, TypeError, ValueError, SystemExit),
)


@dataclass(frozen=True, slots=True)
class Crontab:
    """What a file says. ``ledger`` is a URL that may hold secrets; None: the file names none."""

    jobs: tuple[Job, ...]
    election: str
    ledger: str | None = field(repr=False)
    max_parallel: int
    history: int


def read_crontab(file: Path, *, calls: bool) -> Crontab:
    """Read a crontab. Without ``calls`` functions are not imported, and cannot be run.

    Raises ConfigError for the first thing that is wrong.
    """
    table = _load(file)
    _known(f"{file}", table, KEYS)
    jobs = table.get("job", [])
    if not isinstance(jobs, list) or not all(isinstance(one, dict) for one in jobs):
        raise ConfigError("job", file, "must be tables: each begins with a line [[job]]")
    if not jobs:
        raise ConfigError("crontab", file, "has no job: each begins with a line [[job]]")
    zone = _of(table, "timezone", str, "UTC")
    if calls:  # Modules beside the file are meant to be found, wherever the command was started.
        sys.path.insert(0, str(file.resolve().parent))
    made = by_id(_job(one, number, zone, calls=calls) for number, one in enumerate(jobs, start=1))
    zone_of(zone)
    return Crontab(
        tuple(made.values()),
        check_name(_of(table, "election", str, f"cron/{file.stem}")),
        _of(table, "ledger", str, None),
        within("max_parallel", _of(table, "max_parallel", int, MAX_PARALLEL), MAX_PARALLEL_MOST),
        within("history", _of(table, "history", int, HISTORY), HISTORY_MOST),
    )


def _load(file: Path) -> dict[str, Any]:
    try:
        if not file.is_file():  # Whoever opens a pipe waits for somebody to write to it.
            raise ConfigError("crontab", file, "must be a file" if file.exists() else "is not there")
        with file.open("rb") as opened:
            content = opened.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL in it.
        raise ConfigError("crontab", file, f"cannot be read: {getattr(error, 'strerror', error)}") from None
    if len(content) > FILE_BYTES_MAX:
        raise ConfigError("crontab", file, f"must have at most {FILE_BYTES_MAX} bytes")
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ConfigError("crontab", file, f"is not TOML: {error}") from None


def _job(table: dict[str, Any], number: int, zone: str, *, calls: bool) -> Job:
    job_id = table.get("id")
    if not isinstance(job_id, str) or not job_id:
        raise ConfigError(f"id of job {number}", repr(job_id), "must be a name in quotes")
    with _of_job(job_id):
        _known("key", table, JOB_KEYS)
        output = _of(table, "output", str, "keep")
        if output not in _OUTPUTS:
            raise ConfigError("output", repr(output), "must be keep or pass")
        return Job(
            job_id,
            _schedule(table, zone),
            _work(table, calls=calls),
            _of(table, "catch_up", str, "latest"),
            _of(table, "catch_up_limit", int, CATCH_UP_LIMIT),
            _duration(table, "catch_up_within"),
            _of(table, "overlap", str, "wait"),
            _of(table, "max_parallel", int, None),
            _duration(table, "timeout"),
            _of(table, "retries", int, 0),
            _duration(table, "retry_pause", 10.0),
            _duration(table, "jitter", 0.0),
            _of(table, "idempotent", bool, False),
            output == "keep",
        )


def _schedule(table: dict[str, Any], zone: str) -> Schedule:
    named = [key for key in ("cron", "every", "at") if key in table]
    if len(named) != 1:
        raise ConfigError("schedule", ", ".join(named) or "none", "must be one of cron, every and at")
    zone = _of(table, "timezone", str, zone)
    match named[0]:
        case "cron":
            return Expression(_of(table, "cron", str, ""), zone)
        case "every":
            return Every(round(duration_s("every", table["every"]) * 1000))
        case _:
            at = table["at"]
            if not isinstance(at, datetime):
                raise ConfigError("at", at, "must be a date and a time without quotes: 2026-12-01T03:00:00Z")
            if at.tzinfo is None:
                if "timezone" not in table:
                    rule = "must say where: 2026-12-01T03:00:00Z, or 2026-12-01T03:00:00 with a timezone beside it"
                    raise ConfigError("at", at.isoformat(), rule)
                at = at.replace(tzinfo=zone_of(zone))
            try:
                return At(round(at.timestamp() * 1000))
            except ConfigError as error:
                raise ConfigError("at", at.isoformat(), error.rule) from None


def _work(table: dict[str, Any], *, calls: bool) -> Callback | tuple[str, ...]:
    command = table.get("command")
    if (command is None) == ("call" not in table):
        raise ConfigError("command", command, "must be there, or else call = 'module:function', and not both")
    if command is None:
        return _function(_of(table, "call", str, ""), calls=calls)
    if isinstance(command, str) and command.strip():
        return _SHELL, "-c", command
    if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        return tuple(command)
    rule = "must be a line for the shell, or a list of words: a program and its arguments"
    raise ConfigError("command", repr(command)[:60], rule)


def _function(path: str, *, calls: bool) -> Callback:
    module, colon, name = path.partition(":")
    if not (colon and name.isidentifier() and all(part.isidentifier() for part in module.split("."))):
        raise ConfigError("call", path, "must be module:function")
    if not calls:
        return _not_here
    try:
        function: Callback = getattr(import_module(module), name)
    except _IMPORT_ERRORS as error:
        raise ConfigError("call", path, f"cannot be imported: {type(error).__name__}: {error}") from None
    try:
        signature(function).bind(None)
    except (TypeError, ValueError):
        raise ConfigError("call", path, "must be a function that takes one argument, the Run") from None
    return function


async def _not_here(_: object) -> None:
    """Stand for a function that was not imported."""
    raise NotImplementedError


@contextmanager
def _of_job(job_id: str) -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        if error.setting.endswith(f"of job {job_id}"):
            raise
        raise ConfigError(f"{error.setting} of job {job_id[:40]}", error.value, error.rule) from None


def _known(where: str, table: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    for key in table:
        if key not in keys:
            raise ConfigError(where, repr(key), f"is unknown: there are {', '.join(keys)}")


def _of(table: Mapping[str, Any], key: str, kind: Callable[..., T], otherwise: Any) -> Any:
    value = table.get(key, otherwise)
    if value is not otherwise and type(value) is not kind:
        words = {str: "a text in quotes", int: "a whole number", bool: "true or false, without quotes"}
        raise ConfigError(key, repr(value)[:60], f"must be {words[kind]}")  # type: ignore[index]
    return value


def _duration(table: Mapping[str, Any], key: str, otherwise: float | None = None) -> Any:
    return duration_s(key, table[key]) if key in table else otherwise
