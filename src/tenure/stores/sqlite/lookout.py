"""Whoever waits is told when claiming may help: one thread per store looks at the file, and only while somebody waits.

Rules of this file
1. A watch is judged by the state of the office, not by what changed: the first look at a new watch reads its row, so
   no wake-up can be lost between the answer and the wait.
2. Nothing is late. A watch ends at the look after its office came free, and at the very end of a lease that is not
   prolonged. It may end early.
3. Waiting is cheap. While nobody writes, a glance at the time of the log's last change is all that is done; asking
   SQLite for the version of the file costs twice as much. A file that others renew in costs one number more, and only
   a change of ``turnover`` makes the rows be read again.
4. The thread owns its state. The event loop sends messages and takes no lock, so a disk that hangs stops no loop.
"""

import os
import queue
import random
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from tenure.clock import Clock
from tenure.errors import Refused, TenureError, Unreachable
from tenure.stores.sqlite.desk import Desk
from tenure.stores.sqlite.engine import Denied, Engine
from tenure.stores.sqlite.faults import fault_of
from tenure.stores.sqlite.file import is_busy, log_of
from tenure.stores.sqlite.reply import Reply, give, give_all
from tenure.stores.sqlite.thread import MessageThread

# How often the log is glanced at. A clean hand-over waits for half of it on average and for all of it at worst. Each
# time costs 60 to 170 µs of a core, nearly all of it for waking up a thread of Python: 0.15 to 0.4 % of one.
GLANCE_EVERY_S = 0.042
_JITTER = 0.2  # Standbys that were started together must not look, and then claim, in step for ever.
# A look that follows no glance. It bounds what a glance may miss: a filesystem whose times are coarse, a commit that
# hung between its last write and its end, a machine that slept through the end of a lease.
_LOOK_ANYWAY_S = 0.5
# After a change this many looks follow, whatever the glances say. A second write may carry the same time as the first
# (kernels count it in ticks of up to 10 ms), and writes come before the end of the commit that they belong to.
_LOOKS_AFTER_CHANGE = 4

Standing = int | TenureError | None  # when the lease ends; that it cannot be known; that the office is free


@dataclass(eq=False, frozen=True, slots=True)
class Watch:
    """One call of ``changed``."""

    election: str
    reply: Reply


_Message: TypeAlias = tuple[bool, Watch]  # whether it begins or ends, and which


class Lookout:
    """The looks themselves, without the thread: one connection, and what it saw last."""

    def __init__(self, desk: Desk, clock: Clock) -> None:
        self.desk = desk
        self.now = clock.now
        self._seen: tuple[int, int] | None = None  # which connection, and the version of the file that it saw
        self._turnover: object = None
        self._log: int | None = None  # a descriptor of our own: SQLite locks other files than the log
        self._log_state = (0, 0)

    def stirred(self) -> bool:
        """Say whether the log may have been written to since the last call."""
        if self._log is None:
            return True
        try:
            found = os.fstat(self._log)
        except OSError:
            return True  # The look that follows will say what is wrong.
        state = (found.st_mtime_ns, found.st_size)
        if state == self._log_state:
            return False
        self._log_state = state
        return True

    def close(self) -> None:
        self.desk.close()
        self._close_log()

    def _close_log(self) -> None:
        log, self._log = self._log, None
        if log is not None:
            with suppress(OSError):
                os.close(log)

    def _open_log(self) -> None:
        """Get hold of the log that this connection reads. While it is open, nobody deletes the log."""
        self._close_log()
        with suppress(OSError):  # Without it, every glance is a look.
            self._log = os.open(log_of(self.desk.path.resolve()), os.O_RDONLY | os.O_CLOEXEC)

    def look(self, due: Mapping[str, int], due_first: int) -> dict[str, Standing]:
        """Return how things stand with those elections that are due, or with all if some may have come free."""
        with self.desk.at_work("changed") as (connection, engine):
            # Read before the rows: what is written in between is seen now, and makes us look once more.
            (version,) = connection.execute("PRAGMA data_version").fetchone()
            seen = (self.desk.opened_count, version)
            turnover = self._turnover if seen == self._seen else engine.turnover()
            if self._seen is None or self._seen[0] != self.desk.opened_count:
                self._open_log()
            now = self.now()
            names: Iterable[str] = ()
            if turnover != self._turnover:
                names = due
            elif due_first <= now:
                names = [name for name, instant in due.items() if instant <= now]
            standing = {name: self._standing(engine, name, now) for name in names}
            self._seen, self._turnover = seen, turnover
            return standing

    def _standing(self, engine: Engine, election: str, now: int) -> Standing:
        try:
            return engine.expires(election, now)
        except Denied as no:
            return Refused(self.desk.address, "changed", str(no))


class LookoutThread(MessageThread[_Message]):
    """The thread that looks while somebody waits, and sleeps without a timer while nobody does."""

    def __init__(self, lookout: Lookout) -> None:
        super().__init__("lookout")
        self._lookout = lookout
        self._watches: dict[str, list[Watch]] = {}
        self._due: dict[str, int] = {}  # when the office of each must be looked at, whatever happens before
        self._due_first = 0
        self._looks_owed = 0
        self._locked_out = False
        self._chance = random.Random()

    def watch(self, watch: Watch) -> None:
        if self._thread.ident is None:
            self._start(self._lookout.desk.address, "changed")
        self._send((True, watch))

    def unwatch(self, watch: Watch) -> None:
        self._send((False, watch))

    def _turn(self) -> None:
        self._stopped = self._listen()
        if self._stopped is None and self._watches:
            self._look()

    def _recover(self, why: str) -> None:
        self._lookout.close()
        # A look changes nothing, so none has an outcome to doubt.
        self._tell_all(Unreachable(self._lookout.desk.address, "changed", why))

    def _close(self) -> None:
        self._lookout.close()
        self._tell_all(self._closed())

    def _turn_away(self, message: _Message) -> None:
        _, watch = message
        give(watch.reply, self._closed())  # Whoever ends a watch has stopped waiting for it.

    def _listen(self) -> Reply | None:
        """Take messages until there is something to look at; return who asked for the end, if somebody did."""
        try:
            message = self._wait()
            while isinstance(message, tuple):
                self._take(*message)
                message = self._messages.get_nowait()
        except queue.Empty:
            return None
        return message

    def _wait(self) -> _Message | Reply:
        """Return the next message. Raises queue.Empty if it is time for a look before there is one."""
        if not self._watches:
            return self._messages.get()
        pause_s = GLANCE_EVERY_S * (1 + _JITTER * self._chance.uniform(-1, 1))
        if self._locked_out:
            return self._messages.get(timeout=pause_s)  # A look is due, but at once it would only spin.
        if self._looks_owed:
            self._looks_owed -= 1
            return self._messages.get(timeout=min(pause_s, self._left_s()))
        for _ in range(int(min(_LOOK_ANYWAY_S, self._left_s()) / pause_s)):
            try:
                return self._messages.get(timeout=pause_s)
            except queue.Empty:
                if self._lookout.stirred():
                    self._looks_owed = _LOOKS_AFTER_CHANGE
                    raise
        return self._messages.get(timeout=min(pause_s, self._left_s()))

    def _left_s(self) -> float:
        """Return how long it is until a look is due, whatever happens before."""
        return max(0.0, (self._due_first - self._lookout.now()) / 1e9)

    def _take(self, begins: bool, watch: Watch) -> None:
        if begins:
            self._watches.setdefault(watch.election, []).append(watch)
            self._due[watch.election] = self._due_first = 0  # Rule 1.
        elif watch in self._watches.get(watch.election, ()):
            self._watches[watch.election].remove(watch)
            if not self._watches[watch.election]:
                del self._watches[watch.election], self._due[watch.election]

    def _look(self) -> None:
        self._locked_out = False
        try:
            standing = self._lookout.look(self._due, self._due_first)
        except sqlite3.Error as error:
            self._locked_out = is_busy(error)
            if not self._locked_out:
                self._lookout.close()
                self._tell_all(fault_of(error, self._lookout.desk.address, "changed"))
            return
        except TenureError as error:
            self._tell_all(error)
            return
        except OSError as error:  # No descriptor is left, say.
            self._tell_all(Unreachable(self._lookout.desk.address, "changed", str(error)))
            return
        told: list[tuple[Reply, object]] = []
        for name, ends in standing.items():
            if isinstance(ends, int):
                self._due[name] = ends
            else:
                told += [(watch.reply, ends) for watch in self._watches.pop(name)]
                del self._due[name]
        give_all(told)
        if standing:
            self._due_first = min(self._due.values(), default=0)

    def _tell_all(self, error: TenureError) -> None:
        give_all((watch.reply, error) for watches in self._watches.values() for watch in watches)
        self._watches.clear()
        self._due.clear()

    def _closed(self) -> TenureError:
        return Unreachable(self._lookout.desk.address, "changed", "the store is closed")
