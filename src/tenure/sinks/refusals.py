"""What a sink has refused, counted: a leader that goes on writing is news, and so is a token that nobody granted."""

from threading import Lock
from typing import Final, TypeVar

from tenure.errors import StaleToken, UnverifiedToken
from tenure.facts import publish
from tenure.facts.kinds import RefusedStale, RefusedUnverified

R = TypeVar("R", bound=StaleToken | UnverifiedToken)

REFUSED: Final = (StaleToken, UnverifiedToken)


class Refusals:
    """How many writes and seals one sink has refused in this process, by reason. Safe to use from any thread."""

    __slots__ = ("_lock", "_sink", "stale", "unverified")

    def __init__(self, sink: str) -> None:
        """``sink`` is whose they are, as facts name it: the name of its class."""
        self._sink = sink
        self.stale, self.unverified = 0, 0
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"<refused: {self.stale} stale, {self.unverified} unverified>"

    def counted(self, refusal: R, fence: str = "") -> R:
        """Count a refusal that is about to be raised, tell whoever listens, and return it: what is accepted then costs nothing more.

        ``fence`` is whose token it was, so that whoever listens knows of which election.
        """
        with self._lock:
            if isinstance(refusal, StaleToken):
                self.stale += 1
            else:
                self.unverified += 1
        told = RefusedStale if isinstance(refusal, StaleToken) else RefusedUnverified
        publish(told(self._sink, refusal.token, refusal.highest, fence))
        return refusal

    def counting(self, fence: str = "") -> "_Counting":
        """Return what counts a refusal that leaves its block: ``with refused.counting(fence): …``. It passes through."""
        return _Counting(self, fence)


class _Counting:
    """One block. Not a generator's context manager, which costs several times as much where nothing is refused."""

    __slots__ = ("_fence", "_refused")

    def __init__(self, refused: Refusals, fence: str) -> None:
        self._refused, self._fence = refused, fence

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, REFUSED):
            self._refused.counted(error, self._fence)
