"""Running the command in one tenure: from the gate to the last process of its group.

Rules of this file
1. The command does not begin before the guardian knows its group and its deadline.
2. On loss the group gets TERM at once, and KILL a quarter of the grace before the validity ends, whatever happens.
3. Nothing returns before the command has ended and what was left of its group has been killed. Only then may the office be
   released: a grandchild that went on would do so beside the next leader's.
"""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Final

import anyio

from tenure.apps.run.child import NOT_EXECUTABLE, CannotStart, Command
from tenure.apps.run.guarding import Guardian
from tenure.apps.run.reaper import SIGNALLED, Reaper
from tenure.apps.run.terminal import Terminal
from tenure.apps.run.voice import Voice
from tenure.clock import BootClock
from tenure.office.tenure import Tenure
from tenure.timing import Timing

STOPPING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
PASSED_ON: Final = (*STOPPING, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH)
# How often to look at the deadline and tell it to the guardian, as a share of the heartbeat in which it moves once.
_LOOKS_PER_HEARTBEAT: Final = 4
_KILLED: Final = SIGNALLED + signal.SIGKILL
_GRACE_TO_DIE: Final = 4  # The share of the grace that is kept for the kernel to end what was killed.


class Runner:
    """Runs a command, one at a time. Made and used on one event loop."""

    def __init__(self, command: Sequence[str], timing: Timing, voice: Voice) -> None:
        self._arguments, self._timing, self._voice = command, timing, voice
        self._clock = BootClock()
        self._look_s = timing.renew_every_ns / 1e9 / _LOOKS_PER_HEARTBEAT
        self.reaper = Reaper(self._on_stop)
        self._guardian = Guardian(self.reaper)
        self._terminal = Terminal()
        self._command: Command | None = None

    async def start(self) -> None:
        """Have a guardian, so that a machine that cannot start processes does not take office."""
        if not await self._guardian.withdraw():
            raise self._unguarded

    def close(self) -> None:
        """Let the guardian end."""
        self._guardian.close()

    def signal(self, number: int) -> bool:
        """Send a signal to the command's group. False: no command runs."""
        if self._command is None:
            return False
        self._command.signal(number)
        if number in STOPPING:
            self._command.signal(signal.SIGCONT)  # One that is stopped would not hear it.
        return True

    def resume(self) -> None:
        """We were stopped and go on. If a shell has put us into the foreground, the command is who belongs there."""
        if self._command is not None:
            self._terminal.lend(self._command.pid)

    async def run(self, term: Tenure, environment: Mapping[str, str]) -> tuple[int, bool]:
        """Run the command to its end; return its exit code and whether it was ended because the tenure was.

        If this is cancelled, that is the loss of the tenure. Raises CannotStart.
        """
        self._command = command = Command(self.reaper, self._arguments, environment, blocked=PASSED_ON)
        # A task of its own: no cancellation comes between the command and those who end it.
        life = asyncio.create_task(self._live(term, command))
        lost = False
        try:
            await asyncio.wait([life])
        except asyncio.CancelledError:
            if not command.ended.done():
                lost = True
                self._stop(term, command)
            with anyio.CancelScope(shield=True):
                await asyncio.wait([life])
        self._command = None
        code = life.result()
        if code == _KILLED and self._left_ns(term) <= 0 and not lost:
            # The guardian has done it while we were frozen. The office will say in a moment that the tenure is over.
            lost = True
            self._say_lost(term, "the command was killed")
        return code, lost

    async def _live(self, term: Tenure, command: Command) -> int:
        self._enforce(term, command)
        try:
            guarded = await self._guard(term, command)
            if not guarded:
                command.kill()  # It stands at its gate, and never goes through.
            elif os.isatty(1):
                # In a pipeline (``… | less``) who reads us is in our group and wants the terminal itself. There the command
                # gets it only if it asks for it, by being stopped: see ``_on_stop``.
                self._terminal.lend(command.pid)
            going = asyncio.create_task(command.go())
            while not command.ended.done():
                await self._guard(term, command)
                await asyncio.wait([command.ended], timeout=self._look_s)
        finally:
            command.kill()
        # The leader is still there, as a zombie, and holds the number of the group for us and for the guardian.
        await self._guardian.withdraw()
        code = command.reap()
        self._terminal.take_back(command.pid, mend=code > SIGNALLED)
        await command.group_gone(self._timing.grace_ns / 1e9)
        failure = await going
        if not guarded:
            raise self._unguarded
        if failure is not None:
            raise failure
        return code

    @property
    def _unguarded(self) -> CannotStart:
        return CannotStart(self._arguments[0], NOT_EXECUTABLE, "no guardian can be started for")

    async def _guard(self, term: Tenure, command: Command) -> bool:
        # One that does not answer is dismissed, and the next one told anew: what was true a second ago may be over.
        for _ in range(2):
            # The clock is read first. Read afterwards, a freeze in between would move the deadline by its whole length.
            deadline_ns = self._clock.now() + self._left_ns(term)
            if await self._guardian.guard(command.pid, deadline_ns):
                return True
        self._voice.complain("unguarded", "no guardian answers: if this process is frozen, the command will go on")
        return False

    def _enforce(self, term: Tenure, command: Command) -> None:
        """Kill the command when its time is up. By a timer, since a guardian that does not answer holds up its loop."""
        left_ns = self._left_ns(term)
        if left_ns <= 0:
            command.kill()
        if not command.ended.done():
            again_s = min(left_ns / 1e9, self._look_s) if left_ns > 0 else self._look_s
            asyncio.get_running_loop().call_later(again_s, self._enforce, term, command)

    def _left_ns(self, term: Tenure) -> int:
        return int(term.remaining * 1e9) - self._timing.grace_ns // _GRACE_TO_DIE

    def _stop(self, term: Tenure, command: Command) -> None:
        if term.reason is None:  # Not the office, but we end the tenure. Without renewals its time is bounded.
            term.resign()
        self.signal(signal.SIGTERM)
        self._enforce(term, command)  # The store may have said that the time is up already.
        self._say_lost(term, "stopping the command")

    def _say_lost(self, term: Tenure, consequence: str) -> None:
        why = "resigned" if term.reason is None else term.reason.value
        text = f"lost {term.election} (token {term.token}): {why}; {consequence}"
        self._voice.say("lost", text, election=term.election, token=term.token, reason=why)

    def _on_stop(self, pid: int, number: int) -> None:
        # A leader that is stopped holds the office and does nothing. One that waits for the terminal (SIGTTIN) would be
        # stopped again at once: it goes on when it gets the terminal, if that is ours to give.
        if self._command is None or pid != self._command.pid:
            return
        if number == signal.SIGTSTP:
            self._command.signal(signal.SIGCONT)
        elif number in (signal.SIGTTIN, signal.SIGTTOU):
            self._terminal.lend(self._command.pid)
