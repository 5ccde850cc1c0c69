"""A tenure as its body sees it: the token to write with, and how long it may still be believed in."""

from types import EllipsisType

from tenure.core.events import GiveUp, Resign
from tenure.errors import ConfigError, Reason, TenureOver
from tenure.model import Holder
from tenure.office.desk import Desk, check_advertise
from tenure.office.seat import Seat
from tenure.office.term import Term
from tenure.timing import Seconds, to_ns


class Tenure:
    """One uninterrupted time in office. Safe to use from any thread.

    ``valid`` says that nobody else can have been in office up to this instant, if clocks keep their bound. It does not
    say that a write that you start now will land in time: only a sink that compares the token can promise that.
    """

    __slots__ = ("_desk", "_seat", "_term", "token")

    def __init__(self, desk: Desk, seat: Seat, term: Term) -> None:
        self.token = term.token
        self._desk, self._seat, self._term = desk, seat, term

    @property
    def fence(self) -> str:
        """The name under which sinks keep the highest token of this store and election."""
        return self._desk.fence

    @property
    def election(self) -> str:
        """The name of the election."""
        return self._desk.election

    @property
    def holder(self) -> Holder:
        """Who is in office."""
        return self._desk.holder

    @property
    def valid(self) -> bool:
        """Whether this tenure may be believed in at this instant. A comparison with the clock, every time (rule 8)."""
        return self._desk.office.clock.now() < self._term.held.valid_until

    @property
    def remaining(self) -> float:
        """Seconds left of the validity, unless a renewal comes; 0 if it has ended."""
        return max(0, self._term.held.valid_until - self._desk.office.clock.now()) / 1e9

    @property
    def margin(self) -> float | None:
        """The least number of seconds that was left when a renewal came: how close it was. None: none has come yet."""
        margin_ns = self._term.held.margin_ns
        return None if margin_ns is None else margin_ns / 1e9

    @property
    def reason(self) -> Reason | None:
        """Why the body must stop, or None while it need not."""
        return self._term.reason or (None if self.valid else Reason.LAPSED)

    def check(self) -> None:
        """Return if this tenure may be believed in and need not stop; raise TenureOver otherwise.

        This is all that a read from the leader's memory needs. A write needs the sink's own comparison besides.
        """
        term = self._term
        if term.reason is not None or self._desk.office.clock.now() >= term.held.valid_until:
            raise TenureOver(self.token, self.reason or Reason.LAPSED)

    def progress(self, within: Seconds | EllipsisType | None = ...) -> None:
        """Say that the work goes on, and that the next call will come ``within`` this time; left out: the same as before.

        A body that declared this and stalls loses its tenure, although its renewals go on (rule 9). None: no more calls
        will come.
        """
        term = self._term
        if within is ...:
            if term.progress_within_ns is None:
                raise ConfigError("progress", "nothing", "must say first within which time the next call will come")
        else:
            term.progress_within_ns = None if within is None else to_ns("progress", within)
        within_ns = term.progress_within_ns
        self._seat.expect_progress(term, None if within_ns is None else self._desk.office.clock.now() + within_ns)

    def proclaim(self, address: str) -> None:
        """Say anew where this leader can be reached, for as long as this tenure lasts. Returns at once.

        It is said again until the store has heard it. Whoever observes may see the old address for a while. Raises
        ConfigError if the store cannot change it.
        """
        self._seat.proclaim(self._term, check_advertise(address))

    def resign(self) -> None:
        """Ask to leave office: the body is cancelled, awaited, and then the office is released. Returns at once.

        Does nothing if this tenure is over, whoever leads now.
        """
        self._term.resigned = True
        self._seat.feed_in(self._term, Resign())

    def give_up(self) -> None:
        """Leave office in favour of another candidate and stand again a heartbeat later. Returns at once.

        Does nothing if this tenure is over, whoever leads now.
        """
        self._seat.feed_in(self._term, GiveUp(Reason.RESIGNED))

    def __repr__(self) -> str:
        return f"<Tenure {self.token} of {self.election!r} by {self.holder}: {self.remaining:.3f} s remaining>"
