"""Facts in, numbers out: what each fact counts for. No exporter is known here, and nothing is shown.

A fact may be missed, by a subscriber that was too slow or came too late. So what a later fact says is taken for true, whatever
was believed before: one that waits does not lead, though nobody has heard it leave.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tenure.facts import kinds as what
from tenure.facts.kinds import Fact
from tenure.metrics import catalogue as of
from tenure.metrics.catalogue import Metric
from tenure.metrics.elections import OTHERS, Candidate, Elections, OneElection
from tenure.model import Holder, Incumbent
from tenure.stores.base import ElectionStatus
from tenure.stores.examining import Finding, Level

Labels = tuple[str, ...]

# Stores, sinks and operations come from the program and not from its users; this is for a program that makes them up.
_WORDS_MAX: Final = 100
# A fence may be called what whoever writes to a service likes. This is what the longest of our own has: an identity, and 255 bytes.
# A store may be longer, for who names nine hosts, and is shown all the same: else none of its elections would be.
_FENCE_CHARACTERS_MAX: Final = 600
# Of ten thousand elections nine thousand find no room, and each would look through all of them for one that is over.
_LOOK_EVERY_NS: Final = 10 * 10**9


@dataclass(frozen=True, slots=True)
class Examination:
    """What was found when a store was examined."""

    at_ns: int
    found: Mapping[tuple[str, Level], int]  # by subject


class Recorder(Protocol):
    """Where numbers go. ``labels`` are the values of the metric's labels, in their order."""

    def count(self, metric: Metric, by: float, labels: Labels) -> None:
        """Add to a counter."""
        ...

    def observe(self, metric: Metric, value: float, labels: Labels) -> None:
        """Take a value into a distribution."""
        ...

    def begin(self, store: str) -> None:
        """Show the distributions of a store, though nothing is in them yet."""
        ...

    def forget(self, store: str, election: str) -> None:
        """Count whatever was counted for this election for ``OTHERS`` from now on: its name is shown no more."""
        ...


class Book:
    """What is known from facts. Not safe to use from two threads at a time."""

    def __init__(self, recorder: Recorder, elections_max: int) -> None:
        self._to = recorder
        self._words: dict[str, set[str]] = {}
        self.elections = Elections(elections_max, self.store_shown)
        self.lost_since: dict[str, int | None] = {}  # by store; None: it answers
        self.findings: dict[str, Examination] = {}  # by store
        self._look_again_at = 0

    def hear(self, fact: Fact) -> None:
        """Take note of a fact."""
        heard = _HEARD.get(type(fact.what))
        if heard is not None:
            heard(self, fact, fact.what)

    def saw(self, statuses: Iterable[ElectionStatus], store: str, now: int) -> None:
        """Take note of what a store says of all its elections. What it does not name any more was not seen."""
        known = self.elections.of_store(store)
        for one in known.values():
            one.seen = None
        for status in statuses:
            seen = known.get(status.election)
            if seen is None:
                if status.incumbent is None and not status.standbys:
                    continue  # It was held once. A store may know as many of those as there ever were orders.
                self._make_room(now)
                if not self.elections.has_room():
                    continue  # It would be shown nowhere, and nothing of it is counted.
                seen = self.elections.seen(store, status.election)
            seen.seen, seen.seen_at = status, now
            if status.incumbent is not None:
                seen.token = max(seen.token, status.incumbent.token)

    def examined(self, found: Iterable[Finding], store: str, now: int) -> None:
        """Take note of what an examination of a store has found."""
        counted = Counter((self._word("subject", one.subject), one.level) for one in found)
        self.findings[self.store_shown(store)] = Examination(now, counted)

    # Of a candidate

    def _candidate(self, fact: Fact) -> tuple[OneElection, Candidate]:
        assert fact.holder is not None, fact
        return self._known_as(fact, fact.election, fact.holder)

    def _known_as(self, fact: Fact, election: str, holder: Holder) -> tuple[OneElection, Candidate]:
        if self.elections.get(fact.store, election) is None:
            self._make_room(fact.at_ns)
        one = self.elections.stood_in(fact.store, election)
        one.gone_at = None
        candidate = one.candidates.get(holder)
        if candidate is None:
            self._know(fact.store)
            candidate = one.candidates[holder] = Candidate(holder)
            self._to.count(of.ELECTED, 0, one.shown)  # A rate needs the nought that it began with.
        return one, candidate

    def _make_room(self, now: int) -> None:
        if not self.elections.has_room() and now >= self._look_again_at:
            self._look_again_at = now + _LOOK_EVERY_NS
            for one in self.elections.over(now):
                self.elections.forget(one)
                if one.shown_as is not OTHERS:
                    self._to.forget(*one.shown)

    def _stood(self, fact: Fact, stood: what.Stood) -> None:
        candidate = self._candidate(fact)[1]
        candidate.leads_no_more()
        candidate.asking_since, candidate.ttl_ns = fact.at_ns, stood.ttl_ns

    def _waiting(self, fact: Fact, waiting: what.Waiting) -> None:
        one, candidate = self._candidate(fact)
        candidate.leads_no_more()
        candidate.asking_since = None
        if waiting.incumbent is None:  # Nobody is in office: it is the turn of another.
            return
        self._somebody_leads(fact, candidate, waiting.incumbent)
        one.token = max(one.token, waiting.incumbent.token)

    def _somebody_leads(self, fact: Fact, candidate: Candidate, incumbent: Incumbent) -> None:
        """See whether the time without a leader is over, or there was none: the queue may have moved behind the leader.

        After a tenure of its own nobody can say since when the other leads, so that is no gap that was seen.
        """
        if candidate.free_since is not None and candidate.incumbent not in (None, incumbent.token):
            self._to.observe(of.LEADERLESS, (fact.at_ns - candidate.free_since) / 1e9, (self.store_shown(fact.store),))
        candidate.free_since, candidate.incumbent = None, incumbent.token

    def _woken(self, fact: Fact, _: what.Woken) -> None:
        candidate = self._candidate(fact)[1]
        candidate.leads_no_more()
        candidate.asking_since = fact.at_ns
        if candidate.free_since is None:
            candidate.free_since = fact.at_ns

    def _elected(self, fact: Fact, elected: what.Elected) -> None:
        one, candidate = self._candidate(fact)
        candidate.leads_no_more()
        for metric, since in ((of.ELECTION_TIME, candidate.asking_since), (of.LEADERLESS, candidate.free_since)):
            if since is not None:
                self._to.observe(metric, (fact.at_ns - since) / 1e9, (one.shown_at,))
        candidate.asking_since = candidate.free_since = None
        candidate.elected_at, candidate.elected_at_s, candidate.token = fact.at_ns, fact.at_s, elected.token
        candidate.renewed_at, one.token = fact.at_ns, max(one.token, elected.token)
        self._to.count(of.ELECTED, 1, one.shown)

    def _renewed(self, fact: Fact, renewed: what.Renewed) -> None:
        self._know(fact.store)
        store, margin_ns = (self.store_shown(fact.store),), renewed.margin_ns
        self._to.observe(of.MARGIN, margin_ns / 1e9, store)
        self._to.observe(of.MARGIN_RATIO, margin_ns / renewed.bids[0].ttl_ns, store)
        self._to.observe(of.RENEWAL_TIME, renewed.took_ns / 1e9, store)
        known = self.elections.of_store(fact.store)
        for bid in renewed.bids:  # Ten thousand at a heartbeat: no more than two lookups for each.
            one = known.get(bid.election)
            candidate = one and one.candidates.get(bid.holder)
            if not candidate:  # Nobody has heard it stand: of ten thousand that stand at once, not all are heard.
                candidate = self._known_as(fact, bid.election, bid.holder)[1]
            candidate.renewed_at, candidate.ttl_ns = fact.at_ns, bid.ttl_ns
            if candidate.elected_at is None and not candidate.must_lead(bid, fact.at_ns, fact.at_s):
                continue
            if candidate.margin_least_ns is None or margin_ns < candidate.margin_least_ns:
                candidate.margin_least_ns = margin_ns

    def _overstayed(self, fact: Fact, overstayed: what.Overstayed) -> None:
        one, candidate = self._candidate(fact)
        candidate.overdue_since = fact.at_ns - overstayed.late_by_ns
        self._to.count(of.OVERSTAYS, 1, one.shown)

    def _left(self, fact: Fact, left: what.Left) -> None:
        one, candidate = self._candidate(fact)
        self._to.count(of.ENDED, 1, (*one.shown, left.reason.value))
        if candidate.elected_at is not None:
            self._to.observe(of.IN_OFFICE, (fact.at_ns - candidate.elected_at) / 1e9, (one.shown_at,))
        if candidate.overdue_since is not None:
            self._to.count(of.OVERSTAY, (fact.at_ns - candidate.overdue_since) / 1e9, one.shown)
        candidate.leads_no_more()
        # It may stand again at once, of which nothing tells: then the office is free since, and it asks since, now.
        candidate.asking_since = candidate.free_since = fact.at_ns
        candidate.incumbent = None

    def _withdrew(self, fact: Fact, _: what.Withdrew) -> None:
        one, candidate = self._candidate(fact)
        del one.candidates[candidate.holder]
        if not one.candidates:
            one.gone_at = fact.at_ns
            if one.shown_as is OTHERS:  # Nothing more is to be told of it.
                self.elections.forget(one)

    # Of a store, a sink, the machine

    def store_shown(self, store: str) -> str:
        """Return what a store is shown as."""
        return self._word("store", store)

    def _know(self, store: str) -> None:
        """Begin with a store."""
        if store not in self.lost_since:
            self.lost_since[store] = None
            self._to.count(of.STORE_LOST_TIME, 0, (self.store_shown(store),))
            self._to.begin(self.store_shown(store))

    def _seal_failed(self, fact: Fact, failed: what.SealFailed) -> None:
        if failed.warns:  # Else it is by choice that it does not lead.
            self._to.count(of.SEAL_FAILURES, 1, (self.store_shown(fact.store), self._word("sink", failed.sink)))

    def _store_failed(self, fact: Fact, failed: what.StoreFailed) -> None:
        self._know(fact.store)
        operation = self._word("operation", failed.operation)
        self._to.count(of.STORE_ERRORS, 1, (self.store_shown(fact.store), operation, failed.outcome.value))

    def _store_lost(self, fact: Fact, _: what.StoreLost) -> None:
        self._know(fact.store)
        self.lost_since[fact.store] = fact.at_ns

    def _store_back(self, fact: Fact, back: what.StoreBack) -> None:
        self.lost_since[fact.store] = None
        self._to.count(of.STORE_LOST_TIME, back.gone_for_ns / 1e9, (self.store_shown(fact.store),))

    def _refused_stale(self, _: Fact, refused: what.RefusedStale) -> None:
        self._refused(of.STALE, refused.sink, refused.fence)

    def _refused_unverified(self, _: Fact, refused: what.RefusedUnverified) -> None:
        self._refused(of.UNVERIFIED, refused.sink, refused.fence)

    def _refused(self, metric: Metric, sink: str, fence: str) -> None:
        # JSON can say half of a surrogate pair: with one in a label, no scrape of this process could be sent any more.
        fence = fence.encode("utf-8", "replace").decode()
        shown = OTHERS if len(fence) > _FENCE_CHARACTERS_MAX else self._word("fence", fence)
        self._to.count(metric, 1, (self._word("sink", sink), shown))

    def _suspended(self, _: Fact, suspended: what.Suspended) -> None:
        self._to.count(of.SUSPENDED, suspended.for_ns / 1e9, ())

    def _word(self, label: str, word: str) -> str:
        """Return a label's value, or one for all others if there are too many of them."""
        known = self._words.setdefault(label, set())
        if word not in known:
            if len(known) >= _WORDS_MAX:
                return OTHERS
            known.add(word)
        return word


_HEARD: Final[Mapping[type, Callable[[Book, Fact, Any], None]]] = {
    what.Stood: Book._stood,  # noqa: SLF001
    what.Waiting: Book._waiting,  # noqa: SLF001
    what.Woken: Book._woken,  # noqa: SLF001
    what.Elected: Book._elected,  # noqa: SLF001
    what.Renewed: Book._renewed,  # noqa: SLF001
    what.Overstayed: Book._overstayed,  # noqa: SLF001
    what.Left: Book._left,  # noqa: SLF001
    what.Withdrew: Book._withdrew,  # noqa: SLF001
    what.SealFailed: Book._seal_failed,  # noqa: SLF001
    what.StoreFailed: Book._store_failed,  # noqa: SLF001
    what.StoreLost: Book._store_lost,  # noqa: SLF001
    what.StoreBack: Book._store_back,  # noqa: SLF001
    what.RefusedStale: Book._refused_stale,  # noqa: SLF001
    what.RefusedUnverified: Book._refused_unverified,  # noqa: SLF001
    what.Suspended: Book._suspended,  # noqa: SLF001
}
KINDS: Final = frozenset(_HEARD)
