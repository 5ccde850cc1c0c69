"""A lock among processes and machines: an election that is won once by whoever needs it next."""

from collections.abc import Awaitable, Callable
from functools import wraps
from types import TracebackType
from typing import Concatenate, ParamSpec, TypeVar

from tenure.office.on_loop import Stay
from tenure.office.sitting import wait_seconds
from tenure.office.standing import LockStanding
from tenure.office.tenure import Tenure
from tenure.timing import Seconds

T = TypeVar("T")
P = ParamSpec("P")


class Lock(LockStanding):
    """A lock that is renewed while it is held, and ends by itself when its holder dies.

    ``async with lock as term`` cancels the block when the lock is lost, and raises TenureOver. Between ``acquire`` and
    ``release`` nothing is cancelled: ask ``lock.locked`` before each act, or write through a sink with ``term``. Whoever
    lost the lock cannot release it from under the next holder.

    Does not promise that nobody else holds it while you act: a process can sleep between the question and the act. Only a
    sink that compares ``term.token`` can promise that. One object is one candidate; it is not re-entrant.
    """

    _stay: Stay | None = None

    @property
    def locked(self) -> bool:
        """Whether this object holds the lock with room to act: a comparison with the clock, up to 0.75 of the ttl."""
        stay = self._stay
        return stay is not None and self._has_room(stay.term)

    async def acquire(self, timeout: Seconds | None = None) -> Tenure | None:  # noqa: ASYNC109  (None is an answer, not an error)
        """Wait for the lock and return its tenure; None if others held it for all of ``timeout``.

        A timeout of 0 asks once. Raises StoreError if the store could not be asked. Leaving takes as long as the store needs
        to answer what it was asked already, at most the attempt timeout of the timing.
        """
        wait_s = wait_seconds(timeout)
        stay = self._next_stay()
        try:
            tenure = await stay.begin(wait_s)
        finally:
            if stay.term is None:
                self._stay = None
        return tenure

    async def release(self) -> None:
        """Give the lock back. Raises TenureOver if it had been lost: what was done under it may have met another's."""
        stay = self._held(self._stay)
        self._stay = None  # before the wait: of two that release it, one does
        await stay.end()

    async def __aenter__(self) -> Tenure:
        stay = self._next_stay()
        try:
            return await stay.__aenter__()
        finally:
            if stay.term is None:
                self._stay = None

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        stay, self._stay = self._stay, None
        assert stay is not None, "left without having entered"
        await stay.__aexit__(kind, error, traceback)

    def _next_stay(self) -> Stay:
        if self._stay is not None:
            raise self._refuse_reentry()
        self._stay = Stay(self.desk, self._sinks)
        return self._stay

    def __call__(self, function: Callable[Concatenate[Tenure, P], Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        """Decorate a function: every call holds a lock of this name, and gets its Tenure before its own arguments.

        Calls that overlap wait for each other: each has a candidate of its own.
        """

        @wraps(function)
        async def hold(*arguments: P.args, **named: P.kwargs) -> T:
            async with Stay(self._another(), self._sinks) as term:
                return await function(term, *arguments, **named)

        return hold
