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
_WRITES_PER_S: Final = 20.0
_BURST_MAX: Final = 20.0
_BACKOFF_MIN_S, _BACKOFF_MAX_S = 0.5, 30.0
REFUSED_BACKOFF_MAX_S: Final = 300.0  # A right that is missing is given by people; a lock is lifted sooner.


class Backlog:
    """Records to be written, by election, the oldest first."""

    def __init__(self) -> None:
        self._records: OrderedDict[str, dict[tuple[int, str], Record]] = OrderedDict()
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

    def take(self) -> tuple[str, list[Record]]:
        """Take out what is to be written next."""
        election, kept = self._records.popitem(last=False)
        self.count -= len(kept)
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
        while self.count:
            self.drop(self.take()[1])


class Pace:
    """When the next write may be, so that writing costs an engine little whatever there is to write, and less if it fails."""

    def __init__(self) -> None:
        self._room, self._counted_s = _BURST_MAX, 0.0
        self._not_before_s = 0.0
        self._backoff_s = _BACKOFF_MIN_S

    def wait_s(self, now_s: float) -> float:
        """Return for how long to wait before a write."""
        room = self._room_at(now_s)
        return max(0.0, self._not_before_s - now_s, (1 - room) / _WRITES_PER_S)

    def wrote(self, now_s: float) -> None:
        """Count a write that was made."""
        self._room, self._counted_s = self._room_at(now_s) - 1, now_s
        self._backoff_s, self._not_before_s = _BACKOFF_MIN_S, 0.0

    def failed(self, now_s: float, *, refused: bool) -> None:
        """Wait for longer each time, and not all processes for the same time."""
        self._not_before_s = now_s + self._backoff_s * random.uniform(0.5, 1)
        self._backoff_s = min(2 * self._backoff_s, REFUSED_BACKOFF_MAX_S if refused else _BACKOFF_MAX_S)

    def _room_at(self, now_s: float) -> float:
        return min(_BURST_MAX, self._room + (now_s - self._counted_s) * _WRITES_PER_S)
