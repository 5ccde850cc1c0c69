"""The numbers of one election, how they must fit together, and what may be concluded from them.

Rules of this file
1. Validity is dated from the send (DESIGN rule 1): ``valid_until = sent_at + ttl·(1 − drift)``. The answer's arrival
   never enters.
2. Settings that do not fit are refused with every number and the relation that is broken.
3. Inside, integers of nanoseconds; seconds and ``timedelta`` only in ``Timing.of``.

``drift`` bounds how far the holder's clock and the engine's may run apart. If each runs within ±drift/2 of true time,
a holder stops believing before the engine lets go: (1 − drift)/(1 − drift/2) < 1/(1 + drift/2). A clock that breaks
the bound breaks the belief, never the fence.
"""

import math
from dataclasses import dataclass, field
from datetime import timedelta

from tenure.errors import ConfigError

Seconds = float | timedelta

# NTP slews by at most 0.05 % and a quartz is off by 0.01 %, on either side. 1 % leaves room for a virtual machine
# that is being caught up, and costs 80 ms of an 8 s lease.
DEFAULT_DRIFT = 0.01
DEFAULT_HEARTBEAT_S = 2.0
DEFAULT_MISSES = 3
# A holder acts on its own word for three quarters of the lease, then asks: early enough for the act itself to end in time.
DEFAULT_LOCAL_SHARE = 0.75

_ATTEMPT_TIMEOUT_NS = 5_000_000_000  # An engine that has not answered in five seconds will not.
_SECONDS_MAX = 1e9
_TTL_MIN_NS = 1_000_000  # A millisecond: no engine, and no event loop, keeps anything shorter.
_MISSES_MAX = 1000
_TTL_MAX_NS = 7 * 24 * 3600 * 10**9  # A week: longer leases are locks that nobody will ever see released.


def to_ns(setting: str, value: object) -> int:
    """Return a public duration (seconds or timedelta) as nanoseconds; ``setting`` names it in the error."""
    if isinstance(value, timedelta):
        return (value // timedelta(microseconds=1)) * 1000
    # Compared before it is multiplied: an int may be too large for a float, and a float for a nanosecond.
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_SECONDS_MAX <= value <= _SECONDS_MAX:
        shown = str(value)[:40]
        raise ConfigError(setting, shown, f"must be a number of seconds, at most {_SECONDS_MAX:g}, or a timedelta")
    return round(value * 1e9)


@dataclass(frozen=True, slots=True)
class Timing:
    """The timing of one election. Build it with ``Timing.of``; the constructor takes nanoseconds.

    Promises that the parts fit together. Does not promise that they fit your network: measure that.
    """

    ttl_ns: int
    renew_every_ns: int
    attempt_timeout_ns: int
    grace_ns: int
    drift: float = DEFAULT_DRIFT
    misses: int = DEFAULT_MISSES
    local_share: float = DEFAULT_LOCAL_SHARE
    valid_for_ns: int = field(init=False)

    def __post_init__(self) -> None:
        for name in ("ttl_ns", "renew_every_ns", "attempt_timeout_ns", "grace_ns", "misses"):
            value = getattr(self, name)
            if type(value) is not int:  # a bool would pass for a number, a float breaks at the first failure
                raise ConfigError(name, repr(value), "must be a whole number")
            if value <= 0:
                shown = f"{value / 1e9:g} s" if name.endswith("_ns") else value
                raise ConfigError(name.removesuffix("_ns"), shown, "must be more than 0")
        for name in ("drift", "local_share"):
            value = getattr(self, name)
            if type(value) not in (int, float):
                raise ConfigError(name, repr(value), "must be a number")
        self._require(_TTL_MIN_NS <= self.ttl_ns <= _TTL_MAX_NS, f"0.001 s <= ttl <= {_TTL_MAX_NS // 10**9} s")
        self._require(0 <= self.drift < 1, "0 <= drift < 1")
        self._require(self.misses <= _MISSES_MAX, f"misses <= {_MISSES_MAX}")
        object.__setattr__(self, "valid_for_ns", self.ttl_ns - math.ceil(self.ttl_ns * self.drift))
        self._require(0 < self.local_share <= 1 - self.drift, "0 < local_share <= 1 - drift")
        self._require(self.misses * self.renew_every_ns < self.ttl_ns, "misses x renew_every < ttl")
        needed_ns = self.renew_every_ns + self.attempt_timeout_ns + self.grace_ns
        self._require(needed_ns < self.valid_for_ns, "renew_every + attempt_timeout + grace < ttl x (1 - drift)")

    @classmethod
    def of(  # noqa: PLR0913  (every number of an election is a keyword here, and nowhere else)
        cls,
        *,
        ttl: Seconds | None = None,
        heartbeat: Seconds | None = None,
        misses: int = DEFAULT_MISSES,
        attempt_timeout: Seconds | None = None,
        grace: Seconds | None = None,
        drift: float = DEFAULT_DRIFT,
        local_share: float = DEFAULT_LOCAL_SHARE,
    ) -> "Timing":
        """Return the timing for a lease of ``ttl``, or for a ``heartbeat`` of which ``misses`` in a row end the tenure.

        Give either, both or neither (2 s, 3 misses, a lease of 8 s). What is left out is derived: the lease is one
        heartbeat longer than the misses that it takes to lose it; an attempt is given up after one heartbeat, or five
        seconds if that is less; the body gets half a heartbeat to stop.
        """
        if type(misses) is not int or not 1 <= misses <= _MISSES_MAX:  # a bool would count as 1
            raise ConfigError("misses", str(misses)[:40], f"must be a whole number from 1 to {_MISSES_MAX}")
        ttl_ns = None if ttl is None else to_ns("ttl", ttl)
        if heartbeat is not None:
            heartbeat_ns = to_ns("heartbeat", heartbeat)
        elif ttl_ns is not None:
            heartbeat_ns = ttl_ns // (misses + 1)
        else:
            heartbeat_ns = to_ns("heartbeat", DEFAULT_HEARTBEAT_S)
        return cls(
            ttl_ns=(misses + 1) * heartbeat_ns if ttl_ns is None else ttl_ns,
            renew_every_ns=heartbeat_ns,
            attempt_timeout_ns=min(heartbeat_ns, _ATTEMPT_TIMEOUT_NS)
            if attempt_timeout is None
            else to_ns("attempt_timeout", attempt_timeout),
            grace_ns=heartbeat_ns // 2 if grace is None else to_ns("grace", grace),
            drift=drift,
            misses=misses,
            local_share=local_share,
        )

    @classmethod
    def of_client_go(
        cls, *, lease_duration: Seconds = 15, renew_deadline: Seconds = 10, retry_period: Seconds = 2
    ) -> "Timing":
        """Return the timing for the three numbers of client-go's ``leaderelection``, whose defaults these are.

        The lease lasts ``lease_duration``, is renewed every ``retry_period``, and a leader whose last renewal was sent
        ``renew_deadline`` ago is told to stop. What is left of the lease then is the body's time to end in.
        """
        lease_ns = to_ns("lease_duration", lease_duration)
        deadline_ns = to_ns("renew_deadline", renew_deadline)
        period_ns = to_ns("retry_period", retry_period)
        grace_ns = lease_ns - math.ceil(lease_ns * DEFAULT_DRIFT) - deadline_ns
        if not 0 < 2 * period_ns < deadline_ns or grace_ns <= 0:
            numbers = (
                f"lease_duration {lease_ns / 1e9:g} s, renew_deadline {deadline_ns / 1e9:g} s, "
                f"retry_period {period_ns / 1e9:g} s"
            )
            rule = f"must satisfy 0 < 2 x retry_period < renew_deadline < lease_duration x {1 - DEFAULT_DRIFT:g}"
            raise ConfigError("timing", numbers, rule)
        return cls(
            ttl_ns=lease_ns,
            renew_every_ns=period_ns,
            attempt_timeout_ns=min(period_ns, _ATTEMPT_TIMEOUT_NS),
            grace_ns=grace_ns,
            misses=min(deadline_ns // period_ns, _MISSES_MAX),
        )

    def valid_until(self, sent_at: int) -> int:
        """Return the instant up to which a grant asked for at ``sent_at`` may be believed in."""
        return sent_at + self.valid_for_ns

    def locally_valid_until(self, sent_at: int) -> int:
        """Return the earlier instant up to which acting without asking the engine leaves room for the act to end."""
        return sent_at + int(self.ttl_ns * self.local_share)

    def renew_at(self, sent_at: int, phase_ns: int = 0) -> int:
        """Return when to renew what was asked for at ``sent_at``: after a heartbeat at the latest.

        It falls on a mark that all elections with this heartbeat share, so that ten thousand of them renew in one burst:
        one hand-over, one transaction, one request for all. Only the first renewal of a tenure comes sooner for it: from
        then on it is a heartbeat from mark to mark. Where each needs a request of its own, ``phase_ns`` shifts the marks of
        each, so that they do not come all at once.
        """
        due = sent_at + self.renew_every_ns
        return due - (due - phase_ns) % self.renew_every_ns

    def is_mark(self, instant: int) -> bool:
        """Say whether others with this heartbeat renew at ``instant`` as well."""
        return instant % self.renew_every_ns == 0

    def retry_after_ns(self, failure_count: int, chance: float) -> int:
        """Return how long to wait after the ``failure_count``-th failure in a row; ``chance`` in [0, 1) is the jitter.

        Doubles from 1/16 of a heartbeat (a blip costs no miss) up to a whole one (so that no miss is wasted), and
        spreads over the upper half of that: candidates that failed together must not come back together.
        """
        ceiling_ns = self.renew_every_ns >> max(0, 5 - failure_count)
        return ceiling_ns // 2 + int(ceiling_ns * chance / 2)

    def answer_within_ns(self, failure_count: int, chance: float) -> int:
        """Return how long to wait for an answer before asking again, after that many failures in a row.

        Doubles from the attempt's own time up to a heartbeat: a slow engine gets time to answer, a dead one less to do.
        Jittered by a quarter, downwards, so that candidates that asked together do not ask again together.
        """
        within_ns = self.attempt_timeout_ns
        if failure_count:
            within_ns = min(within_ns << min(failure_count, 40), max(within_ns, self.renew_every_ns))
        return within_ns - int(within_ns * chance / 4)

    def recheck_after_ns(self, chance: float) -> int:
        """Return how long a standby trusts a silent watch before it claims again.

        A watch can die without a word (a half-open connection, a server that forgot). After two ttl any dead
        incumbent has lapsed, whatever the watch did; the cost is one request per standby in that time.
        """
        return 2 * self.ttl_ns + int(self.ttl_ns * chance / 2)

    def office_filled_within_ns(self, delay_ns: int) -> int:
        """Return the longest time without a leader once faults have ended and messages take at most ``delay_ns``.

        Adds the worst of what may be pending when they end: a watch that died (or a dead incumbent's lease), an
        answer that will not come, the longest pause between tries for claim and for seal, a candidate that has just
        stepped back, and eight messages (claim, seal, release, wake and their answers).
        """
        asleep_ns = max(self.recheck_after_ns(1.0), math.ceil(self.ttl_ns * (1 + self.drift)))
        asking_ns = self.answer_within_ns(40, 0.0) + self.retry_after_ns(5, 1.0)
        stepped_back_ns = self.renew_every_ns  # one that could not seal lets others go first
        return math.ceil((asleep_ns + 2 * asking_ns + stepped_back_ns) * (1 + self.drift)) + 8 * delay_ns

    def _require(self, holds: bool, relation: str) -> None:
        if not holds:
            numbers = (
                f"ttl {self.ttl_ns / 1e9:g} s, renew_every {self.renew_every_ns / 1e9:g} s x {self.misses} misses, "
                f"attempt_timeout {self.attempt_timeout_ns / 1e9:g} s, grace {self.grace_ns / 1e9:g} s, "
                f"drift {self.drift:g}, local_share {self.local_share:g}"
            )
            raise ConfigError("timing", numbers, f"must satisfy {relation}")
