"""The guardian: a process that kills the commands' groups when the supervisor cannot.

The supervisor runs it as a script, by path, in an interpreter without site-packages: it starts in 15 ms, where importing
the package would take 40. It imports nothing of tenure and says nothing. It is in a group of its own and was started with
all signals blocked: a Ctrl-C, or the TERM that a service manager sends to every process, is meant for the command.

Rules of this file
1. A line ``SHOW GROUP DEADLINE_NS GROUP DEADLINE_NS …`` names all there is to guard and until when, on the clock that counts
   suspend; what a line does not name is withdrawn. SHOW is 1 if the ready file is to be there, else 0. Each line is answered with
   one byte once it is in force.
2. A group is killed, and the ready file taken away first, when its deadline has passed without a newer one (the supervisor is frozen, or the machine slept),
   and all are when the lines end (the supervisor is dead, however it died).
3. No other group is ever killed. A number is free for reuse only after the leader of its group was reaped. The supervisor
   reaps it after it has our answer to the withdrawal, and we do one thing at a time, so no older line is acted on then.
   If the supervisor is dead, init may reap a leader before us. For its number to be another's, all process numbers would
   have to be used up in the milliseconds until we read the end of the lines.
"""

import os
import select
import sys
import time

# ruff: noqa: SIM105  (contextlib and typing would take longer to import than everything else here)
_LINES = 0  # standard input: a socket, on which we answer as well
_READ_BYTES = 65536
_KILL = 9  # The same on every system; the module ``signal`` is dear too.
# ``poll`` sleeps on a clock that a suspend stops, so after one it is late by its whole length: hence short naps.
_NAP_MS = 250


def main() -> None:
    """Guard until the lines end."""
    # The same choice as in ``tenure.clock``: where there is no CLOCK_BOOTTIME, this one counts suspend.
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    news = select.poll()
    news.register(_LINES, select.POLLIN)
    deadlines_ns: dict[int, int] = {}
    ready_file = _ReadyFile(*sys.argv[1:])
    said = b""
    while True:
        nap_ms = _enforce(deadlines_ns, time.clock_gettime_ns(clock), ready_file)
        if news.poll(nap_ms if deadlines_ns else None):
            try:
                more = os.read(_LINES, _READ_BYTES)
            except ConnectionError:
                more = b""  # It died before it had read our last answer.
            if not more:
                break
            said += more
            if said.endswith(b"\n"):  # The next line is not sent before this one is answered.
                show, *numbers = map(int, said.split())
                deadlines_ns, said = dict(zip(numbers[::2], numbers[1::2], strict=True)), b""
                ready_file.show(show and time.clock_gettime_ns(clock) < min(deadlines_ns.values(), default=0))
                try:
                    os.write(_LINES, b".")
                except ConnectionError:
                    pass  # It has died meanwhile: the next read says so.
    ready_file.show(False)
    for group in deadlines_ns:
        _kill(group)


class _ReadyFile:
    """A second name for a hidden file. Without names there is none."""

    def __init__(self, hidden: str = "", shown: str = "") -> None:
        self._hidden, self._shown = hidden, shown
        self._is_there = False

    def show(self, wanted: object) -> None:
        if not self._hidden:
            return
        try:
            if wanted:
                os.link(self._hidden, self._shown)
            elif self._is_there:
                os.unlink(self._shown)  # noqa: PTH108  (pathlib is dear as well)
        except OSError:
            pass  # It is there, or has gone, already; or the folder has. The supervisor looks.
        self._is_there = bool(wanted)


def _enforce(deadlines_ns: dict[int, int], now_ns: int, ready_file: _ReadyFile) -> int:
    """Kill those whose time is up, and return for how long to wait for news."""
    nap_ms = _NAP_MS
    for group, deadline_ns in deadlines_ns.items():
        left_ms = (deadline_ns - now_ns) // 1_000_000
        if left_ms < 0:
            ready_file.show(False)
            _kill(group)
        else:
            nap_ms = min(nap_ms, left_ms + 1)
    return nap_ms


def _kill(group: int) -> None:
    """Kill the group, and its leader wherever that is: one may leave its own group."""
    for target in (-group, group):
        try:
            os.kill(target, _KILL)
        except (ProcessLookupError, PermissionError):
            pass


if __name__ == "__main__":
    main()
