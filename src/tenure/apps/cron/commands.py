"""Jobs that are commands: each a child with a guardian of its own, so that none outlives the tenure it was begun in.

What ``apps/run`` promises of its one command holds for each of these: on loss its process group gets TERM, then KILL before anybody else can take
office, also if this process is frozen or killed (ADR 0011).
"""

import asyncio
import signal
from collections.abc import Sequence
from typing import Any, Final

import anyio
from anyio.lowlevel import cancel_shielded_checkpoint

from tenure.apps.cron.jobs import Run
from tenure.apps.cron.outcome import Outcome
from tenure.apps.cron.records import TEXT_MAX
from tenure.apps.cron.schedule import iso
from tenure.apps.run.child import NOT_EXECUTABLE, CannotStart
from tenure.apps.run.errand import NO_INPUT, Tail, variables_of
from tenure.apps.run.readiness import Readiness, Signs
from tenure.apps.run.reaper import SIGNALLED, Reaper
from tenure.apps.run.running import Runner
from tenure.apps.run.voice import Voice
from tenure.timing import Timing

_KILL_AFTER_S: Final = 5.0
_KILLED: Final = SIGNALLED + signal.SIGKILL


class Commands:
    """Runs commands side by side. Made and used on one event loop, and only once in a process.

    With ``adopts`` it reaps whatever ends, as process 1 of a container must. Then nothing else in the process may start children: it would
    never hear how they ended.
    """

    def __init__(self, timing: Timing, voice: Voice, environment: dict[str, str], *, adopts: bool) -> None:
        self._timing, self._voice, self._environment = timing, voice, environment
        self._reaper = Reaper(adopts=adopts)
        # One by one: of many that each had some of the files they need, all would fail for want of the others.
        self._starting = asyncio.Lock()
        self._idle: list[Runner] = []  # with a guardian each, which is dear to start

    def close(self) -> None:
        """Let the guardians end."""
        for runner in self._idle:
            runner.close()

    def _runner(self) -> Runner:
        return Runner(self._reaper, self._timing, self._voice, Readiness(Signs(), "", {}))

    async def run(self, arguments: Sequence[str], run: Run, timeout_s: float | None, *, keep_output: bool) -> Outcome:
        """Run a command to its end, and say how it ended. Cancellation is the loss of the tenure."""
        async with self._starting:
            try:
                output = Tail([1, 2], TEXT_MAX) if keep_output else None
            except OSError as error:
                return _not_started(error)
            files = [NO_INPUT, *(output.files if output is not None else ())]
            runner = self._idle.pop() if self._idle else self._runner()
            life = asyncio.ensure_future(runner.run(arguments, run.term, self._environment | _told(run), files))
            await cancel_shielded_checkpoint()
        try:
            in_time = await _within(life, runner, timeout_s)
        except asyncio.CancelledError:
            life.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([life])
            raise
        finally:
            tail = output.close() if output is not None else ""
            self._idle.append(runner)
        try:
            code, lost = life.result()
        except CannotStart as error:
            return Outcome(str(error), error.code)
        except (OSError, ValueError) as error:  # ValueError: words that no program can be given.
            return _not_started(error)
        if lost:
            await anyio.sleep_forever()  # We are about to be cancelled.
        if code == _KILLED and runner.was_late and in_time:
            return Outcome(
                "this scheduler was frozen for so long that the guardian ended the command", code, tail, cut_short=True
            )
        if not in_time:
            return Outcome(f"took longer than {timeout_s:g} s", code, tail)
        died = f"died of signal {code - SIGNALLED}" if code > SIGNALLED else f"exited with {code}"
        return Outcome(died if code else "", code, tail)


def _not_started(error: OSError | ValueError) -> Outcome:
    """Return the end of a run for which this process had no room. The others go on."""
    return Outcome(f"cannot start ({getattr(error, 'strerror', None) or error})", NOT_EXECUTABLE)


def _told(run: Run) -> dict[str, str]:
    """Return what a command finds in its environment: enough to be done once per run, or through a fenced sink."""
    return variables_of(run.term) | {
        "TENURE_RUN": str(run.key),
        "TENURE_JOB": run.key.job,
        "TENURE_SCHEDULED": iso(run.key.scheduled_ms),
        "TENURE_ATTEMPT": str(run.attempt),
    }


async def _within(life: "asyncio.Future[Any]", runner: Runner, timeout_s: float | None) -> bool:
    """Wait for the end of a command, and bring it about when its time is up; say whether it ended by itself."""
    done, _ = await asyncio.wait([life], timeout=timeout_s)
    if done:
        return True
    runner.signal(signal.SIGTERM)
    done, _ = await asyncio.wait([life], timeout=_KILL_AFTER_S)
    if not done:
        runner.signal(signal.SIGKILL)
        await asyncio.wait([life])
    return False
