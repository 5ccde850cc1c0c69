"""The log: a subscriber like any other, which writes to the logger ``tenure`` by Python's own ``logging``.

What its level hides is not even published to it, so that a quiet log costs nothing.
"""

import logging
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final

from tenure.facts import kinds as what
from tenure.facts.kinds import Fact, as_json
from tenure.facts.subscribing import subscribe

_LOG: Final = logging.getLogger("tenure")
# An outage is one line in this time, however many elections meet it and however often they ask again.
_SAY_AGAIN_NS: Final = 10 * 10**9

_LEVELS: Final[Mapping[type, int]] = {
    what.Stood: logging.DEBUG,
    what.Waiting: logging.DEBUG,
    what.Woken: logging.DEBUG,
    what.Sealed: logging.DEBUG,
    what.Renewed: logging.DEBUG,
    what.Withdrew: logging.DEBUG,
    what.Elected: logging.INFO,
    what.Ending: logging.INFO,
    what.Left: logging.INFO,
    what.StoreLost: logging.INFO,  # of which StoreFailed warns
    what.StoreBack: logging.INFO,
    what.RefusedStale: logging.INFO,  # for it is raised as well, to whom it concerns
    what.RefusedUnverified: logging.INFO,
    what.SealFailed: logging.WARNING,
    what.Overstayed: logging.WARNING,
    what.StoreFailed: logging.WARNING,
    what.Suspended: logging.WARNING,
}


class _Shown:
    """The kinds of fact that the log's level shows at this moment."""

    def __contains__(self, kind: object) -> bool:
        if not isinstance(kind, type):
            return False
        # Not by isEnabledFor: that waits for whoever configures logging, which may take as long as a file or a name server does.
        level = _LEVELS[kind]
        return level >= _LOG.getEffectiveLevel() and level > _LOG.manager.disable and not _LOG.disabled


class Log:
    """Writes facts, with all that they say as fields of the record (``record.fact``)."""

    def __init__(self) -> None:
        self._said_at: dict[tuple[type, str], int] = {}  # by store: a process has a few

    def __call__(self, fact: Fact) -> None:
        if isinstance(fact.what, what.StoreFailed) and not self._may_say(fact):
            return
        level = _LEVELS[type(fact.what)]
        if isinstance(fact.what, what.SealFailed) and not fact.what.warns:
            level = logging.INFO
        _LOG.log(level, "%s", worded(fact), extra={"fact": as_json(fact)})

    def _may_say(self, fact: Fact) -> bool:
        key = type(fact.what), fact.store
        if fact.at_ns < self._said_at.get(key, fact.at_ns - _SAY_AGAIN_NS) + _SAY_AGAIN_NS:
            return False
        self._said_at[key] = fact.at_ns
        return True


def worded(fact: Fact) -> str:
    """Return a fact as a line for people."""
    # An outage is the store's, whichever election has met it first.
    election = "" if isinstance(fact.what, what.StoreFailed) else fact.election
    return ": ".join(chain([election] if election else [], _sentence(fact)))


def _sentence(fact: Fact) -> Iterator[str]:  # noqa: C901, PLR0912  (one line per kind)
    match fact.what:
        case what.Stood(ttl_ns):
            yield f"stands: with a lease of {ttl_ns / 1e9:g} s"
        case what.Waiting(None):
            yield "waits: for its turn in the queue"
        case what.Waiting(incumbent):
            yield f"waits: {incumbent.holder} is in office with token {incumbent.token}" if incumbent else "waits"
        case what.Woken():
            yield "woken: claiming may help now"
        case what.Sealed(token, sinks, took_ns):
            yield f"sealed: {sinks} sinks with token {token} in {took_ns / 1e9:.3f} s"
        case what.SealFailed(token, sink, detail, True):
            yield f"sealing {sink} with token {token} failed: {detail}"
        case what.SealFailed(token, _, detail):
            yield f"token {token} is given back: {detail}"
        case what.Elected(token):
            yield f"elected: tenure {token} begins"
        case what.Renewed(bids, margin_ns, took_ns):
            yield f"renewed: {len(bids)} with {margin_ns / 1e9:.3f} s left, in {took_ns / 1e9:.3f} s"
        case what.Ending(token, reason):
            yield f"ending: the body of tenure {token} is told to stop: {reason.value}"
        case what.Left(token, reason):
            yield f"left: tenure {token} is over: {reason.value}"
        case what.Withdrew():
            yield "withdrew: stands no longer"
        case what.Overstayed(token, late_by_ns):
            yield f"overstay: the body of tenure {token} still runs {late_by_ns / 1e9:.3f} s after its validity ended"
        case what.StoreFailed(operation, outcome, detail):
            yield f"{fact.store}: {operation} {_OUTCOMES[outcome]}{detail and ': '}{detail}; trying again"
        case what.StoreLost(detail):
            yield f"{fact.store} is lost: {detail}"
        case what.StoreBack(gone_for_ns):
            yield f"{fact.store} is back after {gone_for_ns / 1e9:.3f} s"
        case what.RefusedStale(sink, token, highest, fence):
            yield f"{sink} refused token {token}{_of(fence)} as stale: the highest seen is {highest}"
        case what.RefusedUnverified(sink, token, highest, fence):
            yield f"{sink} refused token {token}{_of(fence)}, which nobody confirmed: the highest seen is {highest}"
        case what.Suspended(for_ns):
            yield f"the machine slept for {for_ns / 1e9:.1f} s"


def _of(fence: str) -> str:
    """Name a fence, in one line: who presents a token to a service may call it what they like."""
    return f" of {fence if fence.isprintable() else ascii(fence)}" if fence else ""


_OUTCOMES: Final = {
    what.Outcome.UNREACHABLE: "was not sent",
    what.Outcome.REFUSED: "was refused",
    what.Outcome.UNKNOWN: "has no known outcome",
}

LOG: Final = subscribe(Log(), kinds=_Shown())
