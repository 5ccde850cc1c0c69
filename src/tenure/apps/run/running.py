"""Running a command in one tenure: from the gate to the last process of its group.

Rules of this file
1. The command does not begin before the guardian knows its group and its deadline.
2. On loss the group gets TERM at once, and KILL a quarter of the grace before the validity ends, whatever happens.
3. Nothing returns before the command has ended and what was left of its group has been killed. Only then may the office be
   released: a grandchild that went on would do so beside the next leader's.
"""

import asyncio
import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import anyio

from tenure.apps.run.child import NOT_EXECUTABLE, CannotStart, Command
from tenure.apps.run.guarding import Guardian
from tenure.apps.run.readiness import Readiness
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


@dataclass(slots=True)
class _Running:
    command: Command
    term: Tenure
    is_stopping: bool = False
    told_ns: int | None = None  # until when the guardian lets it live
    was_late: bool = False  # whether the guardian may have ended it

    def look_at(self, now_ns: int) -> None:
        """Take note if the guardian's time was up. It may be so while the tenure goes on: renewals do not wait for us, its lines do."""
        if self.told_ns is not None and now_ns >= self.told_ns:
            self.was_late = True


class Runner:
    """Runs commands, each in a tenure, all with one guardian. Made and used on one event loop.

    With a ``terminal`` it runs one at a time, which is lent it and shows that it is ready; a process has one, so at most one of its
    runners has it.
    """

    def __init__(
        self, reaper: Reaper, timing: Timing, voice: Voice, readiness: Readiness, terminal: Terminal | None = None
    ) -> None:
        self._reaper, self._timing, self._voice, self._readiness = reaper, timing, voice, readiness
        self._terminal = terminal
        self._clock = BootClock()
        self._look_s = timing.renew_every_ns / 1e9 / _LOOKS_PER_HEARTBEAT
        self._guardian = Guardian(reaper, *readiness.guardians_words)
        self._running: dict[int, _Running] = {}  # by process
        self._guarding: asyncio.Task[None] | None = None
        self.was_late = False  # whether the guardian may have ended the command that ended last
        if terminal is not None:
            reaper.on_stop = self._on_stop

    async def start(self, command: Sequence[str]) -> None:
        """Have a guardian, so that a machine that cannot start processes does not take office."""
        if not await self._guardian.tell(self._said):
            raise _unguarded(command[0])

    def close(self) -> None:
        """Let the guardian end."""
        self._guardian.close()

    @property
    def is_busy(self) -> bool:
        """Whether any command runs."""
        return bool(self._running)

    def signal(self, number: int, term: Tenure | None = None) -> bool:
        """Send a signal to the group of every command, or of that of one tenure. False: there is none."""
        to = [one.command for one in self._running.values() if term in (None, one.term)]
        for command in to:
            command.signal(number)
            if number in STOPPING:
                command.signal(signal.SIGCONT)  # One that is stopped would not hear it.
        return bool(to)

    def resume(self) -> None:
        """We were stopped and go on. If a shell has put us into the foreground, the command is who belongs there."""
        for pid in self._running:
            self._lend(pid)

    async def run(
        self,
        arguments: Sequence[str],
        term: Tenure,
        environment: Mapping[str, str],
        files: Iterable[tuple[Any, ...]] = (),
    ) -> tuple[int, bool]:
        """Run a command to its end; return its exit code and whether it was ended because the tenure was.

        If this is cancelled, that is the loss of the tenure. Raises CannotStart.
        """
        command = Command(self._reaper, arguments, environment, PASSED_ON, files)
        self._running[command.pid] = running = _Running(command, term)
        # A task of its own: no cancellation comes between the command and those who end it.
        life = asyncio.create_task(self._live(running))
        lost = False
        try:
            await asyncio.wait([life])
        except asyncio.CancelledError:
            if not command.ended.done():
                lost = True
                self._stop(running)
            with anyio.CancelScope(shield=True):
                await asyncio.wait([life])
        running.look_at(self._clock.now())
        self.was_late = running.was_late
        code = life.result()
        if code == _KILLED and self._left_ns(term) <= 0 and not lost:
            # The guardian has done it while we were frozen. The office will say in a moment that the tenure is over.
            lost = True
            self._say_lost(term, "the command was killed")
        return code, lost

    async def _live(self, running: _Running) -> int:
        command, term = running.command, running.term
        self._enforce(term, command)
        try:
            guarded = await self._guard()
            if not guarded:
                command.kill()  # It stands at its gate, and never goes through.
            elif os.isatty(1):
                # In a pipeline (``… | less``) who reads us is in our group and wants the terminal itself. There the command
                # gets it only if it asks for it, by being stopped: see ``_on_stop``.
                self._lend(command.pid)
            going = asyncio.create_task(command.go())
            if self._guarding is None:
                self._guarding = asyncio.create_task(self._keep_guarded())
            news: list[asyncio.Future[Any]] = [command.ended, going]
            await asyncio.wait(news, return_when=asyncio.FIRST_COMPLETED)
            if self._terminal is not None and going.done() and going.result() is None and not running.is_stopping:
                self._readiness.begin(term)
                await self._guard()
            await asyncio.wait([command.ended])
        finally:
            self._readiness.over()
            command.kill()
            del self._running[command.pid]
        # The leader is still there, as a zombie, and holds the number of the group for us and for the guardian.
        await self._guardian.tell(self._said)
        self._readiness.over()  # A guardian that had to be dismissed may have left it there.
        code = command.reap()
        if self._terminal is not None:
            self._terminal.take_back(command.pid, mend=code > SIGNALLED)
        await command.group_gone(self._timing.grace_ns / 1e9)
        failure = await going
        if not guarded:
            raise _unguarded(command.name)
        if failure is not None:
            raise failure
        return code

    async def _keep_guarded(self) -> None:
        """Tell the guardian how far the deadlines have moved, for as long as any command runs."""
        while self._running:
            was_ready = self._readiness.is_ready
            await self._guard()
            if was_ready:
                self._readiness.look(self._voice.complain)
            await asyncio.sleep(self._look_s)
        self._guarding = None

    async def _guard(self) -> bool:
        if await self._guardian.tell(self._said):
            return True
        self._voice.complain("unguarded", "no guardian answers: if this process is frozen, the command will go on")
        return False

    def _said(self) -> tuple[bool, dict[int, int]]:
        """Return what the guardian is to know at this moment."""
        # The clock is read first. Read afterwards, a freeze in between would move the deadlines by its whole length.
        now_ns = self._clock.now()
        for one in self._running.values():
            one.look_at(now_ns)
            one.told_ns = now_ns + self._left_ns(one.term)
        return self._readiness.is_ready, {pid: one.told_ns or 0 for pid, one in self._running.items()}

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

    def _stop(self, running: _Running) -> None:
        command, term = running.command, running.term
        if term.reason is None:  # Not the office, but we end the tenure. Without renewals its time is bounded.
            term.resign()
        running.is_stopping = True
        self._readiness.over()
        self.signal(signal.SIGTERM, term)
        self._enforce(term, command)  # The store may have said that the time is up already.
        self._say_lost(term, "stopping the command")

    def _say_lost(self, term: Tenure, consequence: str) -> None:
        why = "resigned" if term.reason is None else term.reason.value
        text = f"lost {term.election} (token {term.token}): {why}; {consequence}"
        self._readiness.status(text)
        self._voice.say("lost", text, election=term.election, token=term.token, reason=why)

    def _lend(self, pid: int) -> None:
        if self._terminal is not None:
            self._terminal.lend(pid)

    def _on_stop(self, pid: int, number: int) -> None:
        # A leader that is stopped holds the office and does nothing. One that waits for the terminal (SIGTTIN) would be
        # stopped again at once: it goes on when it gets the terminal, if that is ours to give.
        if pid not in self._running:
            return
        if number == signal.SIGTSTP:
            self._running[pid].command.signal(signal.SIGCONT)
        elif number in (signal.SIGTTIN, signal.SIGTTOU):
            self._lend(pid)


def _unguarded(name: str) -> CannotStart:
    return CannotStart(name, NOT_EXECUTABLE, "no guardian can be started for")
