"""What a sink has refused, counted: a leader that goes on writing is news, and so is a token that nobody granted."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from tenure.errors import StaleToken, UnverifiedToken


class Refusals:
    """How many writes and seals one sink has refused in this process, by reason. Safe to use from any thread."""

    __slots__ = ("_lock", "stale", "unverified")

    def __init__(self) -> None:
        self.stale, self.unverified = 0, 0
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"<refused: {self.stale} stale, {self.unverified} unverified>"

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count what is refused inside, once. Whatever is raised passes through."""
        try:
            yield
        except StaleToken:
            with self._lock:
                self.stale += 1
            raise
        except UnverifiedToken:
            with self._lock:
                self.unverified += 1
            raise
