"""What it costs to be looked at: a scrape of a thousand elections, and a fact with Prometheus listening.

A scrape is what the sidecar answers, ``Prometheus.exposition``, right after a heartbeat has changed the margin of each of them. What
``prometheus_client`` takes to write the same bytes stands beside it, for programs that serve the registry by its own means.
"""

import time
from collections.abc import Callable
from statistics import median

from facts import _each_us
from prometheus_client import generate_latest
from rows import Figures, exactly, told

from tenure.facts import publish, subscribe
from tenure.facts.kinds import Elected, Renewed, Stood, Waiting
from tenure.metrics import Prometheus
from tenure.model import Bid, Holder, Incumbent, Token

_ELECTIONS, _SCRAPES = 1000, 21
_STORE = "etcd://h1.example.org:2379,h2.example.org:2379,h3.example.org:2379"
_TTL_NS = 8 * 10**9
_BIDS = tuple(Bid(f"billing/close-{n}", Holder("host", 1, f"{n:016x}"), 1, _TTL_NS) for n in range(_ELECTIONS))


def _median_ms(work: Callable[[], object], before: Callable[[], object]) -> float:
    taken = []
    for _ in range(_SCRAPES):
        before()
        begun = time.perf_counter()
        work()
        taken.append((time.perf_counter() - begun) * 1e3)
    return median(taken)


def _scrapes() -> Figures:
    metrics = Prometheus()
    with subscribe(metrics) as listening:
        for number, bid in enumerate(_BIDS, 1):
            publish(Stood(_TTL_NS), _STORE, bid.election, bid.holder)
            publish(Elected(Token(number), 0), _STORE, bid.election, bid.holder)

        def heartbeat() -> None:
            publish(Renewed(_BIDS, 6 * 10**9, 10**6), _STORE)
            assert listening.wait_until_told(10)

        heartbeat()
        body = metrics.exposition()[0]
        led = body.count(b"\ntenure_leader{")
        yield exactly("a scrape: elections that are led in it", led, _ELECTIONS)
        yield (
            "a scrape of 1,000 elections that are led, median",
            _median_ms(metrics.exposition, heartbeat),
            50.0,
            "ms",
            False,
        )
        by_client = _median_ms(lambda: generate_latest(metrics.registry), heartbeat)
        yield told("the same bytes by prometheus_client itself", by_client, "ms")
        assert generate_latest(metrics.registry) == metrics.exposition()[0]
    assert not listening.dropped + listening.failed


def _heard() -> Figures:
    metrics = Prometheus()
    with subscribe(metrics) as listening:
        yield "a fact with Prometheus listening, for who publishes it", _each_us(), 5.0, "us", False
    assert not listening.dropped + listening.failed
    waited = Waiting(Incumbent("jobs", _BIDS[0].holder, Token(1)))
    with subscribe(metrics, queue_max=100_000) as listening:
        begun = time.perf_counter()
        for bid in _BIDS * 10:
            publish(waited, _STORE, bid.election, bid.holder)
        assert listening.wait_until_told(60)
        each_us = (time.perf_counter() - begun) / len(_BIDS) / 10 * 1e6
    yield told("a fact told and taken note of, one after the other", each_us, "us")


def figures() -> Figures:
    """The rows for run.py."""
    yield from _scrapes()
    yield from _heard()
