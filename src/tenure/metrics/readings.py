"""What a book shows at one moment: gauges, and the part of a counter that is still growing."""

from collections import Counter
from collections.abc import Iterator

from tenure.facts.subscribing import subscriptions
from tenure.metrics import catalogue as of
from tenure.metrics.book import Book, Labels
from tenure.metrics.catalogue import Metric
from tenure.metrics.elections import EXAMINED_FOR_NS, GONE_AFTER_NS, OTHERS, OneElection, leaders_seen, queue_position

Values = list[tuple[Labels, float]]


def gauges(book: Book, now: int) -> dict[Metric, Values]:
    """Return every gauge as it is now."""
    shown: dict[Metric, Values] = {metric: [] for metric in of.METRICS if metric.kind is of.Kind.GAUGE}
    states: Counter[Labels] = Counter()
    for one in book.elections:
        if one.candidates:
            states[one.shown_at, _state(one, now)] += 1
        if one.shown_as is OTHERS:
            continue
        stood_in, seen = _of_candidates(one, shown, now), _of_the_store(one, shown, now)
        if one.token and (stood_in or seen):
            shown[of.TOKEN].append((one.shown, one.token))
    lost: dict[str, bool] = {}
    for store, since in book.lost_since.items():
        at = book.store_shown(store)
        lost[at] = lost.get(at, False) or since is not None
    shown[of.STORE_LOST] = [((store,), float(is_lost)) for store, is_lost in lost.items()]
    shown[of.ELECTIONS] = [((store, state), states[store, state]) for store in lost for state in _STATES]
    shown[of.FINDINGS] = [
        ((store, subject, level.value), count)
        for store, examination in book.findings.items()
        if now - examination.at_ns <= EXAMINED_FOR_NS
        for (subject, level), count in examination.found.items()
    ]
    shown[of.FOLDED] = [((), book.elections.folded())]
    return shown


_STATES = ("leading", "waiting")


def _state(one: OneElection, now: int) -> str:
    return _STATES[not one.leaders(now)]


def _of_candidates(one: OneElection, shown: dict[Metric, Values], now: int) -> bool:
    if not one.candidates and (one.gone_at is None or now - one.gone_at > GONE_AFTER_NS):
        return False
    labels, leaders = (one.store, one.name), one.leaders(now)
    shown[of.LEADER].append((labels, float(bool(leaders))))
    shown[of.WAITING].append((labels, float(bool(one.candidates) and not leaders)))
    if leaders:
        newest = max(leaders, key=lambda leader: leader.token)
        shown[of.ELECTED_AT].append((labels, newest.elected_at_s))
        if newest.margin_least_ns is not None:
            shown[of.MARGIN_LEAST].append((labels, newest.margin_least_ns / 1e9))
    return True


def _of_the_store(one: OneElection, shown: dict[Metric, Values], now: int) -> bool:
    status = one.seen_lately(now)
    if status is None:
        return False
    labels = one.store, one.name
    shown[of.LEADERS_SEEN].append((labels, leaders_seen(one, status, now)))
    shown[of.STANDBYS].append((labels, len(status.standbys)))
    if (position := queue_position(one, status)) is not None:
        shown[of.QUEUE_POSITION].append((labels, position))
    return True


def growing(book: Book, now: int) -> Iterator[tuple[Metric, Labels, float]]:
    """Return what is to be added to counters for what has begun and not ended: a body that hangs has no end to be counted at."""
    for one in book.elections:
        for leader in one.leaders(now):
            if leader.overdue_since is not None:
                yield of.OVERSTAY, one.shown, max(0, now - leader.overdue_since) / 1e9
    for store, since in book.lost_since.items():
        if since is not None:
            yield of.STORE_LOST_TIME, (book.store_shown(store),), max(0, now - since) / 1e9


def of_subscribers() -> dict[Metric, Values]:
    """Return what subscribers have missed, by their names."""
    dropped: Counter[Labels] = Counter()
    failed: Counter[Labels] = Counter()
    for one in subscriptions():
        dropped[one.name,] += one.dropped
        failed[one.name,] += one.failed
    return {of.DROPPED: list(dropped.items()), of.FAILED: list(failed.items())}
