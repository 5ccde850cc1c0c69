"""A sitting: the user's end of one seat, from standing until everything that was held has been released.

The seat (office thread) says seal, start, stop; the sitting does so where the user called, and reports. What an event
loop and a plain thread do alike stands here; how each waits and stops stands in ``on_loop`` and ``on_thread``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tenure.clients.upkeep import failure_of
from tenure.core.events import BodyEnded, Deposed, Failed, Resign, Sealed, Tick
from tenure.errors import ConfigError, OutcomeUnknown, Reason, StaleToken, TenureOver, UnverifiedToken, redact
from tenure.facts import kinds as facts
from tenure.facts import publish
from tenure.model import Token
from tenure.office.desk import Desk
from tenure.office.eligibility import Eligibility, NotEligible, Question
from tenure.office.tenure import Tenure
from tenure.office.term import Term
from tenure.sinks.base import Sink
from tenure.timing import Seconds, to_ns

if TYPE_CHECKING:
    from tenure.office.seat import Seat


@dataclass(frozen=True, slots=True)
class Seal:
    """Raise the fence of every sink to this token."""

    attempt: int
    token: Token


@dataclass(frozen=True, slots=True)
class Start:
    """The body may begin."""

    term: Term


@dataclass(frozen=True, slots=True)
class Waiting:
    """The store said: not now."""


@dataclass(frozen=True, slots=True)
class Idle:
    """The candidate no longer stands, and what it held has been released."""


Letter = Seal | Start | Waiting | Idle


class Sitting:
    """What both kinds of sitting share. Nothing is taken before ``sit``."""

    __slots__ = (
        "_desk",
        "_gone",
        "_open",
        "_seal_trouble",
        "_sealed_first",
        "failure",
        "in_block",
        "last",
        "seat",
    )

    def __init__(self, desk: Desk, sinks: Sequence[Sink], eligible: Question | None = None) -> None:
        self._desk, sinks = desk, check_sinks(sinks)
        # Who must not lead raises no fence either.
        self._sealed_first = sinks if eligible is None else (Eligibility(eligible), *sinks)
        # Why standing had to end: a sink that can never be sealed, a closed store.
        self.failure: Exception | None = None
        # Why the office that was granted is not taken; None: it was not granted.
        self._seal_trouble: Exception | None = None
        self.in_block = False  # whether there is code of the caller's whose end ends the tenure
        self._open: Term | None = None  # a tenure whose body's end has not been reported
        self.last: Term | None = None  # the tenure that was begun last
        self._gone = False
        self.seat: Seat

    def sit(self) -> None:
        """Take the seat. Raises ConfigError if somebody sits there."""
        fenced = any(not isinstance(sink, Eligibility) for sink in self._sealed_first)
        self.seat = self._desk.seat(self, fenced=fenced)

    # The seat's side: called on the office's thread

    def seal(self, attempt: int, token: Token) -> None:
        # Also where there is nothing to seal: an office is not taken for a caller whose loop would not answer.
        self.put(Seal(attempt, token))

    def put(self, letter: Letter, /) -> None:
        """Leave a letter for the user's side."""
        raise NotImplementedError

    def start(self, term: Term) -> None:
        self.put(Start(term))

    def stop(self, term: Term) -> None:
        raise NotImplementedError

    def look_after(self) -> None:
        """Nothing to do: a thread does not end before it has left its body."""

    def evicted(self) -> None:
        rule = "was closed while somebody stood or led on it: leave the election first"
        self.failure = ConfigError("store", self.seat.store.address, rule)
        if not self.in_block:  # Between acquire and release there is no body to wait for, and who holds it goes.
            self.body_over(stand_again=False)

    def wait(self) -> None:
        self._seal_trouble = None
        self.put(Waiting())

    def idle(self) -> None:
        self._desk.leave()
        self.put(Idle())

    # The user's side

    def _opened(self, letter: Letter) -> Letter:
        """Take note of what a letter means for leaving."""
        match letter:
            case Start(term):
                self._open = self.last = term
            case Idle():
                self._gone = True
        return letter

    def body_over(self, *, stand_again: bool) -> None:
        """Report the end of the body. Nothing here waits: it must be said even while being cancelled."""
        term, self._open = self._open, None
        if term is None:
            if not stand_again:
                self.seat.feed(Resign())
        elif stand_again:
            self.seat.feed(BodyEnded(term.token))
        else:
            self.seat.leave(term.token)

    def is_loss(self, over: TenureOver, tenure: Tenure) -> bool:
        """Whether a body that raised ``over`` did so because its tenure is. It may have other tenures to raise about."""
        if over.token != tenure.token or tenure.reason is None:
            return False
        # The body may have seen the end of its validity before the office did. Were its own end told first, it would count
        # as work that is done.
        self.seat.feed(Tick())
        return True

    async def seal_sinks(self, attempt: int, token: Token) -> None:
        """Raise every fence, and report what came of it."""
        began_at = self._desk.office.clock.now()
        for sink in self._sealed_first:
            self._seal_trouble = OutcomeUnknown(type(sink).__name__, "seal", "no answer in time")
            self._seal_trouble = failure = await failure_of(sink.seal(self._desk.fence, token))
            match failure:
                case None:
                    continue
                case NotEligible():
                    self.seat.feed(Deposed(token))
                case StaleToken() | UnverifiedToken():  # With this token nobody can ever write.
                    self.seat.feed(Deposed(token))
                case ConfigError():  # Asking again would not help: it is for the caller to mend.
                    self.failure = failure
                    self.seat.feed(Resign())
                case _:  # It may have been sealed, and may be later: the machine asks again.
                    self.seat.feed(Failed(attempt, definite=False))
            self._publish(
                facts.SealFailed(token, type(sink).__name__, redact(str(failure)), not isinstance(failure, NotEligible))
            )
            return
        if self._sealed_first:
            self._publish(facts.Sealed(token, len(self._sealed_first), self._desk.office.clock.now() - began_at))
        self.seat.feed(Sealed(token))

    def _publish(self, what: facts.What) -> None:
        desk = self._desk
        publish(what, self.seat.store.address, desk.election, desk.holder)

    def patience_s(self, wait_s: float | None) -> float | None:
        """Return how long to wait for office. Not at all means: until the store has said who holds it."""
        return wait_s or (None if wait_s is None else self._desk.timing.attempt_timeout_ns / 1e9)

    def why_not(self) -> None:
        """After a wait that got no office: return if another holds it, raise if something is wrong."""
        failure = self.failure or self.seat.trouble or self._seal_trouble
        if failure is not None:
            raise failure


class StayBase:
    """One tenure with the caller as its body, from taking office to leaving it: what both kinds share."""

    _sitting: Sitting

    def __init__(self, desk: Desk, sinks: Iterable[Sink]) -> None:
        self._desk, self._sinks = desk, check_sinks(sinks)
        self.term: Term | None = None

    @property
    def is_block(self) -> bool:
        """Whether its end is that of a block."""
        return self.term is not None and self._sitting.in_block

    def _begun(self) -> Term:
        assert self.term is not None, "ended without having begun"
        return self.term

    def _is_lost(self) -> bool:
        """Whether the tenure was over before its body was, other than by the body's own wish."""
        term = self._begun()
        return term.reason not in (None, Reason.RESIGNED) or self._desk.office.clock.now() >= term.valid_until


def check_sinks(sinks: Iterable[Sink]) -> tuple[Sink, ...]:
    """Return the sinks, all of them every time: an iterator would be used up by the first tenure, and fence no other."""
    kept = tuple(sinks)
    for sink in kept:
        if not callable(getattr(sink, "seal", None)):
            raise ConfigError("sinks", type(sink).__name__, "is no sink: it has no seal(fence, token)")
    return kept


def wait_seconds(timeout: Seconds | None) -> float | None:
    """Return a public timeout in seconds; None is for ever."""
    if timeout is None:
        return None
    wait_ns = to_ns("timeout", timeout)
    if wait_ns < 0:
        raise ConfigError("timeout", timeout, "must not be negative: 0 asks once, None waits for ever")
    return wait_ns / 1e9


def tenure_over(term: Term) -> TenureOver:
    """Return what to raise for a tenure that ended before its body did."""
    return TenureOver(term.token, term.reason or Reason.LAPSED)
