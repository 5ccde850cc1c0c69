"""The supervisor: stands for election and runs the command in every tenure.

A signal to stop is passed on while a command runs, which then has its own time to end: renewals go on. While none runs,
it ends the candidacy.
"""

import asyncio
import logging
import math
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import anyio

from tenure.apps.run.child import CannotStart, check_command
from tenure.apps.run.health import Health
from tenure.apps.run.reaper import SIGNALLED
from tenure.apps.run.running import PASSED_ON, STOPPING, Runner
from tenure.apps.run.voice import Voice
from tenure.election import Election
from tenure.errors import ConfigError, StoreError, TenureOver
from tenure.model import Incumbent
from tenure.office.opened import open_store
from tenure.office.tenure import Tenure
from tenure.timing import Timing

NO_STORE: Final = 69  # EX_UNAVAILABLE of sysexits.h
NOT_ELECTED: Final = 75  # EX_TEMPFAIL
LOST: Final = 124  # what timeout(1) says of a command that it had to end
# Whoever pressed Ctrl-C or Ctrl-\ or hung up wants it to end. On a terminal the command gets these, and we do not.
_ENDED_BY_HAND: Final = tuple(SIGNALLED + number for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP))

_PAUSE_MIN_S: Final = 1.0
_PAUSE_MAX_S: Final = 30.0
_RAN_WELL_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Job:
    """What to run, in which office."""

    election: str
    command: tuple[str, ...]
    store: str = field(repr=False)  # a URL that may hold secrets
    timing: Timing
    once: bool = False
    wait_s: float | None = None  # None: for ever; 0: not at all
    restart: bool = False
    healthy: str | None = None
    accept_best_effort: bool = False


def supervise(job: Job, voice: Voice) -> int:
    """Run the job to its end and return the exit code. Raises ConfigError for settings that cannot work."""
    if not hasattr(os, "waitid"):
        raise ConfigError(
            "platform", sys.platform, "needs Python 3.13 to run a command: earlier ones lack os.waitid here"
        )
    _open_standard_files()
    logger = logging.getLogger("tenure")
    logger.addHandler(voice)
    try:
        check_command(job.command[0])  # A machine that cannot run the command must not take office.
        return asyncio.run(_Supervisor(job, voice).run())
    except CannotStart as error:
        voice.complain("cannot-start", str(error), command=error.command)
        return error.code
    except StoreError as error:
        voice.complain("no-store", str(error), store=error.store)
        return NO_STORE
    finally:
        logger.removeHandler(voice)


def next_pause_s(before_s: float, ran_s: float) -> float:
    """Return how long to wait before a command that failed is started again: doubled, unless it had run well."""
    return _PAUSE_MIN_S if not before_s or ran_s >= _RAN_WELL_S else min(_PAUSE_MAX_S, 2 * before_s)


class _Supervisor:
    """One job, on one event loop."""

    def __init__(self, job: Job, voice: Voice) -> None:
        self._job, self._voice = job, voice
        self._heartbeat_s = job.timing.renew_every_ns / 1e9
        self._environment = dict(os.environ)
        self._term: Tenure | None = None
        self._told_to_stop = 0  # the signal that said so
        self._is_healthy = True
        self._trouble: StoreError | None = None  # the last that was heard while standing by

    async def run(self) -> int:
        job = self._job
        self._runner = Runner(job.command, job.timing, self._voice)
        self._health = Health(job.healthy, self._heartbeat_s, self._runner.reaper) if job.healthy else None
        try:
            with anyio.CancelScope() as self._everything:
                self._listen()
                await self._runner.start()
                async with open_store(job.store, accept_best_effort=job.accept_best_effort) as store:
                    return await self._stand(Election(store, job.election, timing=job.timing), store.store.address)
            return SIGNALLED + self._told_to_stop
        finally:
            self._runner.close()
            self._stop_listening()

    # Signals

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in PASSED_ON:
            # What was ignored when we were started stays so, for the command as well: nohup, a job of a script.
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self._on_signal, number)
        loop.add_signal_handler(signal.SIGCONT, self._runner.resume)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {*PASSED_ON, signal.SIGCHLD, signal.SIGCONT})

    @staticmethod
    def _stop_listening() -> None:
        """The end is near, and the exit code is known. A signal from here on would only make a traceback of it."""
        loop = asyncio.get_running_loop()
        for number in (*PASSED_ON, signal.SIGCHLD, signal.SIGCONT):
            loop.remove_signal_handler(number)
        for number in PASSED_ON:
            signal.signal(number, signal.SIG_IGN)

    def _on_signal(self, number: int) -> None:
        if number not in STOPPING:
            self._runner.signal(number)
            return
        passed_on = self._runner.signal(number)
        if not (passed_on and number == signal.SIGHUP):  # to many programs: read your settings again
            self._told_to_stop = number
        if not passed_on:
            self._everything.cancel()

    # Standing

    async def _stand(self, election: Election, address: str) -> int:
        job = self._job
        self._environment |= {
            "TENURE_ELECTION": job.election,
            "TENURE_HOLDER": str(election.holder),
            "TENURE_STORE": address,
        }
        with anyio.CancelScope() as self._patience:
            if job.wait_s is not None:
                # Not at all means: until the store has said who leads. It may be unable to.
                self._patience.deadline = anyio.current_time() + (job.wait_s or job.timing.ttl_ns / 1e9)
            while True:
                code = await self._lead_while_healthy(election)
                if code is not None:
                    return code
        return await self._not_elected(election)

    async def _lead_while_healthy(self, election: Election) -> int | None:
        """Stand until there is an exit code; None: the health check has failed."""
        if self._health is not None:
            await self._wait_for_health(self._health)
        duties = [self._tell_who_leads(election)]
        if self._health is not None:
            duties.append(self._withdraw_when_ill(self._health))
        with anyio.CancelScope() as self._candidacy:
            async with _beside(*duties):
                try:
                    return await election.lead(self._body, once=self._job.once)
                except TenureOver:
                    return LOST
        return None

    async def _wait_for_health(self, health: Health) -> None:
        trouble = await health.trouble()
        if trouble:
            self._is_healthy = False
            self._say("unhealthy", f"not standing for {self._job.election}: the health check {trouble}")
            await health.until(good=True)
            self._is_healthy = True
            self._say("healthy", f"standing for {self._job.election}: the health check succeeds")

    async def _withdraw_when_ill(self, health: Health) -> None:
        trouble = await health.until(good=False)
        self._say("unhealthy", f"withdrawing from {self._job.election}: the health check {trouble}")
        if self._term is not None:
            self._term.resign()
        else:
            self._candidacy.cancel()

    async def _tell_who_leads(self, election: Election) -> None:
        """Say for whom we stand by, whenever that changes. A store that cannot be asked is the office's to complain of."""
        told: Incumbent | None = None
        while True:
            other = None if self._in_office else await self._another(election)
            if not self._in_office:  # It may have begun while the store was asked.
                if other is not None and other != told:
                    told = other
                    text = f"standing by for {election.name}: {_name(other)} leads"
                    self._say("standing-by", text, leader=str(other.holder), token=other.token)
                if self._job.wait_s == 0 and (other or self._trouble):
                    self._patience.cancel()
            await anyio.sleep(election.look_every_s)

    @property
    def _in_office(self) -> bool:
        return self._term is not None

    async def _another(self, election: Election) -> Incumbent | None:
        """Return who leads, if that is another."""
        try:
            incumbent = await election.incumbent()
        except StoreError as error:
            self._trouble = error
            return None
        self._trouble = None
        return None if incumbent is None or incumbent.holder == election.holder else incumbent

    async def _not_elected(self, election: Election) -> int:
        other = None
        with anyio.move_on_after(self._job.timing.attempt_timeout_ns / 1e9):
            other = await self._another(election)
        if other is not None:
            why = f"{_name(other)} leads"
        elif self._trouble is not None:
            raise self._trouble
        else:
            why = "nobody leads" if self._is_healthy else "the health check fails"
        wait = f" within {self._job.wait_s:g} s" if self._job.wait_s else ""
        leader = None if other is None else str(other.holder)
        self._voice.complain("not-elected", f"not elected in {election.name}{wait}: {why}", leader=leader)
        return NOT_ELECTED

    # In office

    async def _body(self, term: Tenure) -> int:
        self._patience.deadline = math.inf
        self._term = term
        self._say("elected", f"elected in {term.election} with token {term.token}", token=term.token)
        try:
            return await self._run_command(term)
        finally:
            self._term = None

    async def _run_command(self, term: Tenure) -> int:
        environment = self._environment | {"TENURE_TOKEN": str(term.token), "TENURE_FENCE": term.fence}
        pause_s = 0.0
        while True:
            began_s = time.monotonic()
            code, lost = await self._runner.run(term, environment)
            if self._told_to_stop:
                return code
            if lost:
                await anyio.sleep_forever()  # We are cancelled, so this does not wait.
            if code == 0 or code in _ENDED_BY_HAND or not self._job.restart:
                return code
            pause_s = next_pause_s(pause_s, time.monotonic() - began_s)
            jittered_s = pause_s * random.uniform(0.5, 1)
            text = f"the command exited with {code}: starting it again in {jittered_s:.1f} s"
            self._say("restarting", text, code=code, pause_s=round(jittered_s, 3))
            await anyio.sleep(jittered_s)

    def _say(self, event: str, text: str, **fields: object) -> None:
        self._voice.say(event, text, election=self._job.election, **fields)


def _name(incumbent: Incumbent) -> str:
    return f"{incumbent.holder} (token {incumbent.token})"


def _open_standard_files() -> None:
    """Open what was closed when we were started. Else a file of ours would get its number, and the command's output."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


@asynccontextmanager
async def _beside(*duties: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Do something else as long as the block runs. A task group would wrap the block's exceptions."""
    tasks = [asyncio.create_task(duty) for duty in duties]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()
