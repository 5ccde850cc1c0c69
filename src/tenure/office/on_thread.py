"""Sitting in a plain thread, which waits where the event loop awaits.

A thread cannot be cancelled. Its body learns of a loss from ``term.check()``, which raises, and from ``term.sleep()``, which
loss interrupts. Sinks are sealed on the office's loop, since the thread has none.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from tenure.core.events import Stand
from tenure.errors import TenureOver
from tenure.model import Token
from tenure.office.desk import Desk
from tenure.office.mailbox import ThreadMailbox
from tenure.office.seat import Seat
from tenure.office.sitting import Idle, Letter, Sitting, Start, StayBase, Waiting, tenure_over
from tenure.office.tenure import Tenure
from tenure.office.term import Term
from tenure.sinks.base import Sink
from tenure.timing import Seconds, to_ns

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


class BlockingTenure(Tenure):
    """A tenure for a body that runs in a thread: call ``check`` often, and ``sleep`` instead of ``time.sleep``."""

    __slots__ = ("_over",)

    def __init__(self, desk: Desk, seat: Seat, term: Term, over: threading.Event) -> None:
        super().__init__(desk, seat, term)
        self._over = over

    def sleep(self, seconds: Seconds) -> None:
        """Sleep, but no longer than this tenure lasts: raises TenureOver as soon as the body must stop."""
        self._over.wait(max(0, to_ns("seconds", seconds)) / 1e9)
        self.check()


class ThreadSitting(Sitting):
    """Made and used in one thread."""

    __slots__ = ("_mail", "_over", "_seals")

    def __init__(self, desk: Desk, sinks: Sequence[Sink]) -> None:
        self._mail: ThreadMailbox[Letter] = ThreadMailbox()
        self._over = threading.Event()
        self._seals: set[asyncio.Task[None]] = set()
        super().__init__(desk, sinks)
        self.sit()

    def put(self, letter: Letter, /) -> None:
        self._mail.put(letter)

    def seal(self, attempt: int, token: Token) -> None:
        for earlier in tuple(self._seals):
            earlier.cancel()  # One that hangs is not waited for, and they must not pile up.
        task = self._desk.office.loop.create_task(self.seal_sinks(attempt, token))
        self._seals.add(task)
        task.add_done_callback(self._seals.discard)

    def start(self, term: Term) -> None:
        self._over = threading.Event()
        super().start(term)

    def stop(self, term: Term) -> None:  # noqa: ARG002
        self._over.set()

    def idle(self) -> None:
        for task in tuple(self._seals):
            task.cancel()
        super().idle()

    def tenure(self, term: Term) -> BlockingTenure:
        return BlockingTenure(self._desk, self.seat, term, self._over)

    def lead(self, body: Callable[[BlockingTenure], T], *, once: bool) -> T:
        """Stand until a body has returned (once: until one tenure is over), and return what it returned."""
        try:
            self.seat.feed(Stand())
            while not isinstance(letter := self._next(), Idle):
                if isinstance(letter, Start):
                    tenure = self.tenure(letter.term)
                    self.in_block = True
                    try:
                        return body(tenure)
                    except TenureOver as over:
                        if once or not self.is_loss(over, tenure):
                            raise
                    self.body_over(stand_again=True)
        finally:
            self.leave()
        if self.failure is not None:
            raise self.failure
        return None  # type: ignore[return-value]  # it resigned

    def take_office(self, wait_s: float | None) -> Term | None:
        """Stand, and return when the body may begin, which is the caller; None if another was in office all the time."""
        started = False
        try:
            self.seat.feed(Stand())
            started = self._wait_for_start(wait_s)
        finally:
            if not started:
                self.leave()
        if not started:
            self.why_not()
        return self._open

    def leave(self) -> None:
        """Whatever happened: stand no more, and return when everything that was held has been released."""
        while not self._gone:
            self.body_over(stand_again=False)
            self._next()

    def _wait_for_start(self, wait_s: float | None) -> bool:
        patience_s = self.patience_s(wait_s)
        give_up_at = None if patience_s is None else monotonic() + patience_s
        while True:
            left_s = None if give_up_at is None else max(0, give_up_at - monotonic())
            match self._next(left_s):
                case Start():
                    return True
                case Waiting() if wait_s != 0:
                    pass
                case _:
                    return False

    def _next(self, within_s: float | None = None) -> Letter | None:
        letter = self._mail.get(within_s)
        return None if letter is None else self._opened(letter)


class BlockingStay(StayBase, AbstractContextManager[BlockingTenure]):
    """From ``begin`` to ``end``, or as a block."""

    _sitting: ThreadSitting

    def begin(self, wait_s: float | None = None) -> BlockingTenure | None:
        """Take office, or return None if another was in office all the time."""
        self._sitting = ThreadSitting(self._desk, self._sinks)
        self.term = self._sitting.take_office(wait_s)
        return None if self.term is None else self._sitting.tenure(self.term)

    def end(self) -> None:
        """Leave office; raises TenureOver if it was lost before."""
        lost = self._is_lost()
        self._sitting.leave()
        if lost:
            raise tenure_over(self._begun())

    def __enter__(self) -> BlockingTenure:
        tenure = self.begin()
        assert tenure is not None, "who waits for ever gets office, or an exception"
        self._sitting.in_block = True
        return tenure

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.end()
        else:
            self._sitting.leave()
