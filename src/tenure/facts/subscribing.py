"""Who hears of facts. Each subscriber has a queue and a thread of its own, so none delays a renewal, nor another one.

Publishing costs a place in a queue, whatever becomes of the fact. A subscriber that is slower than what happens loses
the newest facts beyond its queue, and they are counted; one that raises has failed with this fact and is told the next.

A fork copies the queues and none of the threads: a child has the same subscribers, who hear of what happens in it.
"""

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from queue import SimpleQueue
from typing import Final, Self

from tenure.clock import BootClock
from tenure.errors import ConfigError, redact
from tenure.facts.kinds import Fact, Stood, What
from tenure.model import Holder

Subscriber = Callable[[Fact], object]

QUEUE_MAX: Final = 10_000
# How long leaving the interpreter waits for facts to be heard: the last lines of a log are the ones that are looked for.
_DRAIN_WITHIN_S: Final = 1.0
_LOG: Final = logging.getLogger("tenure.facts")


class Subscription:
    """One subscriber and what it has not heard yet. Close it, or use it as a block, to hear no more."""

    def __init__(self, subscriber: Subscriber, kinds: Container[type] | None, queue_max: int) -> None:
        self._subscriber, self.kinds, self._queue_max = subscriber, kinds, queue_max
        self.dropped = 0  # facts that it was too slow for
        self.failed = 0  # facts with which it raised
        self._said = self._closed = False
        self.forget_after_fork()

    def __repr__(self) -> str:
        return f"<Subscription of {self._subscriber!r}: {self.dropped} dropped, {self.failed} failed>"

    @property
    def name(self) -> str:
        """Whose it is, for people: the name of its function or class."""
        return str(getattr(self._subscriber, "__qualname__", type(self._subscriber).__name__))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def put(self, fact: Fact) -> None:
        """Have it told, soon. Called by any thread; never waits."""
        if self._waiting() >= self._queue_max:
            self.dropped += 1
            return
        self._take(fact)
        if self._thread is None:
            self._start()

    def wait_until_told(self, within_s: float) -> bool:
        """Wait until it was told everything that was published before; False: not within that time."""
        if self._thread is threading.current_thread():
            raise ConfigError("wait_until_told", "a subscriber", "must not wait for what only it itself can hear")
        if self._thread is None:
            return self._queue.qsize() <= self._closed  # the word that it is closed
        if self._closed:
            self._thread.join(within_s)
            return not self._thread.is_alive()
        told = threading.Event()
        self._queue.put(told)
        return told.wait(within_s)

    def close(self) -> None:
        """Hear no more, but of what was published before. Harmless a second time."""
        if not self._closed:
            _leave(self, is_told=self._thread is None)
            self._closed = True
            self._queue.put(None)

    def forget_after_fork(self) -> None:
        """In the child of a fork: nothing is under way here. Also how it begins."""
        self._queue: SimpleQueue[Fact | threading.Event | None] = SimpleQueue()
        self._waiting, self._take = self._queue.qsize, self._queue.put  # Looked up for every fact otherwise.
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def _start(self) -> None:
        # Not waited for: who has it may be this very thread, interrupted by a signal or a finalizer that publishes something.
        if not self._starting.acquire(blocking=False):
            return
        try:
            if self._thread is None:
                self._thread = threading.Thread(target=self._tell, name="tenure-facts", daemon=True)
                self._thread.start()
        except RuntimeError:  # The interpreter is leaving, and starts no thread any more.
            self._thread = None
        finally:
            self._starting.release()

    def _tell(self) -> None:
        queue = self._queue
        # Another one is that of a child, which the subscriber has made itself: there it is told by another thread.
        while queue is self._queue and (told := queue.get()) is not None:
            if isinstance(told, threading.Event):
                told.set()
                continue
            try:
                self._subscriber(told)
            except BaseException as error:  # noqa: BLE001  (whatever it is, it is not this thread's to end by)
                with suppress(BaseException):  # Nor is what a handler of the log raises.
                    self._fail(told, error)
        _LEAVING.discard(self)

    def _fail(self, fact: Fact, error: BaseException) -> None:
        self.failed += 1
        if not self._said:  # Once: one that fails with every fact would fill the log.
            self._said = True
            _LOG.warning("subscriber %s failed with the fact %r: %s", self.name, fact.name, redact(_shown(error)))


def _shown(error: BaseException) -> str:
    try:
        return repr(error)
    except Exception:  # noqa: BLE001  (it is the subscriber's own, and may be unable to say what it is)
        return type(error).__name__


_LISTENING: Final[dict[Subscription, None]] = {}  # In the order in which they came.
_LEAVING: Final[set[Subscription]] = set()  # Closed, and not told yet of all that was before.
# A finalizer may close one at any moment, also while this thread subscribes another.
_CHANGING: Final = threading.RLock()
_everybody: tuple[Subscription, ...] = ()
_clock: Final = BootClock()


def subscribe(
    subscriber: Subscriber, *, kinds: Container[type] | None = None, queue_max: int = QUEUE_MAX
) -> Subscription:
    """Have ``subscriber`` called with every fact of this process from now on, in their order, on a thread of its own.

    ``kinds`` are the classes of ``tenure.facts.kinds`` that it wants to hear of; None: all.

    It may be slow, block, raise, and call back into elections. What it does not promise: that a fact is heard before a process
    is killed, or that one is heard at all if ``queue_max`` others wait; ``Subscription.dropped`` counts those.
    """
    if not callable(subscriber):
        raise ConfigError("subscriber", type(subscriber).__name__, "must be callable with a fact")
    if queue_max < 1:
        raise ConfigError("queue_max", queue_max, "must be at least 1")
    global _everybody  # noqa: PLW0603  (read without a lock by every publisher, so replaced as a whole)
    one = Subscription(subscriber, _checked(kinds), queue_max)
    with _CHANGING:
        _LISTENING[one] = None
        _everybody = tuple(_LISTENING)
    return one


def _checked(kinds: Container[type] | None) -> Container[type] | None:
    if isinstance(kinds, Iterator):
        return frozenset(kinds)  # It could be asked once.
    try:
        _ = kinds is None or Stood in kinds
    except TypeError:
        raise ConfigError("kinds", kinds, "must be several classes of tenure.facts.kinds: (Elected, Left)") from None
    return kinds


def _leave(one: Subscription, *, is_told: bool) -> None:
    global _everybody  # noqa: PLW0603
    with _CHANGING:
        _LISTENING.pop(one, None)
        _everybody = tuple(_LISTENING)
        if not is_told:
            _LEAVING.add(one)


def publish(what: What, store: str = "", election: str = "", holder: Holder | None = None) -> None:
    """Tell every subscriber, soon. Called by any thread; never waits, and never raises for what a subscriber does."""
    fact: Fact | None = None
    for one in _everybody:
        try:
            if one.kinds is not None and type(what) not in one.kinds:
                continue
        except Exception:  # noqa: BLE001  (what it wants to hear of is said by code of its own)
            one.failed += 1  # And nobody is told: this is the thread that renews.
            continue
        if fact is None:
            fact = Fact(what, _clock.now(), time.time(), store, election, holder)
        one.put(fact)


def subscriptions() -> tuple[Subscription, ...]:
    """Return everybody who listens, with what each has missed."""
    return _everybody


@atexit.register  # Before any office is, so that it is called after all of them: what they say in leaving is heard.
def _drain() -> None:
    until = time.monotonic() + _DRAIN_WITHIN_S
    for one in (*_LEAVING, *_everybody):
        one.wait_until_told(max(0.0, until - time.monotonic()))


def _after_fork_in_child() -> None:
    global _CHANGING  # noqa: PLW0603
    _CHANGING = threading.RLock()  # type: ignore[misc]  # Another thread of the parent may have held it.
    _LEAVING.clear()
    for one in _everybody:
        one.forget_after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)
