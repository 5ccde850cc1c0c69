"""The commands of one supervisor: run in a tenure until they have done, and started again if that is wanted."""

import os
import random
import signal
import time
from collections.abc import Callable, Mapping
from typing import Final

import anyio

from tenure.apps.run.errand import NO_INPUT
from tenure.apps.run.job import Job
from tenure.apps.run.readiness import Readiness
from tenure.apps.run.reaper import SIGNALLED, Reaper
from tenure.apps.run.running import Runner
from tenure.apps.run.terminal import Terminal
from tenure.apps.run.voice import Voice
from tenure.office.tenure import Tenure

# Whoever pressed Ctrl-C or Ctrl-\ or hung up wants it to end. On a terminal the command gets these, and we do not.
_ENDED_BY_HAND: Final = tuple(SIGNALLED + number for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP))

_PAUSE_MIN_S: Final = 1.0
_PAUSE_MAX_S: Final = 30.0
_RAN_WELL_S: Final = 30.0


def next_pause_s(before_s: float, ran_s: float) -> float:
    """Return how long to wait before a command that failed is started again: doubled, unless it had run well."""
    return _PAUSE_MIN_S if not before_s or ran_s >= _RAN_WELL_S else min(_PAUSE_MAX_S, 2 * before_s)


class Commands:
    """Runs what a job says, on one event loop."""

    def __init__(self, job: Job, voice: Voice) -> None:
        self._job, self._voice = job, voice
        self._environment = dict(os.environ)
        self.readiness = Readiness(job.signs, job.election, self._environment)
        self.reaper = Reaper()
        terminal = Terminal() if job.sharding is None else None
        self.runner = Runner(self.reaper, job.timing, voice, self.readiness, terminal)
        self._files = () if terminal is not None else (NO_INPUT,)  # A line of it would be anybody's.
        self.told_to_stop = 0  # the signal that said so

    def know(self, **variables: str) -> None:
        """Have every command find these in its environment."""
        self._environment |= variables

    def say(self, event: str, text: str, **fields: object) -> None:
        """Tell people how it goes, and systemd."""
        self.readiness.status(text)
        self._voice.say(event, text, **fields)

    async def run(
        self, term: Tenure, shard: int, variables: Mapping[str, str], is_over: Callable[[], bool] = lambda: False
    ) -> int:
        """Run a command in a tenure, again if that is wanted, and return its last exit code. ``is_over``: not again."""
        election = term.election
        environment = {**self._environment, **variables}
        environment |= {"TENURE_ELECTION": election, "TENURE_TOKEN": str(term.token), "TENURE_FENCE": term.fence}
        self.say("elected", f"elected in {election} with token {term.token}", election=election, token=term.token)
        pause_s = 0.0
        while True:
            began_s = time.monotonic()
            code, lost = await self.runner.run(self._job.words(shard), term, environment, self._files)
            if self.told_to_stop:
                return code
            if lost:
                await anyio.sleep_forever()  # We are cancelled, so this does not wait.
            if is_over() or code == 0 or code in _ENDED_BY_HAND or not self._job.restart:
                return code
            pause_s = next_pause_s(pause_s, time.monotonic() - began_s)
            jittered_s = pause_s * random.uniform(0.5, 1)
            text = f"the command exited with {code}: starting it again in {jittered_s:.1f} s"
            self.say("restarting", text, election=election, code=code, pause_s=round(jittered_s, 3))
            await anyio.sleep(jittered_s)
