"""The machine itself, in office over virtual time, with a process that stands still and answers that are late."""

import heapq
import random
from collections.abc import Callable, Iterable
from itertools import count

from tenure.core import effects as do
from tenure.core import events as on
from tenure.core.candidate import Candidate
from tenure.model import Bid, Grant, Holder, token
from tenure.timing import Timing

ADA = Holder("ada", 1, "0" * 16)


class Leader:
    """One candidate whose store grants everything, a trip after it was asked, and whose driver may stand still.

    ``trip_ns`` says how long what is sent at an instant takes; None: it is never answered. Claims as well: a store that cannot be reached and grants an office all the same would let one
    outage cost two of them.

    A driver that stands still steps nobody. When it goes on, what has come meanwhile is stepped in the order in which it came, at the
    instant at which it goes on: as an event loop does with its sockets and timers.
    """

    def __init__(self, timing: Timing, trip_ns: Callable[[int], int | None], lots: random.Random) -> None:
        self.timing, self._trip_ns, self._lots = timing, trip_ns, lots
        self._numbers, self._tokens = count(), count(1)
        self.now = timing.renew_every_ns * 1000
        self.lost_at: list[int] = []  # when the body was told to stop
        self.sent_at = 0  # when the last request was sent
        self._candidate = Candidate(Bid("jobs", ADA, 0, timing.ttl_ns), timing)
        self._heap: list[tuple[int, int, on.Event]] = []
        self._step(on.Stand())

    def run(self, until: int, pauses: Iterable[tuple[int, int]] = ()) -> None:
        """Go on until an instant, but stand still from the begin to the end of each of ``pauses``, which do not overlap."""
        coming = iter(pauses)
        begins, ends = next(coming, (until, until))
        while True:
            wake_at = self._candidate.wake_at
            due = min(self._heap[0][0] if self._heap else until, until if wake_at is None else wake_at)
            while due >= ends and ends < until:
                begins, ends = next(coming, (until, until))
            at = ends if begins <= due < ends else due
            if at >= until:
                self.now = until
                return
            self.now = max(self.now, at)
            if self._heap and self._heap[0][0] <= due:
                self._step(heapq.heappop(self._heap)[2])
            else:
                self._step(on.Tick())

    def _step(self, event: on.Event) -> None:
        for effect in self._candidate.step(event, self.now, self._lots.random()):
            match effect:
                case do.Claim(attempt, bid):
                    self._ask(on.Granted(attempt, Grant(bid, token(next(self._tokens)))))
                case do.Renew(attempt, grant):
                    self.sent_at = self.now
                    self._ask(on.Granted(attempt, grant))
                case do.Seal(_, sealed):
                    self._answer(on.Sealed(sealed), 0)
                case do.StopBody(ended, _):
                    self.lost_at.append(self.now)
                    self._answer(on.BodyEnded(ended), 0)
                case _:
                    pass

    def _ask(self, answer: on.Event) -> None:
        trip_ns = self._trip_ns(self.now)
        if trip_ns is not None:
            self._answer(answer, trip_ns)

    def _answer(self, event: on.Event, after_ns: int) -> None:
        heapq.heappush(self._heap, (self.now + after_ns, next(self._numbers), event))
