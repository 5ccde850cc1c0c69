"""A sitting: one call of ``lead`` or ``once`` on the user's own event loop, in conversation with its seat.

The seat (office thread) says seal, start, stop; the sitting does so where the user called, and reports. The body runs in
a cancel scope: loss cancels it at every await until it has ended (level cancellation), and only its end lets the seat
release the office (rule 6).
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import anyio
from anyio.abc import TaskGroup

from tenure.core.effects import Fact
from tenure.core.events import BodyEnded, Deposed, Failed, Resign, Sealed, Stand
from tenure.errors import Reason, StaleToken, TenureOver, redact
from tenure.model import Token
from tenure.office.desk import Desk
from tenure.office.mailbox import LoopMailbox
from tenure.office.seat import Term
from tenure.office.tenure import Tenure
from tenure.sinks.base import Sink

T = TypeVar("T")
_LOG: Final = logging.getLogger("tenure")


@dataclass(frozen=True, slots=True)
class _Seal:
    attempt: int
    token: Token


@dataclass(frozen=True, slots=True)
class _Start:
    term: Term


@dataclass(frozen=True, slots=True)
class _Stop:
    term: Term


@dataclass(frozen=True, slots=True)
class _Idle:
    pass


_Letter = _Seal | _Start | _Stop | _Idle


class Sitting(Generic[T]):
    """The user's end of one seat. Made and used on one event loop."""

    def __init__(self, desk: Desk, sinks: Sequence[Sink]) -> None:
        self._desk, self._sinks = desk, sinks
        self._mail: LoopMailbox[_Letter] = LoopMailbox()
        self._seat = desk.seat(self)
        self._scope: anyio.CancelScope | None = None
        self._result: T | None = None
        self._failure: Exception | None = None

    # The seat's side: called on the office's thread

    def seal(self, attempt: int, token: Token) -> None:
        self._mail.put(_Seal(attempt, token))

    def start(self, term: Term) -> None:
        self._mail.put(_Start(term))

    def stop(self, term: Term) -> None:
        self._mail.put(_Stop(term))

    def idle(self) -> None:
        self._mail.put(_Idle())

    def publish(self, fact: Fact) -> None:
        self._desk.publish(fact)

    # The user's side

    async def lead(self, body: Callable[[Tenure], Awaitable[T]], *, once: bool) -> T:
        """Stand until a body has returned (once: until one tenure is over), and return what it returned."""
        self._seat.feed(Stand())
        left = False
        try:
            async with anyio.create_task_group() as tasks:
                while not isinstance(letter := await self._mail.get(), _Idle):
                    match letter:
                        case _Seal(attempt, token):
                            tasks.start_soon(self._seal_sinks, attempt, token)
                        case _Start(term):
                            tasks.start_soon(self._run_body, body, term, once)
                        case _Stop():
                            self.cancel_body()
                left = True
                tasks.cancel_scope.cancel()
        finally:
            if left:
                self._desk.leave()
            else:
                await self.leave()
        if self._failure is not None:
            raise self._failure
        return self._result  # type: ignore[return-value]

    async def wait_for_office(self, tasks: TaskGroup) -> Term:
        """Stand, and return when the body may begin. The caller is the body."""
        self._seat.feed(Stand())
        while not isinstance(letter := await self._mail.get(), _Start):
            if isinstance(letter, _Seal):
                tasks.start_soon(self._seal_sinks, letter.attempt, letter.token)
        return letter.term

    async def watch_over(self, scope: anyio.CancelScope) -> None:
        """Cancel the caller's scope when the seat says stop."""
        self._scope = scope
        while not isinstance(letter := await self._mail.get(), _Idle):
            if isinstance(letter, _Stop):
                self.cancel_body()
        self._mail.put(letter)  # for who leaves

    def tenure(self, term: Term) -> Tenure:
        return self._desk.tenure(self._seat, term)

    def cancel_body(self) -> None:
        if self._scope is not None:
            self._scope.cancel()

    def body_over(self, term: Term, *, stand_again: bool) -> None:
        """Report the end of the body. Nothing here waits: it must be said even while being cancelled."""
        self._scope = None
        if not stand_again:
            self._seat.feed(Resign())
        self._seat.feed(BodyEnded(term.token))

    async def leave(self) -> None:
        """Whatever happened: stand no more, and return when everything that was held has been released."""
        with anyio.CancelScope(shield=True):
            self._seat.feed(Resign())
            while not isinstance(await self._mail.get(), _Idle):
                pass
        self._desk.leave()

    async def _run_body(self, body: Callable[[Tenure], Awaitable[T]], term: Term, once: bool) -> None:
        over = once
        try:
            with anyio.CancelScope() as self._scope:
                if term.reason is not None:  # told to stop before it could begin
                    self._scope.cancel()
                self._result, self._failure = await _outcome(body(self.tenure(term)))
                over = True
            if once and self._scope.cancelled_caught:
                self._failure = TenureOver(term.token, term.reason or Reason.LAPSED)
        finally:
            self.body_over(term, stand_again=not over)

    async def _seal_sinks(self, attempt: int, token: Token) -> None:
        for sink in self._sinks:
            _, failure = await _outcome(sink.seal(self._desk.fence, token))
            if isinstance(failure, StaleToken):
                self._seat.feed(Deposed(token))
                return
            if failure is not None:  # It may have been sealed, and may be later: the machine asks again.
                _LOG.warning("sealing %s with token %d failed: %s", self._desk.fence, token, redact(str(failure)))
                self._seat.feed(Failed(attempt, definite=False))
                return
        self._seat.feed(Sealed(token))


async def _outcome(call: Awaitable[T]) -> tuple[T | None, Exception | None]:
    """Await what the user wrote. The one place where any exception is caught: it goes on from the right frame, unchanged."""
    try:
        return await call, None
    except Exception as error:  # noqa: BLE001
        return None, error
