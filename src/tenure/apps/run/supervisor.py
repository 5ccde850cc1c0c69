"""The supervisor: stands for election and runs the command in every tenure.

A signal to stop is passed on while a command runs, which then has its own time to end: renewals go on. While none runs,
it ends the candidacy.
"""

import asyncio
import logging
import os
import signal
import sys
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final

import anyio

from tenure.apps.history.recorder import keep
from tenure.apps.run.child import CannotStart, check_command, open_standard_files
from tenure.apps.run.commands import Commands
from tenure.apps.run.exits import NO_STORE
from tenure.apps.run.health import Fitness, Health
from tenure.apps.run.job import Job
from tenure.apps.run.many_offices import ManyOffices
from tenure.apps.run.one_office import OneOffice
from tenure.apps.run.reaper import SIGNALLED
from tenure.apps.run.running import PASSED_ON, STOPPING
from tenure.apps.run.voice import Voice
from tenure.errors import ConfigError, StoreError
from tenure.office.opened import LoopStore, open_store

# Each shard has a history of its own. Those of a larger set would be most of what a store keeps, and are for nobody to read.
_SHARDS_RECORDED_MAX: Final = 100


def supervise(job: Job, voice: Voice) -> int:
    """Run the job to its end and return the exit code. Raises ConfigError for settings that cannot work."""
    if not hasattr(os, "waitid"):
        raise ConfigError(
            "platform", sys.platform, "needs Python 3.13 to run a command: earlier ones lack os.waitid here"
        )
    open_standard_files()
    logger = logging.getLogger("tenure")
    logger.addHandler(voice)
    try:
        check_command(job.words(0)[0])  # A machine that cannot run the command must not take office.
        return asyncio.run(_Supervisor(job, voice).run())
    except CannotStart as error:
        voice.complain("cannot-start", str(error), command=error.command)
        return error.code
    except StoreError as error:
        voice.complain("no-store", str(error), store=error.store)
        return NO_STORE
    finally:
        logger.removeHandler(voice)


class _Supervisor:
    """One job, on one event loop."""

    def __init__(self, job: Job, voice: Voice) -> None:
        self._job, self._voice = job, voice
        self._offices: OneOffice | ManyOffices | None = None

    async def run(self) -> int:
        job = self._job
        self._commands = Commands(job, self._voice)
        try:
            with anyio.CancelScope() as self._everything:
                self._listen()
                await self._commands.readiness.open()
                await self._commands.runner.start(job.words(0))
                async with (
                    open_store(job.store, accept_best_effort=job.accept_best_effort) as store,
                    self._history(store),
                ):
                    self._commands.readiness.standing()
                    self._commands.know(TENURE_STORE=store.store.address)
                    self._offices = self._offices_in(store)
                    return await self._offices.stand()
            return SIGNALLED + self._commands.told_to_stop
        finally:
            self._commands.readiness.close()
            self._commands.runner.close()
            self._stop_listening()

    def _offices_in(self, store: LoopStore) -> OneOffice | ManyOffices:
        job = self._job
        health = Health(job.healthy, job.timing.renew_every_ns / 1e9, self._commands.reaper) if job.healthy else None
        fitness = Fitness(health, job.election, self._commands.say)
        if job.sharding is not None:
            return ManyOffices(job, job.sharding, store, self._commands, fitness)
        return OneOffice(job, store, self._commands, fitness, self._voice)

    def _history(self, store: LoopStore) -> AbstractAsyncContextManager[Any]:
        job = self._job
        count = 0 if job.sharding is None else job.sharding.count
        if not job.history or count > _SHARDS_RECORDED_MAX:
            return nullcontext()
        return keep(store, elections={f"{job.election}/{number}" for number in range(count)} or {job.election})

    # Signals

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in PASSED_ON:
            # What was ignored when we were started stays so, for the command as well: nohup, a job of a script.
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self._on_signal, number)
        loop.add_signal_handler(signal.SIGCONT, self._commands.runner.resume)
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
            self._commands.runner.signal(number)
            return
        passed_on = self._offices is not None and self._offices.stop(number)
        if not (passed_on and number == signal.SIGHUP):  # to many programs: read your settings again
            self._commands.told_to_stop = number
            self._commands.readiness.stopping()
        if not passed_on:
            self._everything.cancel()
