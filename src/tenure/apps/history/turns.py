"""Whose turn it is to be written, also while the store will not have what some elections say. Pure: the time is given.

Who was refused waits, and with it whoever was never written: without any right to documents, locks of ever new names would ask for
one twenty times a second, for as long as they are taken. Who was written before goes on: the end of a leader is not to wait for
minutes because of a document that is not its own.
"""

import random
from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain
from typing import Final

_BACKOFF_MIN_S: Final = 0.5
REFUSED_BACKOFF_MAX_S: Final = 60.0  # A right that is missing is given by people, who then look whether it helped.
TRIES_MAX: Final = (
    5  # of those that wait, after each wait: one that is refused for good is not to keep all others waiting
)
_WRITTEN_MAX: Final = 10_000


class Backoff:
    """A wait that is longer after each failure, and not the same for all processes."""

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s
        self.end()

    def end(self) -> None:
        self._next_s, self._until_s = _BACKOFF_MIN_S, 0.0

    def begin(self, now_s: float) -> None:
        self._until_s = now_s + self._next_s * random.uniform(0.5, 1)
        self._next_s = min(2 * self._next_s, self._most_s)

    def wait_s(self, now_s: float) -> float:
        return max(0.0, self._until_s - now_s)


class Turns:
    """The elections that have something to be written, in their order. Each operation but ``_hold`` and ``_release`` is quick, however many they are."""

    def __init__(self) -> None:
        self._free: OrderedDict[str, None] = OrderedDict()
        self._held: OrderedDict[str, None] = OrderedDict()  # Those that were refused stand at its end.
        self._written: OrderedDict[str, None] = OrderedDict()  # whom the store had the last time
        self._refused: set[str] = set()
        self._tried: set[str] = set()  # of those that are held, and refused since the last wait
        self._retry = Backoff(REFUSED_BACKOFF_MAX_S)
        self._is_refusing = False

    @property
    def has_refused(self) -> bool:
        """Whether anything waits because the store will not have it."""
        return bool(self._refused)

    def is_refused(self, election: str) -> bool:
        """Whether the store would not have it the last time."""
        return election in self._refused

    @property
    def free(self) -> Iterator[str]:
        """Those that need not wait for what others are refused."""
        return iter(self._free)

    def first_held(self, now_s: float, *, in_turn: bool = True) -> str | None:
        """Return which of those that wait is tried next; None: none is, or not yet."""
        return None if in_turn and self._retry.wait_s(now_s) > 0 else next(iter(self._held), None)

    def held_wait_s(self, now_s: float) -> float | None:
        """Return for how long those wait; None: there are none."""
        return self._retry.wait_s(now_s) if self._held else None

    def losers(self) -> Iterator[str]:
        """Yield who is to lose its place to others: whom the store refuses, and then who waits for longest."""
        return chain(reversed(self._held), self._free)

    def add(self, election: str) -> None:
        """Have it wait for its turn, if it does not yet."""
        if election in self._free or election in self._held:
            return
        if not self._is_refusing or election in self._written:
            self._free[election] = None
            return
        self._held[election] = None
        self._held.move_to_end(election, last=election in self._refused)

    def hurry(self, election: str) -> None:
        """Have it go before the others that wait as it does."""
        self._queue(election).move_to_end(election, last=False)

    def go_last(self, election: str) -> None:
        """Have it go after the others that wait as it does."""
        self._queue(election).move_to_end(election)

    def take(self, election: str) -> None:
        """It is being written."""
        del self._queue(election)[election]

    def forget(self, election: str) -> None:
        """It has nothing to be written any more."""
        for queue in (self._free, self._held):
            queue.pop(election, None)
        self._refused.discard(election)

    def wrote(self, election: str) -> None:
        """The store has it now."""
        was_refused = election in self._refused
        self._refused.discard(election)
        self._written[election] = None
        self._written.move_to_end(election)
        if len(self._written) > _WRITTEN_MAX:
            self._written.popitem(last=False)
        if was_refused or not self._refused:  # So it may have the others as well.
            self._release()

    def was_refused(self, election: str, now_s: float) -> None:
        """The store answers, and will not have it."""
        self._written.pop(election, None)
        self._refused.add(election)
        if not self._is_refusing:
            self._hold()
        self._free.pop(election, None)
        self._held[election] = None
        self._held.move_to_end(election)
        self._tried.add(election)
        if len(self._tried) >= TRIES_MAX or next(iter(self._held)) in self._tried:
            self._tried.clear()
            self._retry.begin(now_s)

    def _queue(self, election: str) -> "OrderedDict[str, None]":
        return self._free if election in self._free else self._held

    def _hold(self) -> None:
        self._is_refusing = True
        for election in [one for one in self._free if one not in self._written]:
            del self._free[election]
            self._held[election] = None

    def _release(self) -> None:
        if not self._is_refusing:
            return
        self._is_refusing = False
        self._free.update(self._held)
        self._held.clear()
        self._refused.clear()
        self._tried.clear()
        self._retry.end()
