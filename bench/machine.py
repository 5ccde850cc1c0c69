"""What the machine costs: one step, and one look at whether an office may still be believed in."""

import time
from collections.abc import Iterator
from statistics import median

from tenure.clock import BootClock
from tenure.core.candidate import Candidate
from tenure.core.effects import Claim, Renew
from tenure.core.events import Granted, Sealed, Stand, Tick
from tenure.model import Bid, Grant, Holder, Token
from tenure.timing import Timing

STEPS = 20_000
COMPARISONS = 20_000
ROUNDS = 25


def _step_us() -> float:
    """Return the median of single steps of a leader that renews: tick, grant, tick, grant …"""
    timing = Timing.of()
    candidate = Candidate(Bid("bench", Holder("bench", 1, "x"), 0, timing.ttl_ns), timing)
    claim = candidate.step(Stand(), 0)[0]
    assert isinstance(claim, Claim)
    grant = Grant(claim.bid, Token(1))
    candidate.step(Granted(claim.attempt, grant), 1)
    candidate.step(Sealed(Token(1)), 2)
    taken = []
    now = 2
    for _ in range(STEPS):
        now = candidate.wake_at or now
        tick = Tick()
        began = time.perf_counter_ns()
        effects = candidate.step(tick, now, 0.3)
        taken.append(time.perf_counter_ns() - began)
        (renew,) = effects
        assert isinstance(renew, Renew)
        answer = Granted(renew.attempt, grant)
        now += 1_000_000
        began = time.perf_counter_ns()
        candidate.step(answer, now, 0.3)
        taken.append(time.perf_counter_ns() - began)
    return median(taken) / 1000


def _comparison_us() -> float:
    """Return what ``clock.now() < valid_until`` costs on the real clock, the loop around it included."""
    clock = BootClock()
    valid_until = clock.now() + 3600 * 10**9
    rounds = []
    for _ in range(ROUNDS):
        began = time.perf_counter_ns()
        for _ in range(COMPARISONS):
            assert clock.now() < valid_until
        rounds.append((time.perf_counter_ns() - began) / COMPARISONS)
    return median(rounds) / 1000


def figures() -> Iterator[tuple[str, float, float, str, bool]]:
    yield "Candidate.step, median", _step_us(), 5.0, "µs", False
    yield "validity comparison on the boot clock", _comparison_us(), 1.0, "µs", False
