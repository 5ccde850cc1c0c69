"""What a fact costs whoever publishes it: the office's thread, on which every renewal waits for it to be done.

Subscribers run on threads of their own, and in Python those share the interpreter; so they are given what they cost a real
program too, a subscriber that turns each fact into JSON, while the publisher is measured. Blocks of facts are published with a pause
after each in which the subscriber catches up, since no process has facts without a pause.
"""

import json
import time
from statistics import median

from rows import Figures

from tenure.facts import publish, subscribe
from tenure.facts.kinds import Elected, Fact, as_json
from tenure.facts.subscribing import subscriptions
from tenure.model import Holder, Token

_BLOCKS, _BLOCK = 200, 20
_ADA = Holder("host", 1, "0123456789abcdef")


def _block_ns() -> float:
    begun = time.perf_counter_ns()
    for number in range(1, _BLOCK + 1):
        publish(Elected(Token(number), 0), "memory://", "jobs", _ADA)
    return (time.perf_counter_ns() - begun) / _BLOCK


def _each_us() -> float:
    taken = []
    for _ in range(_BLOCKS):
        taken.append(_block_ns() / 1e3)
        assert all(one.wait_until_told(10) for one in subscriptions())
    return median(taken)


def figures() -> Figures:
    """The rows for run.py."""
    yield "a fact that nobody wants: the log's level hides it", _each_us(), 5.0, "us", False
    heard = 0

    def hear(fact: Fact) -> None:
        nonlocal heard
        heard += bool(json.dumps(as_json(fact)))

    with subscribe(hear) as one:
        yield "a fact with one subscriber, who makes JSON of it", _each_us(), 5.0, "us", False
        with subscribe(hear) as two, subscribe(hear) as three:
            yield "a fact with three of them", _each_us(), 5.0, "us", False
    assert heard == _BLOCKS * _BLOCK * 4
    assert not one.dropped + two.dropped + three.dropped
