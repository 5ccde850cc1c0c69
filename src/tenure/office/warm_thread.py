"""A warm standby in threads: ``prepare`` has a thread of its own, and is asked to end when office comes.

A thread cannot be cancelled, so ``prepare`` has to look: ``standby.sleep`` says whether to go on. The body begins when it has
returned. If the tenure ends before that, its body never begins: it counts as ended at once, and ``prepare`` is awaited after.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from tenure.core.events import Resign
from tenure.errors import TenureOver
from tenure.office.desk import Desk
from tenure.office.on_thread import BlockingTenure, ThreadSitting
from tenure.office.term import Term
from tenure.office.warm_loop import BY_CHOICE, stands_again
from tenure.sinks.base import Sink
from tenure.timing import Seconds, to_ns

T = TypeVar("T")


class Standby:
    """What ``prepare`` is given: how it says that it is ready, and how it learns that office has come."""

    __slots__ = ("is_ready", "over")

    def __init__(self) -> None:
        self.is_ready, self.over = threading.Event(), threading.Event()

    def ready(self) -> None:
        """Say that office may come. Does not promise that it does, nor when. Saying it again changes nothing."""
        self.is_ready.set()

    def sleep(self, seconds: Seconds) -> bool:
        """Sleep, and return whether to go on; at once False when office has come, or standing is over: then return."""
        return not self.over.wait(max(0, to_ns("seconds", seconds)) / 1e9)


Prepare = Callable[[Standby], object]


def lead_warm(
    desk: Desk, sinks: Sequence[Sink], body: Callable[[BlockingTenure], T], prepare: Prepare, *, once: bool
) -> T:
    """Do what ``ThreadSitting.lead`` does, and prepare before every standing."""
    while True:
        standing = _Standing(desk, body)
        try:
            return standing.lead(sinks, prepare)
        except TenureOver as over:
            standing.fail_if_prepare_did()
            if once or not standing.lost:
                raise
            if not stands_again(standing.sitting):
                return None  # type: ignore[return-value]  # it resigned
            if over.reason in BY_CHOICE:  # Others go first, as they do where nothing is prepared.
                threading.Event().wait(desk.timing.renew_every_ns / 1e9)


class _WarmSitting(ThreadSitting):
    """Tells who waits for ``prepare`` that there is nothing more to wait for. For one tenure."""

    __slots__ = ("settled",)

    def __init__(self, desk: Desk, sinks: Sequence[Sink]) -> None:
        self.settled = threading.Event()  # ``prepare`` has ended, or the tenure must
        super().__init__(desk, sinks)

    def stop(self, term: Term) -> None:
        super().stop(term)
        self.settled.set()


class _Standing(Generic[T]):
    """From one call of ``prepare`` to the end of the tenure that it was for."""

    def __init__(self, desk: Desk, body: Callable[[BlockingTenure], T]) -> None:
        self._desk, self._body, self._standby = desk, body, Standby()
        self.lost = False

    def lead(self, sinks: Sequence[Sink], prepare: Prepare) -> T:
        with ThreadPoolExecutor(1, "tenure-standby") as pool:
            self._following = pool.submit(prepare, self._standby)
            self._following.add_done_callback(lambda _: self._standby.ready())
            try:
                self._standby.is_ready.wait()
                self.fail_if_prepare_did()
                self.sitting = _WarmSitting(self._desk, sinks)
                self._following.add_done_callback(self._prepare_ended)
                result = self.sitting.lead(self._take_over, once=True)
                self.fail_if_prepare_did()
                return result
            finally:
                self._standby.over.set()

    def _take_over(self, term: BlockingTenure) -> T:
        # One that will not end must not keep an office that nobody fills: then the tenure is given up.
        term.progress(self._desk.timing.ttl_ns / 1e9)
        self._standby.over.set()
        self.sitting.settled.wait()
        self.fail_if_prepare_did()
        term.progress(None)
        try:
            term.check()
            return self._body(term)
        except TenureOver as over:
            self.lost = self.sitting.is_loss(over, term)
            raise

    def _prepare_ended(self, following: "Future[object]") -> None:
        self.sitting.settled.set()
        if following.exception() is not None:
            self.sitting.seat.feed(Resign())

    def fail_if_prepare_did(self) -> None:
        """Raise what ``prepare`` raised, also if it is a TenureOver: of another tenure, since this one had no body yet."""
        if self._following.done():
            self._following.result()
