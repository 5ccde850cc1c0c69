"""What ``tenure config serve`` does in office: have a command carry each proposal out, and apply it.

The command is a child with a guardian, as that of ``tenure run`` is: it ends before anybody else can take office, also if this process is
frozen or killed (ADR 0011).
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Final

import anyio

from tenure.apps.config.config import Config, Rejected
from tenure.apps.config.state import Edition
from tenure.apps.run.child import CannotStart, check_command, open_standard_files
from tenure.apps.run.errand import Tail, given, variables_of
from tenure.apps.run.readiness import Readiness, Signs
from tenure.apps.run.reaper import SIGNALLED, Reaper
from tenure.apps.run.running import STOPPING, Runner
from tenure.apps.run.voice import Voice
from tenure.election import Election
from tenure.errors import ConfigError, StaleToken
from tenure.office.tenure import Tenure
from tenure.timing import Timing

_TOLD_MAX: Final = 500  # bytes of what a command says on its way out, for those who wait to hear why
_KILLED: Final = SIGNALLED + signal.SIGKILL
_STDERR: Final = 2

Told = Callable[[str, Edition], None]


def check(command: tuple[str, ...]) -> None:
    """Raise ConfigError for a command that this machine cannot run, before it takes office."""
    if not command:
        return
    if not hasattr(os, "waitid"):
        raise ConfigError("platform", sys.platform, "needs Python 3.13 to run a command: earlier ones lack os.waitid")
    open_standard_files()
    try:
        check_command(command[0])
    except CannotStart as error:
        raise _cannot_start(command[0], error) from None


class Leader:
    """Stands for office with one configuration, and applies in every tenure what is proposed. Used once, on one event loop."""

    def __init__(self, command: tuple[str, ...], timing: Timing, voice: Voice, told: Told) -> None:
        self._command, self._timing, self._told = command, timing, told
        self._runner = Runner(Reaper(), timing, voice, Readiness(Signs(), "", {})) if command else None
        self._told_to_stop = 0  # the signal that said so

    async def lead(self, config: Config, office: str) -> int:
        """Lead until a signal says to stop, and return the exit code."""
        with anyio.CancelScope() as everything:
            self._listen(everything)
            try:
                if self._runner is not None:
                    await self._runner.start(self._command)
                election = Election(config.store, office, timing=self._timing)
                await election.lead(lambda term: self._serve(config, term), sinks=[config])
            except CannotStart as error:
                raise _cannot_start(self._command[0], error) from None
            finally:
                if self._runner is not None:
                    self._runner.close()
        return SIGNALLED + self._told_to_stop

    async def _serve(self, config: Config, term: Tenure) -> None:
        async def carry_out(edition: Edition) -> None:
            if self._runner is None:
                return
            try:
                await self._carried_out(self._runner, config, edition, term)
            except OSError as error:  # The proposal is as good as it was: somebody else may have room for its command.
                raise _cannot_start(self._command[0], error) from None

        try:
            await config.serve(term, carry_out, told=self._told)
        except StaleToken:
            await anyio.sleep_forever()  # Somebody else is in office: ours will say so in a moment, and we stand again.

    async def _carried_out(self, runner: Runner, config: Config, edition: Edition, term: Tenure) -> None:
        """Run the command with the document on its standard input, and again if our guardian has ended it and we go on."""
        environment = {**os.environ, "TENURE_STORE": config.store.store.address, **variables_of(term)}
        environment |= {"TENURE_CONFIG_VERSION": str(edition.version)}
        while True:
            complaint = Tail([_STDERR], _TOLD_MAX)
            try:
                async with given(json.dumps(edition.value).encode() + b"\n") as document:
                    code, lost = await runner.run(self._command, term, environment, [document, *complaint.files])
            finally:
                said = complaint.close().strip()
            if lost:
                await anyio.sleep_forever()  # We are cancelled, or about to be.
            if code != _KILLED or not runner.was_late:
                break
        if code:
            raise Rejected(f"{self._command[0]} ended with {code}" + (f": {said}" if said else ""))

    def _listen(self, everything: anyio.CancelScope) -> None:
        def stop(number: int) -> None:
            self._told_to_stop = number
            everything.cancel()

        for number in STOPPING:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                asyncio.get_running_loop().add_signal_handler(number, stop, number)


def _cannot_start(command: str, error: CannotStart | OSError) -> ConfigError:
    why = error.detail if isinstance(error, CannotStart) else error.strerror
    return ConfigError("command", command, f"cannot be started: {why}")
