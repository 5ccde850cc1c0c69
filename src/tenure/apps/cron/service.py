"""The scheduler as a program: stands for election, runs a crontab in every tenure, and stops when it is told to."""

import asyncio
import logging
import os
import signal
import sys
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Final, Literal

import anyio

from tenure.apps.cron.commands import Commands
from tenure.apps.cron.crontab import Crontab
from tenure.apps.cron.layout import prepare
from tenure.apps.cron.scheduler import Cron
from tenure.apps.history.recorder import keep
from tenure.apps.ledger.opening import open_ledger
from tenure.apps.run.child import CannotStart, check_command, open_standard_files
from tenure.apps.run.reaper import SIGNALLED
from tenure.apps.run.voice import Voice
from tenure.election import Election
from tenure.errors import ConfigError, StoreError
from tenure.office.opened import open_store
from tenure.office.tenure import Tenure
from tenure.timing import Timing

_STOPPING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


@dataclass(frozen=True, slots=True)
class Service:
    """What to run, and where. The two URLs may hold secrets."""

    crontab: Crontab
    store: str = field(repr=False)
    ledger: str = field(repr=False)
    timing: Timing
    drain_s: float
    accept_best_effort: bool = False
    history: bool = False  # whether the tenures of schedulers are recorded; their runs are, in any case


def serve(service: Service, voice: Voice) -> int:
    """Run until told to stop, and return the exit code: 0 if all that was under way had ended by itself."""
    if not hasattr(os, "waitid"):
        raise ConfigError("platform", sys.platform, "needs Python 3.13 to run a command: earlier ones lack os.waitid")
    open_standard_files()
    for job in service.crontab.jobs:
        if isinstance(job.work, tuple):
            try:
                check_command(job.work[0])
            except CannotStart as error:  # One that is missing here must not keep the others from being run.
                voice.complain("cannot-start", f"{job.id} will fail on this machine: {error}", job=job.id)
    logger = logging.getLogger("tenure")
    logger.addHandler(voice)
    try:
        return asyncio.run(_Scheduler(service, voice).run())
    finally:
        logger.removeHandler(voice)


class _Scheduler:
    """One service, on one event loop."""

    def __init__(self, service: Service, voice: Voice) -> None:
        self._service, self._voice = service, voice
        self._told_to_stop = 0  # the signal that said so
        self._term: Tenure | None = None

    async def run(self) -> int:
        service, crontab = self._service, self._service.crontab
        ledger = open_ledger(service.ledger)
        drained = False
        try:
            with anyio.CancelScope() as self._everything:
                self._listen()
                if ledger.kind == "sqlite":  # A server may come back. A folder that is not there was mistyped.
                    await prepare(ledger)
                async with (
                    open_store(service.store, accept_best_effort=service.accept_best_effort) as store,
                    keep(store, elections={crontab.election}) if service.history else nullcontext(),
                ):
                    environment = dict(os.environ) | {"TENURE_STORE": store.store.address}
                    commands = Commands(service.timing, self._voice, environment, adopts=self._are_commands)
                    self._cron = Cron(
                        ledger,
                        crontab.jobs,
                        max_parallel=crontab.max_parallel,
                        history=crontab.history,
                        commands=commands,
                        tells=self._voice,
                    )
                    election = Election(store, crontab.election, timing=service.timing, on_overstay=self._on_overstay)
                    watching = asyncio.create_task(self._tell_who_leads(election))
                    try:
                        await election.lead(self._body, sinks=[ledger])
                        drained = not self._everything.cancel_called
                    finally:
                        watching.cancel()
                        commands.close()
        finally:
            self._stop_listening()
            await ledger.close()
        return 0 if drained else SIGNALLED + self._told_to_stop

    @property
    def _are_commands(self) -> bool:
        """Whether nothing of the user's runs in this process."""
        return all(isinstance(job.work, tuple) for job in self._service.crontab.jobs)

    @property
    def _on_overstay(self) -> Literal["publish", "kill"]:
        # A command is ended in time by its guardian. A function that does not end is ended with the process that it is in.
        return "publish" if self._are_commands else "kill"

    async def _body(self, term: Tenure) -> None:
        self._term = term
        text = f"elected in {term.election} with token {term.token}"
        self._voice.say("elected", text, election=term.election, token=term.token)
        try:
            await self._cron.run(term)
        finally:
            self._term = None

    async def _tell_who_leads(self, election: Election) -> None:
        """Say for whom we stand by, whenever that changes. A store that cannot be asked is the office's to complain of."""
        told = None
        while True:
            try:
                other = None if self._term is not None else await election.incumbent()
            except StoreError:
                other = None
            if other is not None and other != told and self._term is None and other.holder != election.holder:
                told = other
                text = f"standing by for {election.name}: {other.holder} (token {other.token}) leads"
                self._voice.say("standing-by", text, leader=str(other.holder), token=other.token)
            await anyio.sleep(election.look_every_s)

    # Signals

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in _STOPPING:
            loop.add_signal_handler(number, self._on_signal, number)

    @staticmethod
    def _stop_listening() -> None:
        loop = asyncio.get_running_loop()
        for number in _STOPPING:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)  # The exit code is known; a signal would only make a traceback of it.

    def _on_signal(self, number: int) -> None:
        first, self._told_to_stop = not self._told_to_stop, number
        if first and self._term is not None and self._service.drain_s:
            text = f"stopping: nothing more begins; what is under way has {self._service.drain_s:g} s"
            self._voice.say("draining", text)
            self._cron.drain()
            asyncio.get_running_loop().call_later(self._service.drain_s, self._stop)
        else:
            self._stop()

    def _stop(self) -> None:
        self._everything.cancel()
        if self._term is not None and not self._are_commands:
            self._term.resign()  # Else the office would be kept for as long as a function that does not end. So it has until the lease ends.
