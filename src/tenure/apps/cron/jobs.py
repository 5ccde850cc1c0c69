"""A job, and one run of it: what people declare, and what a job is told."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from inspect import iscoroutinefunction
from typing import Final, Literal, NamedTuple

from tenure.apps.cron.schedule import Schedule, iso
from tenure.errors import ConfigError
from tenure.office.tenure import Tenure

CatchUp = Literal["skip", "latest", "all"]
Overlap = Literal["wait", "skip", "allow"]
OnLoss = Literal["retry", "abandon"]
CATCH_UPS: Final = ("skip", "latest", "all")
OVERLAPS: Final = ("wait", "skip", "allow")
# A job that skips what was missed still runs if it is late by no more than a change of leader takes.
SKIP_WITHIN_S: Final = 60.0
CATCH_UP_LIMIT: Final = 100
_LIMIT_MAX: Final = 10_000
_RETRIES_MAX: Final = 50
_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,99}")


class Key(NamedTuple):
    """What names a run, for ever: the job, and the time for which it was scheduled."""

    job: str
    scheduled_ms: int

    def __str__(self) -> str:
        return f"{self.job}@{iso(self.scheduled_ms)}"


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a job, as the job itself is told of it. ``str(run.key)`` is the same in every attempt."""

    key: Key
    attempt: int
    term: Tenure

    @property
    def scheduled(self) -> datetime:
        """When it was due. It may begin later, and after a change of leader it may begin again."""
        return datetime.fromtimestamp(self.key.scheduled_ms / 1000, UTC)


Callback = Callable[[Run], Awaitable[object] | object]


@dataclass(frozen=True, slots=True)
class Job:
    """What to run, when, and what to do when that does not go as it should.

    ``work`` is a function that takes a Run, or a command. With ``idempotent`` a run whose leader was lost is begun again under the same key;
    without, it is given up and reported, and is begun at most once. Raises ConfigError for what does not fit together.
    """

    id: str
    schedule: Schedule
    work: Callback | tuple[str, ...]
    catch_up: CatchUp = "latest"
    catch_up_limit: int = CATCH_UP_LIMIT
    catch_up_within_s: float | None = None
    overlap: Overlap = "wait"
    max_parallel: int | None = None
    timeout_s: float | None = None
    retries: int = 0
    retry_pause_s: float = 10.0
    jitter_s: float = 0.0
    idempotent: bool = False
    keep_output: bool = True

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            rule = "must have 1 to 100 letters, digits and _ - . /, and begin with a letter, a digit or _"
            raise ConfigError("id", repr(self.id[:40]), rule)
        self._one_of("catch_up", self.catch_up, CATCH_UPS)
        self._one_of("overlap", self.overlap, OVERLAPS)
        self._within("catch_up_limit", self.catch_up_limit, 1, _LIMIT_MAX)
        self._within("retries", self.retries, 0, _RETRIES_MAX)
        if self.retries and not self.idempotent:
            raise self.wrong("retries", self.retries, "needs idempotent = true: else a run is begun at most once")
        if self.max_parallel is not None:
            self._within("max_parallel", self.max_parallel, 1, _LIMIT_MAX)
            if self.overlap != "allow":
                raise self.wrong("max_parallel", self.max_parallel, "needs overlap = 'allow': else it is 1")
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise self.wrong("timeout", f"{self.timeout_s:g} s", "must be more than 0")
        if isinstance(self.work, tuple):
            if not self.work or not self.work[0]:
                raise self.wrong("command", list(self.work), "must name a program")
            if any("\0" in word for word in self.work):
                raise self.wrong("command", repr(self.work[-1])[:60], "must have no NUL: no program can be given one")
        elif self.timeout_s is not None and not iscoroutinefunction(self.work):
            raise self.wrong(
                "timeout", f"{self.timeout_s:g} s", "needs an async function, or a command: nothing ends a thread"
            )

    @property
    def within_ms(self) -> int | None:
        """How late a time may be and still be run; None: as late as may be."""
        within_s = self.catch_up_within_s
        if within_s is None:
            within_s = SKIP_WITHIN_S if self.catch_up == "skip" else None
        return None if within_s is None else round(within_s * 1000)

    @property
    def due_max(self) -> int:
        """How many times may be run of those that have come since the last look."""
        return self.catch_up_limit if self.catch_up == "all" else 1

    @property
    def on_loss(self) -> OnLoss:
        """What becomes of a run that was begun and cut short. A run keeps what its job said when it was scheduled."""
        return "retry" if self.idempotent else "abandon"

    @property
    def parallel_max(self) -> int:
        """How many of its runs may be under way at once."""
        return 1 if self.overlap != "allow" else self.max_parallel or _LIMIT_MAX

    def wrong(self, setting: str, value: object, rule: str) -> ConfigError:
        """Return the error that names this job and one of its settings."""
        return ConfigError(f"{setting} of job {self.id}", value, rule)

    def _one_of(self, setting: str, value: object, words: tuple[str, ...]) -> None:
        if value not in words:
            raise self.wrong(setting, repr(value), f"must be {', '.join(words[:-1])} or {words[-1]}")

    def _within(self, setting: str, value: int, least: int, most: int) -> None:
        if not least <= value <= most:
            raise self.wrong(setting, value, f"must be from {least} to {most}")
