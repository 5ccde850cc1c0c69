"""What is still to be written, and when the next of it may be. Pure: the time is given.

Records of one election go together, and what is said of one tenure twice before it is written is written once. So a backlog
has at most one write for each election, however long the store was away.

Who was written down as being in office says at once how that ended, and its election pays for it with its next beginning: else
whoever reads would take it for one that vanished, for as long as its word waits.

What is never written, the next record of its election tells of (``Dropped``): else whoever reads would take that time for one
in which nobody led.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from tenure.apps.history.records import TENURES_MAX, Dropped, Record, covering, either, join
from tenure.apps.history.turns import Backoff, Turns

RECORDS_MAX: Final = 10_000  # about 10 MB
# A process that takes ten thousand offices over at once writes for some minutes, and an engine does not notice it. A few are
# written at once, so that who reads the history of one election finds it complete.
_WRITES_PER_S, _BURST_MAX = 20.0, 20.0
# An election that changes hands every second writes 15 KiB each time. An etcd that nobody compacts keeps them all, and at 2 GB
# takes no more writes: so a history may not grow by more than 20 MB a day, whatever happens. What waits is written together.
_WRITES_PER_S_EACH, _BURST_MAX_EACH = 1 / 60, 10.0
_BUCKETS_MAX: Final = 1000
# Elections of which it is known what they have lost, and that were not written since.
_DROPPED_MAX: Final = 2 * RECORDS_MAX
_BACKOFF_MAX_S: Final = 30.0

Key = tuple[int, str]  # of a tenure


class _Bucket:
    """Room for so many writes at once, and for so many a second after that."""

    def __init__(self, burst_max: float, per_s: float, now_s: float) -> None:
        self._burst_max, self._per_s = burst_max, per_s
        self._room, self._counted_s = burst_max, now_s

    def room(self, now_s: float) -> float:
        return min(self._burst_max, self._room + (now_s - self._counted_s) * self._per_s)

    def wait_s(self, now_s: float) -> float:
        """Return for how long to wait before a write."""
        return max(0.0, (1 - self.room(now_s)) / self._per_s)

    def spend(self, now_s: float) -> None:
        # One is owed at most: an end that is tried all night, while the store is away, would silence its election for the day.
        self._room, self._counted_s = max(self.room(now_s) - 1, -1.0), now_s

    def is_full(self, now_s: float) -> bool:
        return self.room(now_s) >= self._burst_max


class Backlog:
    """Records to be written, by election, the oldest first."""

    def __init__(self) -> None:
        self._records: dict[str, dict[Key, Record]] = {}
        self._buckets: dict[str, _Bucket] = {}  # of elections that were written lately
        self._open: dict[str, set[Key]] = {}  # which tenures were last written as ones that last
        self._under_way: dict[str, set[Key]] = {}  # and which are being written so
        self._urgent: set[str] = set()  # elections in which one of those has ended
        self._turns = Turns()
        self._dropped: dict[str, Dropped] = {}  # what was lost, and not said yet
        self.count = 0
        self.dropped_count = 0

    @property
    def has_refused(self) -> bool:
        """Whether anything waits because the store will not have it."""
        return self._turns.has_refused

    def put(self, election: str, record: Record) -> None:
        """Have a record written.

        Of an election that has more than a log takes the oldest are left out; if there are too many in all, one election loses those
        that it has. But an end that is awaited goes last: of a beginning that is missing nobody is misled.
        """
        kept = self._records.setdefault(election, {})
        if record.key in kept:
            kept[record.key] = join(kept[record.key], record)
        else:
            kept[record.key] = record
            self.count += 1
        self._turns.add(election)
        self._look_whether_urgent(election)
        if len(kept) > TENURES_MAX:
            # Else a lock that is taken five hundred times a second fills all of this within its minute. Nobody would have found them.
            self._leave_out(election, [min(kept.keys() - self._awaited(election), default=min(kept))])
        if self.count > RECORDS_MAX:
            self._make_room()

    def wait_s(self, now_s: float) -> float | None:
        """Return for how long to wait until one of them may be written; None: there is none."""
        least_s = self._turns.held_wait_s(now_s)
        for election in self._turns.free:
            wait_s = self._wait_s(election, now_s)
            if wait_s <= 0:
                return 0.0
            least_s = wait_s if least_s is None else min(least_s, wait_s)
        return least_s

    def take(self, now_s: float, *, in_turn: bool = True) -> tuple[str, list[Record]] | None:
        """Take out what is to be written next; not ``in_turn``: also if its election was written often enough lately.

        Say what became of it before you take more: ``wrote``, ``put_back``, ``refused`` or ``drop``.
        """
        ready = (one for one in self._turns.free if not in_turn or self._wait_s(one, now_s) <= 0)
        election = next(ready, self._turns.first_held(now_s, in_turn=in_turn))
        if election is None:
            return None
        kept = self._records.pop(election)
        self._turns.take(election)
        if in_turn and election in self._urgent and self._bucket(election, now_s).wait_s(now_s) > 0:
            # Only ends are on account. A beginning that went with one would have its own end written at once as well, and so on.
            later = {key: record for key, record in kept.items() if record.ended_s is None}
            if later:
                self._records[election] = later
                self._turns.add(election)
                kept = {key: record for key, record in kept.items() if key not in later}
        self._urgent.discard(election)
        self._under_way = {election: {key for key, record in kept.items() if record.ended_s is None}}
        self.count -= len(kept)
        self._bucket(election, now_s).spend(now_s)
        self._say_what_was_dropped(election, kept)
        return election, list(kept.values())

    def wrote(self, election: str, records: Sequence[Record]) -> None:
        """Hear that these are there now."""
        self._under_way.clear()
        for record in records:
            if record.ended_s is None:
                lasting = self._open.setdefault(election, set())
                lasting.add(record.key)
                if len(lasting) > TENURES_MAX:
                    # One that is no longer in the log misleads nobody, if its end never comes.
                    lasting.remove(min(lasting))
            else:
                self._await_no_more(election, record.key)
        self._turns.wrote(election)
        self._look_whether_urgent(election)  # It may have ended while that was written.

    def put_back(self, election: str, records: Sequence[Record]) -> None:
        """Have it written later: it has failed, and others may not."""
        self._under_way.clear()
        for record in records:
            self.put(election, record)
        if election in self._records:  # else they were too many
            self._turns.go_last(election)

    def refused(self, election: str, records: Sequence[Record], now_s: float) -> None:
        """Have it written later: the store answers, and will not have this."""
        self.put_back(election, records)
        if election in self._records:
            self._turns.was_refused(election, now_s)

    def drop(self, election: str, records: Sequence[Record]) -> None:
        """Count what will not be written, and have the next that is say so."""
        self._under_way.clear()
        self.dropped_count += len(records)
        self._note(election, records)
        if election not in self._records:
            self._turns.forget(election)

    def drop_all(self) -> None:
        """Count everything as lost."""
        for election, kept in list(self._records.items()):
            self._lose(election, tuple(kept))

    def _make_room(self) -> None:
        """Have one election lose what it has beside an end that is awaited; else who waits for longest loses all of it."""
        last = ""
        for last in self._turns.losers():
            kept = self._records[last]
            # Whom the store refuses is not spared: else they would keep everybody else out, for as long as it does.
            if last not in self._urgent or self._turns.is_refused(last):
                return self._lose(last, tuple(kept))
            if len(kept) > 1 and (lost := kept.keys() - self._awaited(last)):
                return self._lose(last, lost)
        return self._lose(
            last, tuple(self._records[last])
        )  # Of those that go first, the latest stands before all others.

    def _lose(self, election: str, keys: Collection[Key]) -> None:
        self.dropped_count += len(keys)
        self._leave_out(election, keys)

    def _leave_out(self, election: str, keys: Collection[Key]) -> None:
        kept = self._records[election]
        out = [kept.pop(key) for key in keys]
        self.count -= len(out)
        if not kept:
            del self._records[election]
            self._turns.forget(election)
        self._note(election, out)

    def _note(self, election: str, records: Sequence[Record]) -> None:
        """Take note of what nobody will ever write."""
        for record in records:
            # Who has not ended is heard of again, at its end at the latest: nothing is missing but for as long as it leads.
            lost = None if record.ended_s is None else Dropped(record.token, record.token)
            for known in (record.dropped, self._dropped.get(election)):
                lost = either(covering, lost, known)
            if lost is not None:
                self._dropped[election] = lost
            if record.ended_s is not None:
                self._await_no_more(election, record.key)
        if len(self._dropped) > _DROPPED_MAX:
            del self._dropped[next(iter(self._dropped))]
        self._look_whether_urgent(election)

    def _say_what_was_dropped(self, election: str, kept: dict[Key, Record]) -> None:
        """Have the latest of these say what its election has lost since one said so, for as long as the log has it."""
        dropped, last = self._dropped.get(election), max(kept)
        if dropped is None:
            return
        kept[last] = replace(kept[last], dropped=either(covering, dropped, kept[last].dropped))
        if dropped.most < last[0]:  # Else it is out of the log before what it says is.
            del self._dropped[election]

    def _await_no_more(self, election: str, key: Key) -> None:
        lasting = self._open.get(election, set())
        lasting.discard(key)
        if not lasting:
            self._open.pop(election, None)

    def _awaited(self, election: str) -> set[Key]:
        """Return which tenures that were written as lasting have ended, as what waits here says."""
        waiting = self._records.get(election, {})
        lasting = self._open.get(election, set()) | self._under_way.get(election, set())
        return {key for key in lasting if key in waiting and waiting[key].ended_s is not None}

    def _look_whether_urgent(self, election: str) -> None:
        if not self._awaited(election):
            self._urgent.discard(election)
        elif election not in self._urgent:
            self._urgent.add(election)
            self._turns.hurry(election)

    def _wait_s(self, election: str, now_s: float) -> float:
        bucket = None if election in self._urgent else self._buckets.get(election)
        return 0.0 if bucket is None else bucket.wait_s(now_s)

    def _bucket(self, election: str, now_s: float) -> _Bucket:
        if election not in self._buckets:
            if len(self._buckets) >= _BUCKETS_MAX:
                self._buckets = {name: one for name, one in self._buckets.items() if not one.is_full(now_s)}
            self._buckets[election] = _Bucket(_BURST_MAX_EACH, _WRITES_PER_S_EACH, now_s)
        return self._buckets[election]


class Pace:
    """When the next write may be, so that writing costs an engine little whatever there is to write, and less if it fails."""

    def __init__(self) -> None:
        self._bucket = _Bucket(_BURST_MAX, _WRITES_PER_S, 0.0)
        self._retry = Backoff(_BACKOFF_MAX_S)

    def wait_s(self, now_s: float) -> float:
        """Return for how long to wait before a write."""
        return max(self._retry.wait_s(now_s), self._bucket.wait_s(now_s))

    def answered(self, now_s: float) -> None:
        """Count a write that the store has answered, whatever it said."""
        self._bucket.spend(now_s)
        self._retry.end()

    def failed(self, now_s: float) -> None:
        """Wait for longer each time: the store does not answer."""
        self._retry.begin(now_s)
