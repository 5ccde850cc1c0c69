"""Sitting on the user's own event loop, asyncio or trio.

The body runs in a cancel scope: loss cancels it at every await until it has ended (level cancellation), and only its
end lets the seat release the office (rule 6).
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TypeVar

import anyio

from tenure.core.events import Sealed, Stand
from tenure.errors import TenureOver
from tenure.model import Token
from tenure.office.desk import Desk
from tenure.office.eligibility import Question
from tenure.office.mailbox import Letters
from tenure.office.sitting import Idle, Letter, Seal, Sitting, Start, StayBase, Waiting, tenure_over
from tenure.office.tenure import Tenure
from tenure.office.term import Term
from tenure.sinks.base import Sink

T = TypeVar("T")


class LoopSitting(Letters[Letter], Sitting):
    """Used on one event loop at a time: the one that leads, or that last waited. Its letters are its own."""

    __slots__ = ("_loop", "_news", "_scope", "letters")

    def __init__(self, desk: Desk, sinks: Sequence[Sink], eligible: Question | None = None) -> None:
        super().__init__(desk, sinks, eligible)
        self._scope: anyio.CancelScope | None = None

    def sit(self) -> None:
        self.expect_letters()
        super().sit()

    def stop(self, term: Term) -> None:
        self.call(lambda: self._cancel(term))

    def abandoned(self) -> None:
        """The loop is closed: no body runs there any more, and nobody will ever report its end."""
        if self._open is not None and not self.in_block:
            return  # Held between acquire and release, which may come from another loop.
        for letter in self.letters:
            self._opened(letter)
        self.body_over(stand_again=False)

    def _cancel(self, term: Term) -> None:
        if self._scope is not None and self._open is term:
            self._scope.cancel()

    def cover(self, term: Term) -> anyio.CancelScope:
        """Return the scope in which a body is to run. It is cancelled when the seat says stop."""
        self.in_block = True
        self._scope = anyio.CancelScope()
        if term.reason is not None:  # told to stop before it could begin
            self._scope.cancel()
        return self._scope

    def tenure(self, term: Term) -> Tenure:
        return Tenure(self._desk, self.seat, term)

    def stand(self) -> None:
        """Begin to stand."""
        self.seat.feed(Stand())

    async def lead(self, body: Callable[[Tenure], Awaitable[T]], *, once: bool) -> T:
        """Stand until a body has returned (once: until one tenure is over), and return what it returned."""
        self.sit()
        try:
            self.stand()
            while (term := await self._wait_for_start()) is not None:
                tenure = self.tenure(term)
                with self.cover(term):
                    try:
                        tenure.check()  # A loop that was blocked may come here when another is in office.
                        return await body(tenure)
                    except TenureOver as over:
                        if not self.is_loss(over, tenure):
                            raise
                # Only loss leads here. Whatever else ends a body takes this task with it.
                if once:
                    raise tenure_over(term)
                self.body_over(stand_again=True)
        finally:
            await self.leave()
        if self.failure is not None:
            raise self.failure
        return None  # type: ignore[return-value]  # it resigned

    async def take_office(self, wait_s: float | None) -> Term | None:
        """Stand, and return when the body may begin, which is the caller; None if another was in office all the time."""
        term: Term | None = None
        self.sit()
        try:
            self.stand()
            with anyio.move_on_after(self.patience_s(wait_s)):
                term = await self._wait_for_start(ask_once=wait_s == 0)
        finally:
            if term is None:
                await self.leave()
        if term is None:
            self.why_not()
        elif self.tenure(term).reason is not None:  # likewise
            await self.leave()
            raise tenure_over(term)
        return term

    async def leave(self) -> None:
        """Whatever happened: stand no more, and return when everything that was held has been released."""
        self.body_over(stand_again=False)
        cut_short: BaseException | None = None
        with anyio.CancelScope(shield=True):
            while not self._gone:
                try:
                    await self._next()
                except anyio.get_cancelled_exc_class() as cancelled:
                    # Task.cancel() of asyncio knows no shield. It is obeyed when the release is through, which is bounded.
                    cut_short = cancelled
                if not self._gone:
                    self.body_over(stand_again=False)
        if cut_short is not None:
            raise cut_short

    async def _wait_for_start(self, *, ask_once: bool = False) -> Term | None:
        if self._sealed_first:
            await self._wait_sealing(ask_once=ask_once)
        else:  # A group of tasks costs as much as all the rest of taking office.
            while not _is_last(letter := await self._next(), ask_once=ask_once):
                if isinstance(letter, Seal):
                    self.seat.feed(Sealed(letter.token))
        return self._open

    async def _wait_sealing(self, *, ask_once: bool) -> None:
        sealing = anyio.CancelScope()
        async with anyio.create_task_group() as tasks:
            while not _is_last(letter := await self._next(), ask_once=ask_once):
                if isinstance(letter, Seal):
                    sealing.cancel()  # One that hangs is not waited for, and they must not pile up.
                    sealing = anyio.CancelScope()
                    tasks.start_soon(self._seal_in, sealing, letter.attempt, letter.token)
            tasks.cancel_scope.cancel()

    async def _seal_in(self, scope: anyio.CancelScope, attempt: int, token: Token) -> None:
        with scope:
            await self.seal_sinks(attempt, token)

    async def _next(self) -> Letter:
        return self._opened(await self.get())


def _is_last(letter: Letter, *, ask_once: bool) -> bool:
    """Say whether there is nothing more to wait for."""
    return isinstance(letter, Start | Idle) or (ask_once and isinstance(letter, Waiting))


class Stay(StayBase, AbstractAsyncContextManager[Tenure]):
    """From ``begin`` to ``end``, or as a block that loss cancels."""

    _sitting: LoopSitting

    async def begin(self, wait_s: float | None = None) -> Tenure | None:
        """Take office, or return None if another was in office all the time."""
        self._sitting = LoopSitting(self._desk, self._sinks)
        self.term = await self._sitting.take_office(wait_s)
        return None if self.term is None else self._sitting.tenure(self.term)

    async def end(self) -> None:
        """Leave office; raises TenureOver if it was lost before."""
        lost = self._is_lost()
        await self._sitting.leave()
        if lost:
            raise tenure_over(self._begun())

    async def enter(self, wait_s: float | None = None) -> Tenure | None:
        """Begin a block, which ``__aexit__`` must end; None if another was in office all the time, and then there is none."""
        tenure = await self.begin(wait_s)
        if tenure is not None:
            self._scope = self._sitting.cover(self._begun())
            self._scope.__enter__()
        return tenure

    async def __aenter__(self) -> Tenure:
        tenure = await self.enter()
        assert tenure is not None, "who waits for ever gets office, or an exception"
        return tenure

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        lost = error is None and self._is_lost()
        try:
            self._scope.__exit__(kind, error, traceback)  # raises what it did not catch, or that this is another task
        finally:
            await self._sitting.leave()
        # Not what __exit__ returned: on trio that is False if an outer scope was cancelled as well.
        if lost or self._scope.cancelled_caught:
            raise tenure_over(self._begun())
