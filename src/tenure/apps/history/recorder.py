"""Keeps the history of the elections of this process: hears facts, and writes records of them on a thread of its own.

Rules of this file
1. Nothing here is waited for by an election. What is heard is folded on the subscription's thread, and written by the recorder's,
   over connections of its own: over the elections' own a renewal would wait behind it.
2. A store that is gone, slow or refuses costs records, which are counted and told, and nothing else: no error gets out of here,
   whatever it is. Somebody else may have written the store, and nobody would notice that this thread has ended.
3. A write is made because a tenure began or ended, and ever more seldom while it lasts; never because of each renewal.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Container, Iterable
from concurrent.futures import CancelledError
from functools import partial
from typing import Final, Self

import anyio

from tenure.apps.history.backlog import Backlog, Pace
from tenure.apps.history.notes import KINDS, Notes
from tenure.apps.history.places import Place, place_of
from tenure.apps.history.records import Record
from tenure.clients.upkeep import failure_of
from tenure.clock import BootClock
from tenure.errors import ConfigError, Contended, Refused, StoreError, redact
from tenure.facts import Subscription, subscribe
from tenure.facts.kinds import Fact
from tenure.office.opened import OpenStore
from tenure.office.thread import Office
from tenure.stores.base import CanKeepDocuments, Store

_LOG: Final = logging.getLogger("tenure.history")
# Ten thousand elections that are taken over at once are five facts each.
_QUEUE_MAX: Final = 100_000
_IDLE_S: Final = 30.0  # After this long without a write the connections are closed.
CLOSE_WITHIN_S: Final = 2.0  # What leaving may wait for the last records.
_RETRY_CLOSING_S: Final = 0.1


def keep(store: OpenStore | Store, *, elections: Container[str] | None = None) -> "Recorder":
    """Return a recorder of all tenures of this process on ``store``, or of these ``elections``: use it as a block.

    Promises that no election waits for it and that none fails by it. Does not promise that everything is recorded: what
    a killed process had not written yet is lost, and its successor's record tells that it vanished.
    """
    return Recorder(store, elections)


class Recorder:
    """What ``keep`` returns: ``with keep(store)`` or ``async with keep(store)``, around the elections."""

    def __init__(self, store: OpenStore | Store, elections: Container[str] | None) -> None:
        self._given, self._elections = store, elections
        self._office = store.office if isinstance(store, OpenStore) else Office.of_this_process()
        self._backlog, self._pace = Backlog(), Pace()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._subscription: Subscription | None = None
        self._close_by_s: float | None = None
        self._said: set[type[Exception]] = set()
        self._is_over = False
        self._under_way_count = 0  # records of the write that is being made
        self._clock = BootClock()  # as facts are dated by
        self._looked_ns = self._missed_count = 0
        self.written_count = 0  # writes that were made

    @property
    def dropped_count(self) -> int:
        """How many records, and facts for them, were lost here because there was no time or place for them."""
        return self._backlog.dropped_count + self._missed()

    def __enter__(self) -> Self:
        if self._subscription is not None:
            raise ConfigError("history", "a recorder", "is used once: call keep() anew")
        engine = self._given.store if isinstance(self._given, OpenStore) else self._given
        self._pid, self._engine = os.getpid(), engine
        self._notes = Notes(engine.address, self._elections, engine.identity)
        self._looked_ns = self._clock.now()
        self._subscription = subscribe(self._hear, kinds=KINDS, queue_max=_QUEUE_MAX)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self.close)

    def close(self, within_s: float = CLOSE_WITHIN_S) -> None:
        """Hear no more, and wait at most this long until what was heard is written. Harmless a second time."""
        subscription = self._subscription
        if subscription is None or self._pid != os.getpid() or self._close_by_s is not None:
            return
        close_by_s = time.monotonic() + within_s
        subscription.wait_until_told(within_s)
        subscription.close()
        with self._changed:
            self._close_by_s = close_by_s
            self._put(self._notes.unwritten())
            thread = self._thread
            self._changed.notify_all()
        if thread is not None:
            thread.join(max(0.0, close_by_s - time.monotonic()))
        with self._changed:
            self._is_over = True  # What becomes of a write that is still under way nobody wants to know any more.
            left_count = self._backlog.count + self._under_way_count
            self._backlog.drop_all()
            self._backlog.dropped_count += self._under_way_count
        if left_count:
            _LOG.warning("history: %d records were not written in time, and are lost", left_count)

    # On the subscription's thread

    def _hear(self, fact: Fact) -> None:
        if self._pid != os.getpid():  # The child of a fork has no office of its parent's; it keeps its history anew.
            return
        with self._changed:
            self._look_what_was_missed()
            if self._put(self._notes.hear(fact)):
                if self._thread is None:
                    self._start()
                self._changed.notify_all()

    def _look_what_was_missed(self) -> None:
        """Note from when to when facts were lost. Not before which of them: what is heard now was published before those in the queue."""
        looked_ns, missed = self._clock.now(), self._missed()
        if missed != self._missed_count:
            self._notes.missed(self._looked_ns, self._clock.now())
        self._looked_ns, self._missed_count = looked_ns, missed

    def _missed(self) -> int:
        return 0 if self._subscription is None else self._subscription.dropped

    def _put(self, records: Iterable[tuple[str, Record]]) -> bool:
        """Have records written. False: there were none."""
        any_were = False
        for election, record in records:
            if self._is_over:  # It was told so late that nobody writes it any more.
                self._backlog.drop(election, [record])
                continue
            self._backlog.put(election, record)
            any_were = True
        return any_were

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._write_all, name="tenure-history", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # The interpreter is leaving, and starts no thread any more.
            self._thread = None

    # On the recorder's own thread

    def _write_all(self) -> None:
        place = _Place(self._office, self._given, self._engine)
        try:
            while (todo := self._next(place)) is not None and self._write(place, *todo):
                pass
        finally:
            place.leave()

    def _next(self, place: "_Place") -> tuple[str, list[Record]] | None:
        """Wait until there is something to write, and time for it. None: there is nothing more, or no time."""
        while True:
            with self._changed:
                now_s = time.monotonic()
                if self._close_by_s is not None:
                    return self._taken(now_s, in_turn=False) if now_s < self._close_by_s else None
                wait_s = self._backlog.wait_s(now_s)
                if wait_s is not None:
                    wait_s = max(wait_s, self._pace.wait_s(now_s))
                    if wait_s <= 0:
                        return self._taken(now_s, in_turn=True)
                idle_s = place.idle_at_s - now_s if place.is_open else None
                if idle_s is None or idle_s > 0:
                    self._changed.wait(min((one for one in (wait_s, idle_s) if one is not None), default=None))
                    continue
            place.leave()  # Not with the lock: it may take its time.

    def _taken(self, now_s: float, *, in_turn: bool) -> tuple[str, list[Record]] | None:
        todo = self._backlog.take(now_s, in_turn=in_turn)
        self._under_way_count = 0 if todo is None else len(todo[1])
        return todo

    def _write(self, place: "_Place", election: str, records: list[Record]) -> bool:
        """Write them now, or later if that fails. False: nothing will be written any more, because the interpreter is leaving."""
        error = _failure_of(partial(place.add, election, records))
        if error is not None and self._has_nowhere_to_ask():
            return False
        with self._changed:
            self._under_way_count = 0
            now_s = time.monotonic()
            if self._is_over:  # It was counted as lost, and may be there all the same.
                self.written_count += error is None
                self._backlog.dropped_count -= len(records) if error is None else 0
            elif error is None:
                self.written_count += 1
                self._pace.answered(now_s)
                self._backlog.wrote(election, records)
            else:
                self._fail(election, records, error, now_s)
        if not isinstance(error, CancelledError):  # By an office that closes; else the next try says it.
            _failure_of(partial(self._say, error))  # A handler of the log may raise what it likes, too.
        return True

    def _fail(self, election: str, records: list[Record], error: Exception, now_s: float) -> None:
        if isinstance(error, ConfigError) or (isinstance(error, Refused) and self._close_by_s is not None):
            self._pace.answered(now_s)
            self._backlog.drop(election, records)  # It will not do next time either, or not soon.
            return
        if self._close_by_s is not None and now_s >= self._close_by_s:
            self._backlog.drop(election, records)
            return
        if isinstance(error, Refused):
            self._pace.answered(now_s)
            self._backlog.refused(election, records, now_s)
        elif isinstance(error, Contended):  # Others wrote there at the same time, which says nothing of the next.
            self._pace.answered(now_s)
            self._backlog.put_back(election, records)
        else:
            self._pace.failed(now_s)
            self._backlog.put_back(election, records)
        if self._close_by_s is not None:
            self._changed.wait(_RETRY_CLOSING_S)

    def _has_nowhere_to_ask(self) -> bool:
        try:
            self._office.check_open()
        except ConfigError:
            return True
        return False

    def _say(self, error: Exception | None) -> None:
        """Say that something is not recorded, and why; or that it is again. Once for each outage, and for all that is refused."""
        if self._is_over or (error is None and self._close_by_s is not None):
            return
        if error is not None:
            if type(error) not in self._said:
                self._said.add(type(error))
                is_ours = isinstance(error, StoreError | ConfigError)  # The others do not say what they are.
                _LOG.warning("history is not recorded: %s", redact(str(error) if is_ours else repr(error)))
            return
        # What others wrote does not fit again because this does, nor may one write all because of this.
        are_refused = self._backlog.has_refused
        stays = (ConfigError, Refused) if are_refused else (ConfigError,)
        over = {kind for kind in self._said if not issubclass(kind, stays)}
        self._said -= over
        if over:
            _LOG.info("history is recorded again%s", ", but for what is refused" if are_refused else "")


class _Place:
    """The place of the records, opened when there is something to write. Used by one thread."""

    def __init__(self, office: Office, given: OpenStore | Store, engine: Store) -> None:
        self._office, self._given, self._engine = office, given, engine
        self._own: OpenStore | None = None
        self._place: Place | None = None
        self.idle_at_s = 0.0

    @property
    def is_open(self) -> bool:
        return self._own is not None

    def add(self, election: str, records: list[Record]) -> None:
        if self._place is None:
            try:
                self._place = self._open()
            finally:
                if self._place is None:
                    self.leave()
        self.idle_at_s = time.monotonic() + _IDLE_S
        self._place.add(election, records)

    def leave(self) -> None:
        own, self._own, self._place = self._own, None, None
        if own is not None:
            _failure_of(partial(own.__exit__, None, None, None))  # It is of no more use, whatever it says.

    def _open(self) -> Place:
        if not isinstance(self._given, OpenStore) or not isinstance(self._engine, CanKeepDocuments):
            return place_of(self._office, self._engine)  # A file needs no connection.
        own = self._own = self._given.another()
        own.__enter__()
        if own.store.identity == self._engine.identity:
            return place_of(self._office, own.store)
        self.leave()  # What lives in the memory of this process is not found a second time.
        return place_of(self._office, self._given.store)


def _failure_of(call: Callable[[], object]) -> Exception | None:
    """Return what a call raised, whatever that is; None: nothing. For a thread what ``failure_of`` is for a task."""

    async def called() -> None:
        call()

    try:
        failure_of(called()).send(None)  # It awaits nothing that would take time, so it ends here.
    except StopIteration as ended:
        failure: Exception | None = ended.value
        return failure
    raise AssertionError("what awaits nothing has ended")
