"""The lock of a folder: ``flock`` on the folder with its fences, and what a fork makes of it.

Why on the folder and not on a file in it? A file can be tidied away while somebody holds it, and the next one locks another
file. The folder goes only together with the fences.

A lock of this kind belongs to what was opened, and a forked child has the same thing open: it would keep the lock of a parent
that is killed. So a child lets go of all that its parent's threads have open here, before it does anything else.
"""

import fcntl
import os
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar
from weakref import WeakSet

Kept = TypeVar("Kept")

# Held while something is opened or closed, so that a child never inherits what is not noted yet. A signal's handler may fork.
_NOTING = threading.RLock()
_OPEN: set[int] = set()
_TURNS: "WeakSet[Turn[Any]]" = WeakSet()


class Turn(Generic[Kept]):
    """Threads of this process queue up here, so that only one of them polls for the lock; and what they have open for all of them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.kept: Kept | None = None
        _TURNS.add(self)


def noted(open_it: Callable[[], int]) -> int:
    """Open what may be locked. A child that is forked later has something in its place that leads nowhere."""
    with _NOTING:
        own = open_it()
        _OPEN.add(own)
    return own


def close(own: int) -> None:
    """Close what was opened so."""
    with _NOTING:
        _OPEN.discard(own)
        os.close(own)


def try_lock(own: int) -> bool:
    """Lock what is open, or return False if somebody else has it."""
    try:
        fcntl.flock(own, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(own: int) -> None:
    """Unlock what is open. To close it need not do: a program that is just being started may have it open as well."""
    fcntl.flock(own, fcntl.LOCK_UN)


def _after_fork() -> None:
    for turn in list(_TURNS):
        turn.lock = threading.Lock()  # A thread may have had it that is not there any more.
        turn.kept = None
    if _OPEN:
        nowhere = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        for own in _OPEN:  # Whoever forked inside a write goes on with it here, and must fail: it is not the child's.
            os.dup2(nowhere, own, inheritable=False)
        os.close(nowhere)
    _NOTING.release()


os.register_at_fork(before=_NOTING.acquire, after_in_parent=_NOTING.release, after_in_child=_after_fork)
