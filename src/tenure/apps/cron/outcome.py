"""What one attempt of a run came to, and what comes of the run then. Decides, and does nothing."""

from typing import NamedTuple

from tenure.apps.cron.jobs import Job
from tenure.apps.cron.queue import Waiting
from tenure.apps.cron.records import Ending, text_of
from tenure.errors import redact


class Outcome(NamedTuple):
    """How an attempt has ended. ``code``: that of a command. ``detail`` is empty if it went well.

    ``cut_short``: by us, and through no fault of its own. It is then dealt with as if its leader had been lost.
    """

    detail: str = ""
    code: int | None = None
    tail: str = ""
    cut_short: bool = False


def ending(job: Job, run: Waiting, outcome: Outcome, now_ms: int) -> Ending:
    """Return what is to be recorded of an attempt.

    Whether there may be another is the run's to say, since the job's file may be another than the one it was scheduled by. How many a
    failure is worth is the job's.
    """
    tail, code, failures = text_of(outcome.tail), outcome.code, run.failures
    if not outcome.detail:
        return Ending("completed", now_ms, code, "", tail, failures)
    detail = text_of(redact(outcome.detail))
    if outcome.cut_short:
        return Ending(
            "pending" if run.on_loss == "retry" else "abandoned", now_ms, code, detail, tail, failures, now_ms
        )
    failures += 1
    if run.on_loss != "retry" or failures > job.retries:
        return Ending("failed", now_ms, code, detail, tail, failures)
    return Ending("pending", now_ms, code, detail, tail, failures, now_ms + round(job.retry_pause_s * 1000))
