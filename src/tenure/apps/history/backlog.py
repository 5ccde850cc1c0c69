"""What is still to be written, and when the next of it may be. Pure: the time is given.

Records of one election go together, and what is said of one tenure twice before it is written is written once. So a backlog
has at most one write for each election, however long the store was away.
"""

import random
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from tenure.apps.history.records import Record, join

RECORDS_MAX: Final = 10_000  # about 10 MB
# A process that takes ten thousand offices over at once writes for some minutes, and an engine does not notice it. A few are
# written at once, so that who reads the history of one election finds it complete.
_WRITES_PER_S, _BURST_MAX = 20.0, 20.0
# An election that changes hands every second writes 15 KiB each time. An etcd that nobody compacts keeps them all, and at 2 GB
# takes no more writes: so a history may not grow by more than 20 MB a day, whatever happens. What waits is written together.
_WRITES_PER_S_EACH, _BURST_MAX_EACH = 1 / 60, 10.0
_BUCKETS_MAX: Final = 1000
_BACKOFF_MIN_S, _BACKOFF_MAX_S = 0.5, 30.0
REFUSED_BACKOFF_MAX_S: Final = 300.0  # A right that is missing is given by people; a lock is lifted sooner.


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
        self._room, self._counted_s = self.room(now_s) - 1, now_s

    def is_full(self, now_s: float) -> bool:
        return self.room(now_s) >= self._burst_max


class Backlog:
    """Records to be written, by election, the oldest first."""

    def __init__(self) -> None:
        self._records: OrderedDict[str, dict[tuple[int, str], Record]] = OrderedDict()
        self._buckets: dict[str, _Bucket] = {}  # of elections that were written lately
        self.count = 0
        self.dropped_count = 0

    def put(self, election: str, record: Record) -> None:
        """Have a record written. If there are too many, the election that waits for longest loses those that it has."""
        kept = self._records.setdefault(election, {})
        if record.key in kept:
            kept[record.key] = join(kept[record.key], record)
            return
        kept[record.key] = record
        self.count += 1
        if self.count > RECORDS_MAX:
            _, lost = self._records.popitem(last=False)
            self.count -= len(lost)
            self.dropped_count += len(lost)

    def wait_s(self, now_s: float) -> float | None:
        """Return for how long to wait until one of them may be written; None: there is none."""
        least_s: float | None = None
        for election in self._records:
            wait_s = self._wait_s(election, now_s)
            if wait_s <= 0:
                return 0.0
            least_s = wait_s if least_s is None else min(least_s, wait_s)
        return least_s

    def take(self, now_s: float, *, in_turn: bool = True) -> tuple[str, list[Record]] | None:
        """Take out what is to be written next; not ``in_turn``: also if its election was written often enough lately."""
        ready = (one for one in self._records if not in_turn or self._wait_s(one, now_s) <= 0)
        election = next(ready, None)
        if election is None:
            return None
        kept = self._records.pop(election)
        self.count -= len(kept)
        self._bucket(election, now_s).spend(now_s)
        return election, list(kept.values())

    def put_back(self, election: str, records: Sequence[Record]) -> None:
        """Have it written later: it has failed, and others may not."""
        for record in records:
            self.put(election, record)

    def drop(self, records: Sequence[Record]) -> None:
        """Count what will not be written."""
        self.dropped_count += len(records)

    def drop_all(self) -> None:
        """Count everything as lost."""
        self.dropped_count += self.count
        self._records.clear()
        self.count = 0

    def _wait_s(self, election: str, now_s: float) -> float:
        bucket = self._buckets.get(election)
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
        self._not_before_s = 0.0
        self._backoff_s = _BACKOFF_MIN_S

    def wait_s(self, now_s: float) -> float:
        """Return for how long to wait before a write."""
        return max(0.0, self._not_before_s - now_s, self._bucket.wait_s(now_s))

    def wrote(self, now_s: float) -> None:
        """Count a write that was made."""
        self._bucket.spend(now_s)
        self._backoff_s, self._not_before_s = _BACKOFF_MIN_S, 0.0

    def failed(self, now_s: float, *, refused: bool) -> None:
        """Wait for longer each time, and not all processes for the same time."""
        self._not_before_s = now_s + self._backoff_s * random.uniform(0.5, 1)
        self._backoff_s = min(2 * self._backoff_s, REFUSED_BACKOFF_MAX_S if refused else _BACKOFF_MAX_S)
