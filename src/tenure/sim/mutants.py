"""Deliberate breakages of machine, clock, sink, store and worker: the checkers' own test.

A mutant is one or two overridden methods (``breakages``), each a mistake that real systems have made. It names the
checker that must kill it; one that survives fails the build.
"""

from dataclasses import dataclass
from typing import Final

from tenure.errors import ConfigError
from tenure.sim import breakages
from tenure.sim.world import Parts


@dataclass(frozen=True, slots=True)
class Mutant:
    """One breakage: its name, what it does wrong, the checker that must notice, and the parts that it changes."""

    name: str
    mistake: str
    checker: str
    parts: Parts


MUTANTS: Final = {
    mutant.name: mutant
    for mutant in (
        Mutant(
            "dated-from-receipt",
            "validity counts from the answer, not from the send",
            "one-valid-tenure",
            Parts(candidate=breakages.DatedFromReceipt),
        ),
        Mutant(
            "no-drift-margin",
            "the holder believes in the whole ttl, as if its clock were the engine's",
            "one-valid-tenure",
            Parts(candidate=breakages.NoDriftMargin),
        ),
        Mutant(
            "suspend-blind-clock",
            "the clock stands still while the machine sleeps, as CLOCK_MONOTONIC does",
            "one-valid-tenure",
            Parts(clock=breakages.SuspendBlind),
        ),
        Mutant(
            "wall-clock",
            "leases are judged by a clock that can be set",
            "one-valid-tenure",
            Parts(clock=breakages.WallClock),
        ),
        Mutant("no-fence", "the sink takes every write", "fence-holds", Parts(fence=breakages.NoFence)),
        Mutant(
            "fence-not-equal",
            "the sink takes any token that differs from the last as a new leader's",
            "fence-holds",
            Parts(fence=breakages.FenceNotEqual),
        ),
        Mutant(
            "no-seal",
            "the body starts before the sinks know its token",
            "no-write-after-successor",
            Parts(candidate=breakages.NoSeal),
        ),
        Mutant(
            "resumed-tenure",
            "a renewal that is answered after the lapse puts the leader back in office",
            "never-resumed",
            Parts(candidate=breakages.ResumedTenure),
        ),
        Mutant(
            "release-before-end",
            "the office is released when the body is told to stop, not when it has",
            "release-after-body",
            Parts(candidate=breakages.ReleaseBeforeEnd),
        ),
        Mutant(
            "unlock-without-version",
            "a release frees the office whoever holds it",
            "one-valid-tenure",
            Parts(engine=breakages.UnlockWithoutVersion),
        ),
        Mutant(
            "equal-tokens",
            "a holder that claims again gets the token that it had",
            "tokens-rise",
            Parts(engine=breakages.EqualTokens),
        ),
        Mutant(
            "renew-revives",
            "a renewal brings back a lease that had expired",
            "never-resumed",
            Parts(engine=breakages.RenewRevives),
        ),
        Mutant(
            "late-grant-kept",
            "a grant that arrives after the resignation is taken",
            "one-valid-tenure",
            Parts(candidate=breakages.LateGrantKept),
        ),
        Mutant(
            "unknown-is-refused",
            "a claim without an answer counts as refused, so its late grant is handed back from under the second",
            "one-valid-tenure",
            Parts(candidate=breakages.UnknownIsRefused),
        ),
        Mutant(
            "missed-watch-event",
            "the store tells nobody of a lease that expired",
            "no-lost-wake-up",
            Parts(store=breakages.MissedWatchEvent),
        ),
        Mutant(
            "deaf-to-older-watch",
            "a wake-up through any but the latest watch is ignored, though the latest may have been lost",
            "no-lost-wake-up",
            Parts(candidate=breakages.DeafToOlderWatch),
        ),
        Mutant(
            "never-releases",
            "the office is left by letting its lease die",
            "released-promptly",
            Parts(candidate=breakages.NeverReleases),
        ),
        Mutant(
            "never-renews",
            "the office is kept for one lease and no longer",
            "keeps-office",
            Parts(candidate=breakages.NeverRenews),
        ),
        Mutant(
            "never-stops",
            "the body is not told that its time is over",
            "stopped-in-time",
            Parts(candidate=breakages.NeverStops),
        ),
        Mutant(
            "hidden-overstay",
            "a body that overstays is told to nobody",
            "overstay-is-told",
            Parts(candidate=breakages.HiddenOverstay),
        ),
        Mutant(
            "deaf-to-deposal",
            "the store's word that a tenure is over is ignored",
            "deposed-stops",
            Parts(candidate=breakages.DeafToDeposal),
        ),
        Mutant(
            "dated-from-latest",
            "an answer is dated from the latest request, not from its own",
            "belief-within-lease",
            Parts(candidate=breakages.DatedFromLatest),
        ),
        Mutant(
            "early-expiry",
            "the store lets go before the ttl is over",
            "belief-within-lease",
            Parts(engine=breakages.EarlyExpiry),
        ),
        Mutant(
            "grudging-sink",
            "the sink refuses now and then what it should accept",
            "refusals-are-earned",
            Parts(fence=breakages.GrudgingFence),
        ),
        Mutant(
            "no-jitter",
            "candidates that failed together come back together",
            "office-filled",
            Parts(lot=lambda _: 0.5),
        ),
        Mutant(
            "forgetful-worker",
            "a worker forgets the highest token when it restarts",
            "orders-in-order",
            Parts(worker=breakages.ForgetfulWorker),
        ),
        Mutant(
            "cohort-dated-from-answer",
            "those who renew together count from the answer to their round",
            "belief-within-lease",
            Parts(cohort=breakages.CohortDatedFromAnswer),
        ),
        Mutant(
            "cohort-keeps-the-ended",
            "a tenure that the store has named as ended is prolonged with the others of its cohort",
            "belief-within-lease",
            Parts(cohort=breakages.CohortKeepsTheEnded),
        ),
        Mutant(
            "cohort-blind-to-time",
            "a cohort that wakes, or is answered, when its members should have stopped goes on",
            "stopped-in-time",
            Parts(cohort=breakages.CohortBlindToTime),
        ),
    )
}


def find(name: str) -> Mutant:
    """Return the mutant of that name; an unknown one is refused with the list."""
    if name not in MUTANTS:
        raise ConfigError("mutant", name, f"must be one of {', '.join(MUTANTS)}")
    return MUTANTS[name]
