"""The guardian: a process that kills the command's group when the supervisor cannot.

The supervisor runs it as a script, by path, in an interpreter without site-packages: it starts in 15 ms, where importing
the package would take 40. It imports nothing of tenure and says nothing. It is in a group of its own and was started with
all signals blocked: a Ctrl-C, or the TERM that a service manager sends to every process, is meant for the command.

Rules of this file
1. A line ``GROUP DEADLINE_NS`` names what to guard and until when, on the clock that counts suspend; group 0 withdraws it.
   Each line is answered with one byte once it is in force.
2. The group is killed when the deadline has passed without a newer one (the supervisor is frozen, or the machine slept),
   and when the lines end (the supervisor is dead, however it died).
3. No other group is ever killed. A number is free for reuse only after the leader of its group was reaped. The supervisor
   reaps it after it has our answer to the withdrawal, and we do one thing at a time, so no older line is acted on then.
   If the supervisor is dead, init may reap a leader before us. For its number to be another's, all process numbers would
   have to be used up in the milliseconds until we read the end of the lines.
"""

import os
import select
import time

# ruff: noqa: SIM105  (contextlib and typing would take longer to import than everything else here)
_LINES = 0  # standard input: a socket, on which we answer as well
_LINE_BYTES_MAX = 100
_KILL = 9  # The same on every system; the module ``signal`` is dear too.
# ``poll`` sleeps on a clock that a suspend stops, so after one it is late by its whole length: hence short naps.
_NAP_MS = 250


def main() -> None:
    """Guard until the lines end."""
    # The same choice as in ``tenure.clock``: where there is no CLOCK_BOOTTIME, this one counts suspend.
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    news = select.poll()
    news.register(_LINES, select.POLLIN)
    group, deadline_ns = 0, 0
    while True:
        left_ms = (deadline_ns - time.clock_gettime_ns(clock)) // 1_000_000
        if group and left_ms < 0:
            _kill(group)
        nap_ms = min(_NAP_MS, left_ms + 1) if left_ms >= 0 else _NAP_MS
        if news.poll(nap_ms if group else None):
            try:
                line = os.read(_LINES, _LINE_BYTES_MAX)
            except ConnectionError:
                line = b""  # It died before it had read our last answer.
            if not line:
                break
            group, deadline_ns = map(int, line.split())
            try:
                os.write(_LINES, b".")
            except ConnectionError:
                pass  # It has died meanwhile: the next read says so.
    if group:
        _kill(group)


def _kill(group: int) -> None:
    """Kill the group, and its leader wherever that is: one may leave its own group."""
    for target in (-group, group):
        try:
            os.kill(target, _KILL)
        except (ProcessLookupError, PermissionError):
            pass


if __name__ == "__main__":
    main()
