"""The face of the scheduler: jobs and a ledger, and a body for an election. Runs on asyncio."""

import logging
import time
from collections.abc import Callable, Iterable
from typing import Final

from tenure.apps.cron.calls import Calls
from tenure.apps.cron.commands import Commands
from tenure.apps.cron.jobs import Job
from tenure.apps.cron.tenancy import Means, Tells, Tenancy
from tenure.apps.ledger.base import Ledger
from tenure.errors import ConfigError
from tenure.office.tenure import Tenure

MAX_PARALLEL: Final = 16
MAX_PARALLEL_MOST: Final = 1000
HISTORY: Final = 1000
HISTORY_MOST: Final = 1_000_000
_log: Final = logging.getLogger("tenure.cron")


class Logged:
    """Tells it to the log ``tenure.cron``."""

    def say(self, event: str, text: str, **fields: object) -> None:  # noqa: ARG002
        """See ``Tells``."""
        _log.info(text)

    def complain(self, event: str, text: str, **fields: object) -> None:  # noqa: ARG002
        """See ``Tells``."""
        _log.warning(text)


def wall_ms() -> int:
    """Return the time of day, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Cron:
    """Runs jobs when they are due: ``await election.lead(cron.run, sinks=[ledger])``.

    Promises that every time at which a job is due is recorded once, by its key (job, time), also through changes of leader, or is recorded as
    missed where the job's ``catch_up`` says so; that a run of an idempotent job goes on until it has ended; and that a run of any other is begun at
    most once. Does not promise that what a run does happens once: a run that was cut short may have done half of it, and a function in a thread
    cannot be ended. What must not be done twice goes through a fenced sink with ``run.term``, or is done once per ``run.key``.
    """

    def __init__(  # noqa: PLR0913  (each has a default but the first two)
        self,
        ledger: Ledger,
        jobs: Iterable[Job],
        *,
        max_parallel: int = MAX_PARALLEL,
        history: int = HISTORY,
        commands: Commands | None = None,
        tells: Tells | None = None,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        """Keep the newest ``history`` runs of each job. Jobs that are commands need ``commands``, which only a program of its own can have."""
        self._means = Means(
            ledger,
            by_id(jobs),
            within("max_parallel", max_parallel, MAX_PARALLEL_MOST),
            within("history", history, HISTORY_MOST),
            Calls(max_parallel),
            commands,
            tells if tells is not None else Logged(),
            wall_ms if now_ms is None else now_ms,
        )
        self._is_draining = False
        self._tenancy: Tenancy | None = None
        for job in self._means.jobs.values():
            if isinstance(job.work, tuple) and commands is None:
                raise job.wrong("command", job.work[0], "needs a process of its own: use tenure cron, or a function")

    async def run(self, term: Tenure) -> None:
        """Run what is due, until the office is lost. Give it to ``Election.lead`` with the ledger as a sink."""
        self._tenancy = tenancy = Tenancy(self._means, term)
        if self._is_draining:
            tenancy.drain()
        try:
            await tenancy.run()
        finally:
            self._tenancy = None

    def drain(self) -> None:
        """Begin nothing more; ``run`` returns when what is under way has ended."""
        self._is_draining = True
        if self._tenancy is not None:
            self._tenancy.drain()


def by_id(jobs: Iterable[Job]) -> dict[str, Job]:
    """Return jobs by their names. Raises ConfigError if two have one."""
    found: dict[str, Job] = {}
    for job in jobs:
        if job.id in found:
            raise ConfigError("id", job.id, f"is that of two jobs: {found[job.id].schedule.text}; {job.schedule.text}")
        found[job.id] = job
    return found


def within(setting: str, value: int, most: int) -> int:
    """Return a setting of the scheduler's. Raises ConfigError if it is out of range."""
    if not 1 <= value <= most:
        raise ConfigError(setting, value, f"must be from 1 to {most}")
    return value
