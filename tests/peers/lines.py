"""The end of the line protocol that the peers written in Python share: events go out, commands come in."""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping

_OUT = threading.Lock()


def say(event: str, at_ns: int | None = None, **fields: object) -> None:
    """Tell of an event that happens now, or happened at ``at_ns`` of CLOCK_MONOTONIC, which all processes share."""
    line = {"event": event, "at_ns": time.monotonic_ns() if at_ns is None else at_ns, **fields}
    with _OUT:
        print(json.dumps(line), flush=True)


def obey(commands: Mapping[str, Callable[[str], None]]) -> None:
    """Do what comes in on stdin, one command a line, until its end. A command gets what stands behind its first word."""
    say("ready")
    for line in sys.stdin:
        command, _, argument = line.strip().partition(" ")
        commands[command](argument)


def _end_with_the_thread(failure: threading.ExceptHookArgs) -> None:
    """A peer of which a part has failed would keep its driver waiting for an event that cannot come."""
    threading.__excepthook__(failure)
    os._exit(1)


threading.excepthook = _end_with_the_thread


def in_background(act: Callable[[], None]) -> threading.Thread:
    """Start ``act`` in a thread that does not outlive the program."""
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread


def took_ns(act: Callable[[], object]) -> int:
    """Return how long ``act`` takes."""
    began_ns = time.monotonic_ns()
    act()
    return time.monotonic_ns() - began_ns
