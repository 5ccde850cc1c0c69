"""Subscribers of every bad kind, beside a leader that renews: it goes on, others hear everything, and what was missed is counted."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable

import anyio
import pytest

import tenure
from tenure.errors import Reason
from tenure.facts import publish, subscribe
from tenure.facts.kinds import Elected, Fact, Left, Renewed, StoreLost
from tenure.facts.subscribing import subscriptions
from tests.history.making import until

PATIENCE_S = 30.0
TTL_S = 1.0
OF_OFFICE = (Elected, Renewed, Left)


class Bad:
    """A subscriber that misbehaves with its first fact, and is blocked until it is let go if that is how it does."""

    def __init__(self) -> None:
        self.reached, self.let_go = threading.Event(), threading.Event()
        self.subscription: tenure.facts.Subscription | None = None
        self.told = 0

    def blocks(self, _: Fact) -> None:
        self.told += 1
        self.reached.set()
        assert self.let_go.wait(PATIENCE_S)

    def raises(self, _: Fact) -> None:
        self.reached.set()
        raise ValueError("no")

    def exits(self, _: Fact) -> None:
        self.reached.set()
        raise SystemExit(3)

    def is_interrupted(self, _: Fact) -> None:
        self.reached.set()
        raise KeyboardInterrupt

    def closes_itself(self, _: Fact) -> None:
        assert self.subscription is not None
        self.told += 1
        self.subscription.close()
        self.reached.set()

    def subscribes_another(self, _: Fact) -> None:
        with subscribe(lambda _: None):
            self.reached.set()

    def calls_back(self, fact: Fact) -> None:
        if fact.election != "called back":
            with tenure.sync.Lock(tenure.MemoryStore(), "called back", ttl=TTL_S):
                self.reached.set()


BAD: list[Callable[[Bad], Callable[[Fact], None]]] = [
    lambda one: one.blocks,
    lambda one: one.raises,
    lambda one: one.exits,
    lambda one: one.is_interrupted,
    lambda one: one.closes_itself,
    lambda one: one.subscribes_another,
    lambda one: one.calls_back,
]
NAMES = ["blocks", "raises", "exits", "is interrupted", "closes itself", "subscribes another", "calls back"]


@pytest.mark.parametrize("how", BAD, ids=NAMES)
def test_renewals_go_on_in_time_whatever_a_subscriber_does(how: Callable[[Bad], Callable[[Fact], None]]) -> None:
    bad, heard = Bad(), list[Fact]()
    election = tenure.Election(tenure.MemoryStore(), "beside", ttl=TTL_S)

    def seen_enough() -> bool:
        return bad.reached.is_set() and sum(isinstance(fact.what, Renewed) for fact in heard) > 10

    before = len(subscriptions())
    with subscribe(heard.append, kinds=OF_OFFICE) as other:
        bad.subscription = subscribe(how(bad), kinds=OF_OFFICE)
        try:
            anyio.run(election.lead, until(seen_enough))
            assert other.wait_until_told(PATIENCE_S)
        finally:
            bad.let_go.set()
            bad.subscription.close()
    own = [fact.what for fact in heard if fact.election in {"beside", ""}]
    assert [what.reason for what in own if isinstance(what, Left)] == [Reason.RESIGNED]
    assert all(what.margin_ns > 0 for what in own if isinstance(what, Renewed))
    assert not other.dropped + other.failed
    assert len(subscriptions()) == before


def test_what_a_blocked_one_missed_of_a_tenure_is_counted_to_the_last_fact() -> None:
    bad, heard = Bad(), list[Fact]()
    election = tenure.Election(tenure.MemoryStore(), "counted", ttl=TTL_S)

    def seen_enough() -> bool:
        return bad.reached.is_set() and len(heard) > 10

    with (
        subscribe(heard.append, kinds=OF_OFFICE) as other,
        subscribe(bad.blocks, kinds=OF_OFFICE, queue_max=3) as slow,
    ):
        anyio.run(election.lead, until(seen_enough))
        assert other.wait_until_told(PATIENCE_S)
        assert slow.dropped == len(heard) - 1 - 3  # One is being told, three wait.
        bad.let_go.set()
        assert slow.wait_until_told(PATIENCE_S)
    assert bad.told + slow.dropped == len(heard)


def test_drops_are_counted_exactly_however_many_threads_publish() -> None:
    bad = Bad()

    def tell() -> None:
        for _ in range(2000):
            publish(StoreLost("x"))

    with subscribe(bad.blocks, kinds=(StoreLost,), queue_max=10) as slow:
        threads = [threading.Thread(target=tell) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        bad.let_go.set()
        assert slow.wait_until_told(PATIENCE_S)
    assert bad.told + slow.dropped == 8 * 2000


FORKS = """
import os, threading
from tenure.facts import publish, subscribe
from tenure.facts.kinds import StoreLost
children, heard = [], []
def fork(fact):
    heard.append(fact.what.detail)
    child = os.fork() if fact.what.detail == "fork" else None
    if child:
        children.append(child)
with subscribe(fork) as subscription:
    publish(StoreLost("fork"))
    publish(StoreLost("next"))
    assert subscription.wait_until_told(20)
    assert heard == ["fork", "next"], heard
os.waitpid(children[0], 0)  # The child's only thread has nothing more to do, and ends.
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_one_that_forks_leaves_no_child_behind_that_waits_for_ever() -> None:
    ran = subprocess.run([sys.executable, "-c", FORKS], check=False, timeout=60, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


# The one clock runs on while a machine sleeps, the other stands. Nothing of ours is replaced: the clock is moved below it.
SLEPT = """
import time
import anyio
real, ahead = time.clock_gettime_ns, 0
time.clock_gettime_ns = lambda clock: real(clock) + (ahead if clock == time.CLOCK_BOOTTIME else 0)
import tenure
from tenure.facts.kinds import Left, Suspended
heard = []
async def body(term):
    global ahead
    if ahead:
        with anyio.fail_after(20):
            while not any(isinstance(fact.what, Suspended) for fact in heard):
                await anyio.sleep(0.01)
        return
    ahead += 40 * 10**9
    await anyio.sleep_forever()
with tenure.subscribe(heard.append, kinds=(Suspended, Left)) as subscription:
    anyio.run(tenure.Election(tenure.MemoryStore(), "slept", ttl=4).lead, body)
    assert subscription.wait_until_told(20)
slept = [fact.what.for_ns for fact in heard if isinstance(fact.what, Suspended)]
assert len(slept) == 1 and 39.99e9 < slept[0] < 41e9, slept  # The two clocks are not read at the very same instant.
assert [fact.what.reason.value for fact in heard if isinstance(fact.what, Left)] == ["lapsed", "resigned"], heard
"""


@pytest.mark.skipif(sys.platform != "linux", reason="moves CLOCK_BOOTTIME")
def test_a_machine_that_slept_is_told_with_how_long_and_who_led_has_lapsed() -> None:
    ran = subprocess.run([sys.executable, "-c", SLEPT], check=False, timeout=60, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
