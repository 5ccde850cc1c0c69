"""The clerk: writes down, in one transaction, all that is to be recorded at the moment.

A commit costs a wait for the disk, and as much for a hundred rows as for one. While one is under way the next batch gathers. What could not be
recorded, or may have been, is written again: entries may be carried out twice (``records``, rule 2). Only the end of the tenure ends that.
"""

from asyncio import Future, get_running_loop
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import anyio

from tenure.apps.ledger.base import Entry, Ledger
from tenure.errors import Refused, StoreError
from tenure.office.tenure import Tenure

T = TypeVar("T")
BATCH_MAX: Final = 500
_PAUSE_MIN_S, _PAUSE_MAX_S = 0.05, 1.0
Recorded = Future  # of what an entry has returned
_Written = tuple[Callable[[], Entry[Any]], Recorded[Any]]


class Clerk:
    """Records for one tenure. Used on one event loop."""

    def __init__(self, ledger: Ledger, term: Tenure, troubled: Callable[[StoreError], None]) -> None:
        """``troubled`` is told whenever something could not be recorded yet."""
        self._ledger, self._term, self._troubled = ledger, term, troubled
        self._waiting: list[_Written] = []
        self._news = anyio.Event()
        self.is_behind = False  # whether the ledger could not be written to when that was last tried

    async def record(self, entry: Callable[[], Entry[T]]) -> T:
        """Return what an entry has returned, once it is recorded. The entry is made anew for each try."""
        return await self.put(entry)

    def put(self, entry: Callable[[], Entry[T]]) -> Recorded[T]:
        """Have something recorded; the future is of what the entry has returned."""
        recorded: Recorded[T] = get_running_loop().create_future()
        self._waiting.append((entry, recorded))
        self._news.set()
        return recorded

    async def work(self) -> None:
        """Record until a leader with a larger token has been at the ledger: that raises StaleToken."""
        most, pause_s = BATCH_MAX, _PAUSE_MIN_S
        while True:
            if not self._waiting:
                self._news = anyio.Event()
                await self._news.wait()
            batch, self._waiting = self._waiting[:most], self._waiting[most:]
            try:
                results = await self._ledger.record(self._term, _all(batch))
            except StoreError as error:
                self.is_behind = True
                self._troubled(error)
                # One entry that no database takes must not keep the others: they are tried one by one, and it comes last.
                self._waiting += batch
                most = 1 if isinstance(error, Refused) else most
                await anyio.sleep(pause_s)
                pause_s = min(2 * pause_s, _PAUSE_MAX_S)
                continue
            self.is_behind = False
            most, pause_s = min(2 * most, BATCH_MAX), _PAUSE_MIN_S
            for (_, recorded), result in zip(batch, results, strict=True):
                if not recorded.cancelled():
                    recorded.set_result(result)


def _all(batch: list[_Written]) -> Entry[list[Any]]:
    results = []
    for entry, _ in batch:
        results.append(cast("Any", (yield from entry())))
    return results
