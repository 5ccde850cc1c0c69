"""Facts reach whoever listens, in their order, and nobody who listens can hold up who tells."""

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import fields

import pytest

import tenure
from tenure.errors import ConfigError, OutcomeUnknown, Reason, Refused, Unreachable
from tenure.facts import kinds, publish, subscribe
from tenure.facts.kinds import Elected, Fact, Left, StoreLost, as_json
from tenure.facts.log import LOG, worded
from tenure.facts.subscribing import subscriptions
from tenure.model import Bid, Holder, Incumbent, Token

PATIENCE_S = 20.0
ADA = Holder("ada", 7, "aa")
ONE_OF_EACH: tuple[kinds.What, ...] = (
    kinds.Stood(8 * 10**9),
    kinds.Waiting(Incumbent("jobs", ADA, Token(7), "http://ada")),
    kinds.Waiting(None),
    kinds.Woken(),
    kinds.Sealed(Token(7), 2, 10**6),
    kinds.SealFailed(Token(7), "SQLiteSink", "disk full", True),
    kinds.SealFailed(Token(7), "Eligibility", "too far behind", False),
    kinds.Elected(Token(7), 123),
    kinds.Renewed((Bid("jobs", ADA, 1, 10**9), Bid("more", ADA, 2, 10**9)), 5 * 10**9, 2 * 10**6),
    kinds.Ending(Token(7), Reason.LAPSED),
    kinds.Overstayed(Token(7), 125 * 10**7),
    kinds.Left(Token(7), Reason.RESIGNED),
    kinds.Withdrew(),
    kinds.StoreFailed("renew", kinds.Outcome.UNKNOWN, "no answer in time"),
    kinds.StoreLost("no answer in time"),
    kinds.StoreBack(3 * 10**9),
    kinds.RefusedStale("SQLiteSink", 6, 7),
    kinds.RefusedUnverified("SQLiteSink", 9, 7),
    kinds.Suspended(45 * 10**9),
)


def told(what: kinds.What) -> Fact:
    return Fact(what, 1, 1_700_000_000.25, "etcd://h1", "jobs", ADA)


@pytest.fixture
def quiet() -> Iterator[None]:
    """A log that hides nothing, and is what it was afterwards."""
    log = logging.getLogger("tenure")
    level = log.level
    log.setLevel(logging.DEBUG)
    yield
    log.setLevel(level)


def test_facts_are_heard_in_their_order_with_whose_they_are() -> None:
    heard: list[Fact] = []
    with subscribe(heard.append) as subscription:
        for number in range(1, 101):
            publish(Elected(Token(number), 0), store="memory://", election="jobs", holder=ADA)
        assert subscription.wait_until_told(PATIENCE_S)
    assert [fact.what for fact in heard] == [Elected(Token(number), 0) for number in range(1, 101)]
    assert {(fact.store, fact.election, fact.holder) for fact in heard} == {("memory://", "jobs", ADA)}
    assert [fact.at_ns for fact in heard] == sorted(fact.at_ns for fact in heard)


def test_only_the_kinds_that_were_asked_for_are_heard_and_nothing_after_closing() -> None:
    heard: list[Fact] = []
    subscription = tenure.subscribe(heard.append, kinds=(Left,))
    publish(Elected(Token(1), 0))
    publish(Left(Token(1), Reason.RESIGNED))
    assert subscription.wait_until_told(PATIENCE_S)
    subscription.close()
    subscription.close()
    publish(Left(Token(2), Reason.RESIGNED))
    assert subscription.wait_until_told(PATIENCE_S)
    assert [fact.what for fact in heard] == [Left(Token(1), Reason.RESIGNED)]
    assert subscription not in subscriptions()


def test_one_that_blocks_delays_nobody_and_what_it_misses_is_counted() -> None:
    may_go_on, heard = threading.Event(), list[Fact]()
    blocked = threading.Event()

    def block(_: Fact) -> None:
        blocked.set()
        may_go_on.wait(PATIENCE_S)

    with subscribe(block, queue_max=10) as slow, subscribe(heard.append) as other:
        publish(StoreLost("first"))
        assert blocked.wait(PATIENCE_S)
        for _ in range(25):
            publish(StoreLost("later"))
        assert other.wait_until_told(PATIENCE_S), "it hears while the other one blocks"
        assert len(heard) == 26
        assert slow.dropped == 15
        assert "15 dropped" in repr(slow)
        may_go_on.set()
        assert slow.wait_until_told(PATIENCE_S)


@pytest.mark.parametrize("error", [ValueError("password=hunter2"), SystemExit(3), KeyboardInterrupt()])
def test_one_that_raises_is_told_the_next_and_complained_of_once(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[Fact] = []

    def fail(fact: Fact) -> None:
        heard.append(fact)
        raise error

    with caplog.at_level(logging.WARNING), subscribe(fail) as subscription:
        publish(StoreLost("one"))
        publish(StoreLost("two"))
        assert subscription.wait_until_told(PATIENCE_S)
    assert len(heard) == subscription.failed == 2
    assert len([record for record in caplog.records if "failed with the fact 'store-lost'" in record.message]) == 1
    assert "hunter2" not in caplog.text


def test_nobody_waits_for_itself() -> None:
    raised: list[ConfigError] = []

    def wait(_: Fact) -> None:
        try:
            subscription.wait_until_told(PATIENCE_S)
        except ConfigError as error:
            raised.append(error)

    with subscribe(wait) as subscription:
        publish(StoreLost("x"))
        assert subscription.wait_until_told(PATIENCE_S)
    assert len(raised) == 1


def test_what_cannot_listen_is_refused() -> None:
    with pytest.raises(ConfigError, match="must be callable"):
        subscribe("no function")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="queue_max = 0: must be at least 1"):
        subscribe(print, queue_max=0)


@pytest.mark.parametrize("what", ONE_OF_EACH, ids=lambda what: type(what).__name__)
def test_every_kind_has_a_line_and_is_json(what: kinds.What) -> None:
    fact = told(what)
    line, shown = worded(fact), as_json(fact)
    assert "\n" not in line
    assert line.startswith("etcd://h1: " if isinstance(what, kinds.StoreFailed) else "jobs: ")
    assert shown["fact"] == fact.name
    assert shown["at"] == "2023-11-14T22:13:20.250+00:00"
    assert json.loads(json.dumps(shown)) == shown
    assert not any(key.endswith("_ns") for key in shown)
    assert "valid_until" not in shown  # It is a number of this process's own clock.


@pytest.mark.parametrize("what", ONE_OF_EACH, ids=lambda what: type(what).__name__)
def test_nobody_who_hears_of_a_fact_can_change_it_for_the_next(what: kinds.What) -> None:
    fact = told(what)
    for of, name in [(fact, "what"), (fact, "election"), *((what, one.name) for one in fields(what))]:
        with pytest.raises(AttributeError):
            setattr(of, name, "another")
    with pytest.raises((AttributeError, TypeError)):
        setattr(what, "more", 1)  # noqa: B010  (a name that it does not have)


def test_every_kind_is_among_them() -> None:
    assert {type(what) for what in ONE_OF_EACH} == set(kinds.KINDS)
    assert sorted(kinds.NAMES.values())[:3] == ["elected", "ending", "left"]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(Unreachable("x", "y"), "unreachable"), (Refused("x", "y"), "refused"), (OutcomeUnknown("x", "y"), "unknown")],
)
def test_what_is_known_of_a_failure(error: tenure.StoreError, outcome: str) -> None:
    assert kinds.outcome_of(error) == outcome


@pytest.mark.usefixtures("quiet")
def test_the_log_says_an_outage_once_and_everything_else_each_time(caplog: pytest.LogCaptureFixture) -> None:
    failure = kinds.StoreFailed("renew", kinds.Outcome.UNKNOWN, "no answer in time")
    with caplog.at_level(logging.DEBUG, "tenure"):
        for _ in range(3):
            publish(failure, store="etcd://said-once")
            publish(Elected(Token(7), 0), election="jobs")
        assert LOG.wait_until_told(PATIENCE_S)
    lines = [record.message for record in caplog.records]
    assert lines.count("etcd://said-once: renew has no known outcome: no answer in time; trying again") == 1
    assert lines.count("jobs: elected: tenure 7 begins") == 3
    assert {"fact": "elected", "election": "jobs", "token": 7}.items() <= vars(caplog.records[-1])["fact"].items()


def test_a_log_that_hides_a_kind_is_not_told_of_it() -> None:
    log = logging.getLogger("tenure")
    level = log.level
    try:
        log.setLevel(logging.ERROR)
        assert Elected not in (LOG.kinds or ())
        log.setLevel(logging.INFO)
        assert Elected in (LOG.kinds or ())
        assert kinds.Renewed not in (LOG.kinds or ())
    finally:
        log.setLevel(level)


FORKED = """
import os, sys
from tenure.facts import publish, subscribe
from tenure.facts.kinds import StoreLost
heard = []
subscription = subscribe(lambda fact: heard.append(fact.what.detail))
publish(StoreLost("before"))
assert subscription.wait_until_told(20)
child = os.fork()
if child == 0:
    publish(StoreLost("in the child"))
    assert subscription.wait_until_told(20)
    os._exit(0 if heard == ["before", "in the child"] else 1)
publish(StoreLost("in the parent"))
assert subscription.wait_until_told(20)
assert heard == ["before", "in the parent"], heard
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

LEAVING = """
import time
from tenure.facts import publish, subscribe
from tenure.facts.kinds import StoreLost
def hear(fact):
    time.sleep(0.1)
    print(fact.what.detail, flush=True)
subscription = subscribe(hear)
for number in range(3):
    publish(StoreLost(str(number)))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_the_child_of_a_fork_hears_of_its_own_facts() -> None:
    assert subprocess.run([sys.executable, "-c", FORKED], check=False, timeout=60).returncode == 0


@pytest.mark.parametrize("last", ["", "subscription.close()"])
def test_the_last_facts_are_heard_before_the_interpreter_leaves(last: str) -> None:
    left = subprocess.run(
        [sys.executable, "-c", LEAVING + last], check=True, timeout=60, capture_output=True, text=True
    )
    assert left.stdout.split() == ["0", "1", "2"]
