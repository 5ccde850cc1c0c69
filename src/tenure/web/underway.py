"""The requests that are at work in this process, by token: a seal waits until no older one is left."""

from collections import Counter
from collections.abc import Callable
from threading import Lock


class Underway:
    """Counts requests from before their check until after their last byte. Safe to use from any thread."""

    __slots__ = ("_counts", "_lock", "_waiting")

    def __init__(self) -> None:
        self._counts: dict[str, Counter[int]] = {}
        self._waiting: list[tuple[str, int, Callable[[], None]]] = []
        self._lock = Lock()

    def begin(self, fence: str, token: int) -> None:
        """Say that a request is to be checked. Before the check: a seal that comes between must find it."""
        with self._lock:
            self._counts.setdefault(fence, Counter())[token] += 1

    def end(self, fence: str, token: int) -> None:
        """Say that a request is over, and tell the seals that waited for it."""
        with self._lock:
            counts = self._counts[fence]
            counts[token] -= 1
            if not counts[token]:
                del counts[token]
            if not counts:
                del self._counts[fence]
            done = [entry for entry in self._waiting if not self._older(entry[0], entry[1])] if self._waiting else []
            for entry in done:
                self._waiting.remove(entry)
        for _, _, tell in done:
            tell()

    def wait(self, fence: str, token: int, tell: Callable[[], None]) -> bool:
        """Return True if nothing older is under way; otherwise call ``tell`` once that is so."""
        with self._lock:
            if not self._older(fence, token):
                return True
            self._waiting.append((fence, token, tell))
            return False

    def forget(self, tell: Callable[[], None]) -> None:
        """Do not call ``tell`` any more."""
        with self._lock:
            self._waiting = [entry for entry in self._waiting if entry[2] is not tell]

    def _older(self, fence: str, token: int) -> int:
        return sum(count for number, count in self._counts.get(fence, {}).items() if number < token)
