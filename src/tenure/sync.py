"""The same names, blocking: for programs that have threads and no event loop.

A thread cannot be cancelled. A body learns that its tenure is over from ``term.check()``, which raises TenureOver, and from
``term.sleep()``, which loss interrupts; write through a sink with ``term``, and whatever it misses cannot land. Renewals
run on the office's thread, so a body may block for as long as it likes.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from tenure.model import Incumbent
from tenure.office.on_thread import BlockingStay, ThreadSitting
from tenure.office.on_thread import BlockingTenure as Tenure
from tenure.office.opened import ThreadStore, wait_there
from tenure.office.sitting import wait_seconds
from tenure.office.standing import LockStanding, Standing
from tenure.office.warm_thread import Prepare, Standby, lead_warm
from tenure.sinks.base import Sink
from tenure.timing import Seconds

__all__ = ["Election", "Lock", "Standby", "Tenure", "open_store"]

T = TypeVar("T")
P = ParamSpec("P")


def open_store(url: str, *, accept_best_effort: bool = False, **options: Any) -> ThreadStore:
    """Return a store for ``url``, as ``tenure.open_store`` does, to be opened by ``with``."""
    return ThreadStore(url, accept_best_effort=accept_best_effort, **options)


class Election(Standing):
    """One candidate of one election, as ``tenure.Election``. Its body runs in the thread that calls ``lead``."""

    def lead(
        self,
        body: Callable[[Tenure], T],
        *,
        sinks: Sequence[Sink] = (),
        prepare: Prepare | None = None,
        once: bool = False,
    ) -> T:
        """Stand, and run ``body`` in every tenure until it returns; return what it returned.

        A body that lets TenureOver out, because ``term.check()`` or ``term.sleep()`` raised it, has lost its tenure; then
        this candidate stands again (``once``: raises it). Any other exception releases the office and is raised
        unchanged. ``sinks`` are sealed before every body begins.

        ``prepare`` keeps a standby warm, as it does for ``tenure.Election``, in a thread of its own. It must look at its
        ``Standby``: the body begins when it has returned.
        """
        if prepare is not None:
            return lead_warm(self.desk, sinks, body, prepare, once=once)
        return ThreadSitting(self.desk, sinks).lead(body, once=once)

    def once(self, sinks: Sequence[Sink] = ()) -> AbstractContextManager[Tenure]:
        """Return a context manager that takes office once, with its block as the body.

        TenureOver is raised at the end of a block that ran on after its tenure was over.
        """
        return BlockingStay(self.desk, sinks)

    def incumbent(self) -> Incumbent | None:
        """Return who holds the office now, as the engine decides it. It may have changed when you read this."""
        result: Incumbent | None = wait_there(self.desk.office, self.desk.store.read(self.name))
        return result

    def observe(self) -> Iterator[Incumbent | None]:
        """Yield who holds the office, now and whenever that changes. May miss a leader who was there for a moment."""
        seen: object = self
        while True:
            incumbent = self.incumbent()
            if incumbent != seen:
                seen = incumbent
                yield incumbent
            time.sleep(self.look_every_s)

    def leader_only(
        self, *, sinks: Sequence[Sink] = ()
    ) -> Callable[[Callable[Concatenate[Tenure, P], T]], Callable[P, T]]:
        """Return a decorator: the function becomes the body, and calling it stands for election and leads."""
        sinks = tuple(sinks)

        def decorate(body: Callable[Concatenate[Tenure, P], T]) -> Callable[P, T]:
            @wraps(body)
            def stand(*arguments: P.args, **named: P.kwargs) -> T:
                return self.lead(lambda term: body(term, *arguments, **named), sinks=sinks)

            return stand

        return decorate


class Lock(LockStanding):
    """A lock, as ``tenure.Lock``: ``with lock as term``, or ``acquire`` and ``release``.

    Loss stops nothing by itself: call ``term.check()`` before each act. At the end of a block that ran on after the lock
    was lost, TenureOver is raised.
    """

    _stay: BlockingStay | None = None

    @property
    def locked(self) -> bool:
        """Whether this object holds the lock with room to act: a comparison with the clock, up to 0.75 of the ttl."""
        stay = self._stay
        return stay is not None and self._has_room(stay.term)

    def acquire(self, timeout: Seconds | None = None) -> Tenure | None:
        """Wait for the lock and return its tenure; None if others held it for all of ``timeout`` (0 asks once)."""
        wait_s = wait_seconds(timeout)
        stay = self._next_stay()
        try:
            return stay.begin(wait_s)
        finally:
            if stay.term is None:
                self._stay = None

    def release(self) -> None:
        """Give the lock back. Raises TenureOver if it had been lost: what was done under it may have met another's."""
        stay = self._held(self._stay)
        self._stay = None  # before the wait: of two that release it, one does
        stay.end()

    def __enter__(self) -> Tenure:
        stay = self._next_stay()
        try:
            return stay.__enter__()
        finally:
            if stay.term is None:
                self._stay = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        stay, self._stay = self._stay, None
        assert stay is not None, "left without having entered"
        stay.__exit__(kind, error, traceback)

    def _next_stay(self) -> BlockingStay:
        if self._stay is not None:
            raise self._refuse_reentry()
        self._stay = BlockingStay(self.desk, self._sinks)
        return self._stay

    def __call__(self, function: Callable[Concatenate[Tenure, P], T]) -> Callable[P, T]:
        """Decorate a function: every call holds a lock of this name, and gets its Tenure before its own arguments."""

        @wraps(function)
        def hold(*arguments: P.args, **named: P.kwargs) -> T:
            with BlockingStay(self._another(), self._sinks) as term:
                return function(term, *arguments, **named)

        return hold
