"""Whatever a subscriber, its errors, its wishes or a handler of the log do: who publishes goes on, and the next fact is heard."""

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from tenure.errors import ConfigError
from tenure.facts import publish, subscribe
from tenure.facts.kinds import Elected, Fact, StoreLost
from tenure.facts.log import LOG
from tenure.model import Token

PATIENCE_S = 20.0


@pytest.fixture
def loud() -> Iterator[None]:
    """A log that hides nothing, and is what it was afterwards."""
    log = logging.getLogger("tenure")
    level = log.level
    log.setLevel(logging.DEBUG)
    yield
    log.setLevel(level)


class Unspeakable(Exception):
    """Cannot be shown."""

    def __repr__(self) -> str:
        raise ZeroDivisionError


def test_one_that_raises_what_cannot_be_shown_is_told_the_next(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Fact] = []

    def fail(fact: Fact) -> None:
        heard.append(fact)
        raise Unspeakable

    with caplog.at_level(logging.WARNING), subscribe(fail) as subscription:
        publish(StoreLost("one"))
        publish(StoreLost("two"))
        assert subscription.wait_until_told(PATIENCE_S)
    assert len(heard) == subscription.failed == 2
    assert "failed with the fact 'store-lost': Unspeakable" in caplog.text


class Choking(logging.Handler):
    """Raises where ``logging`` catches nothing, the first few times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.left, self.lines = times, list[str]()

    def filter(self, _: logging.LogRecord) -> bool:
        self.left -= 1
        if self.left >= 0:
            raise KeyError("a field that is not there")
        return True

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.mark.usefixtures("loud")
def test_a_handler_that_raises_does_not_end_the_log() -> None:
    log, choking = logging.getLogger("tenure"), Choking(times=2)  # with the line itself, and with the complaint of it
    log.addHandler(choking)
    try:
        for number in range(1, 4):
            publish(Elected(Token(number), 0), election="jobs")
        assert LOG.wait_until_told(PATIENCE_S)
    finally:
        log.removeHandler(choking)
    assert choking.lines[-1] == "jobs: elected: tenure 3 begins"


def test_publishing_does_not_wait_for_whoever_configures_the_log() -> None:
    held, done = threading.Event(), threading.Event()

    def configure() -> None:
        with logging._lock:  # type: ignore[attr-defined]
            logging.getLogger("tenure").setLevel(logging.NOTSET)  # which forgets what every logger knew of its level
            held.set()
            done.wait(PATIENCE_S)

    def tell() -> None:
        publish(Elected(Token(1), 0))
        was_told.set()

    was_told = threading.Event()
    threads = [threading.Thread(target=configure), threading.Thread(target=tell)]
    threads[0].start()
    assert held.wait(PATIENCE_S)
    threads[1].start()
    try:
        assert was_told.wait(PATIENCE_S / 2)
    finally:
        done.set()
        for thread in threads:
            thread.join()


class Capricious:
    """Knows what it wants to hear of for as long as nobody asks again."""

    def __init__(self) -> None:
        self.asked = 0

    def __contains__(self, _: object) -> bool:
        self.asked += 1
        if self.asked > 1:
            raise ZeroDivisionError
        return True


def test_one_that_cannot_say_what_it_wants_breaks_nobody_who_publishes() -> None:
    heard: list[Fact] = []
    with subscribe(print, kinds=Capricious()) as capricious, subscribe(heard.append) as other:
        publish(StoreLost("x"))
        assert other.wait_until_told(PATIENCE_S)
        assert (len(heard), capricious.failed) == (1, 1)


def test_kinds_are_several_and_may_be_counted_out() -> None:
    with pytest.raises(ConfigError, match="must be several classes"):
        subscribe(print, kinds=Elected)  # type: ignore[arg-type]
    heard: list[Fact] = []
    with subscribe(heard.append, kinds=iter((Elected, StoreLost))) as subscription:  # type: ignore[arg-type]
        for _ in range(3):
            publish(StoreLost("x"))
        assert subscription.wait_until_told(PATIENCE_S)
    assert len(heard) == 3


def test_one_that_was_closed_before_anything_happened_has_been_told_everything() -> None:
    subscription = subscribe(print, kinds=())
    subscription.close()
    assert subscription.wait_until_told(0)


# A profile is called as a signal handler or a finalizer is: in the middle of something else, on the same thread.
INTERRUPTED = """
import sys
from tenure.facts import publish, subscribe
from tenure.facts.kinds import StoreLost
heard = []
subscription = subscribe(lambda fact: heard.append(fact.what.detail))
def interrupt(frame, *_):
    if frame.f_code.co_qualname == "Thread.__init__":
        sys.setprofile(None)
        publish(StoreLost("in between"))
sys.setprofile(interrupt)
publish(StoreLost("first"))
assert subscription.wait_until_told(20)
assert heard == ["first", "in between"], heard
"""


def test_a_fact_may_be_published_in_the_middle_of_publishing_the_first() -> None:
    assert subprocess.run([sys.executable, "-c", INTERRUPTED], check=False, timeout=60).returncode == 0
