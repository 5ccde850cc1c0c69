"""The one background thread of a process, with an event loop of its own.

Every store connection, renewal and watch lives here, so that a user's blocked event loop or busy thread cannot starve a
renewal (rule 9). Bodies never run here.

A fork copies the memory of a process and none of its threads: a child that went on with the parent's office would wait
for a thread that does not exist, under a name that is not its own. So an office belongs to one process, by pid.
"""

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tenure.clock import BootClock
from tenure.errors import ConfigError
from tenure.facts import publish
from tenure.facts.kinds import Suspended
from tenure.office.absences import Absences
from tenure.office.rounds import Rounds
from tenure.office.timetable import Timetable

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")

# How often to look whether the machine has slept: event loops sleep on a clock that a suspend stops, so after one their
# timers are late by its whole length. Four looks a second cost 0.02 % of a core.
_SUSPEND_CHECK_S = 0.25
_SUSPEND_NOTICED_NS = 100_000_000
# How long leaving the interpreter may wait for releases: an engine that is gone must not keep a process from ending.
_CLOSE_WITHIN_S = 5.0
# And then for the tasks that are left to end once they are cancelled, which closes what they have open.
_END_WITHIN_S = 1.0


class Kept(Protocol):
    """A seat, as the office keeps it."""

    @property
    def store(self) -> object:
        """What it is held in."""
        ...

    async def close(self) -> None:
        """The interpreter leaves: give back what is held, within a bound."""
        ...

    async def evict(self) -> None:
        """The store is about to be closed: end the body and give back what is held, within a bound."""
        ...

    def forget(self) -> None:
        """This is the child of a fork: hold nothing."""
        ...


class Office:
    """The event loop and what runs on it. Get it by ``Office.of_this_process()``."""

    _lock = threading.Lock()
    _current: "Office | None" = None

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.clock = BootClock()
        self.loop = asyncio.new_event_loop()
        self._seats: set[Kept] = set()  # who stands or leads
        self._closers: dict[object, Callable[[], Coroutine[Any, Any, None]]] = {}
        self._leaving = False
        self.timetable = Timetable(self.loop, self.clock)
        self.absences = Absences(self.clock)
        self.rounds = Rounds(self.loop, self.clock, self.timetable, self.absences.heard)
        self._thread = threading.Thread(target=self._run, name="tenure-office", daemon=True)
        self._thread.start()

    @classmethod
    def of_this_process(cls) -> "Office":
        """Return this process's office, opening it if there is none: after a fork, the child's own."""
        with cls._lock:
            if cls._current is None or cls._current.pid != os.getpid():
                cls._current = cls()
                atexit.register(cls._current.close)
            return cls._current

    def check_process(self, what: str) -> None:
        """Refuse ``what`` if it was made before a fork that this process is the child of."""
        if self.pid != os.getpid():
            raise ConfigError(what, f"made in process {self.pid}", "is not this process's: make it anew after the fork")

    def is_here(self) -> bool:
        """Say whether this is the office's own thread: one that waits there for the office waits for ever."""
        return threading.current_thread() is self._thread

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> "Future[T]":
        """Run a coroutine on the office's loop."""
        try:
            self.check_open()
        except ConfigError:
            coroutine.close()
            raise
        # In an empty context: the caller's would come along, and with it, for one, the word that this thread runs trio.
        return Context().run(asyncio.run_coroutine_threadsafe, coroutine, self.loop)

    def call(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call a function on the office's loop, soon."""
        self.check_open()
        with suppress(RuntimeError):  # closed at this very moment: the interpreter is leaving
            self.loop.call_soon_threadsafe(function, *arguments, context=Context())

    def check_open(self) -> None:
        """Refuse whoever would wait for ever: for a thread that this process does not have, or that has ended."""
        self.check_process("office")
        if self.loop.is_closed():
            raise ConfigError("office", "closed", "has ended with the interpreter: nothing can be stood for any more")

    def keep(self, seat: Kept, *, kept: bool) -> None:
        """Have a seat leave when the interpreter does, or its store is closed; or no longer. Call it on the office's loop."""
        (self._seats.add if kept else self._seats.discard)(seat)

    def on_close(self, key: object, close: Callable[[], Coroutine[Any, Any, None]] | None) -> None:
        """Have ``close`` awaited when the interpreter leaves; None: no longer. Call it on the office's loop."""
        if close is None:
            self._closers.pop(key, None)
        else:
            self._closers[key] = close

    async def vacate(self, store: object) -> None:
        """Have everybody leave who stands or leads on ``store``, before it is closed."""
        await _all(seat.evict() for seat in tuple(self._seats) if seat.store is store)

    def close(self) -> None:
        """Leave no lease behind: release whatever is held, within a bound, and end the thread."""
        if self.pid != os.getpid() or self.loop.is_closed():
            return
        with suppress(Exception):
            self.submit(self._close_all()).result(_CLOSE_WITHIN_S)
        self._leaving = True
        self.call(self.loop.stop)
        self._thread.join(_CLOSE_WITHIN_S)

    async def _close_all(self) -> None:
        # Who holds something comes first, and then what it is held in: through a closed store nothing is given back.
        await _all(seat.close() for seat in tuple(self._seats))
        await _all(close() for close in tuple(self._closers.values()))

    def forget_after_fork(self) -> None:
        """In the child of a fork: nothing that the parent holds is held here."""
        for seat in self._seats:
            seat.forget()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        # Kept here: a loop by itself keeps no task from being collected.
        self._watch = self.loop.create_task(self._watch_for_suspend())
        while not self._leaving:
            try:
                self.loop.run_forever()
            except SystemExit as error:  # A store has said so; this thread is not theirs to end.
                self.loop.call_exception_handler({"message": "exit from the office is refused", "exception": error})
        # What still runs, such as an open that a silent server keeps waiting, would be told of as destroyed while pending.
        left = asyncio.all_tasks(self.loop)
        self.rounds.give_up()
        for task in left:
            task.cancel()
        if left:  # The watch for suspends, if nothing else; but one that has ended leaves nobody, and that is an error to wait for.
            self.loop.run_until_complete(asyncio.wait(left, timeout=_END_WITHIN_S))
        self.loop.close()

    async def _watch_for_suspend(self) -> None:
        loop = self.loop
        ahead = self.clock.now() - int(loop.time() * 1e9)
        while True:
            await asyncio.sleep(_SUSPEND_CHECK_S)
            ahead_now = self.clock.now() - int(loop.time() * 1e9)
            if ahead_now - ahead > _SUSPEND_NOTICED_NS:
                publish(Suspended(ahead_now - ahead))
                loop.call_soon(self.timetable.ring)  # Not here: an alarm that raises would end the watch, unheard.
            ahead = ahead_now


async def _all(calls: Iterable[Coroutine[Any, Any, None]]) -> None:
    await asyncio.gather(*calls, return_exceptions=True)


def _after_fork_in_child() -> None:
    office = Office._current  # noqa: SLF001
    # Another thread of the parent may have held the lock, and there is nobody here to give it back.
    Office._lock, Office._current = threading.Lock(), None  # noqa: SLF001
    if office is not None:
        office.forget_after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)
