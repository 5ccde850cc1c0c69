"""One shard on its way: waited for, owned, drained, handed over.

Rules of this file
1. A shard is stood for by one task at a time, in an election of its own; nothing here decides who is in office.
2. To hand a shard over, its body is told and has time to end while the office is held and renewed. Then it is cancelled, and the
   office released once it has ended. Who waits for the shard takes it over then.
3. Not all ask the store at once: who has had no answer yet holds one of a few permits.
"""

from collections.abc import Awaitable, Callable, Sequence

import anyio

from tenure.election import Election
from tenure.office.on_loop import LoopSitting
from tenure.office.sitting import Letter
from tenure.office.tenure import Tenure
from tenure.sinks.base import Sink

Body = Callable[["Shard"], Awaitable[object]]


class Shard:
    """A shard as its owner's body sees it: its number, the tenure to write with, and a word when it is to be handed over."""

    __slots__ = ("_told", "number", "term")

    def __init__(self, number: int, term: Tenure, told: anyio.Event) -> None:
        self.number, self.term, self._told = number, term, told

    async def leaving(self) -> None:
        """Return when this shard is to be handed over: the body has until the end of the drain time, and then is cancelled.

        Does not return if the office is lost: then the body is cancelled without a word.
        """
        await self._told.wait()

    @property
    def is_leaving(self) -> bool:
        """Whether this shard is to be handed over."""
        return self._told.is_set()

    def __repr__(self) -> str:
        return f"<Shard {self.number} of {self.term!r}>"


class _Sitting(LoopSitting):
    """Gives its permit back with the first word from the store, whatever that says."""

    __slots__ = ("permit",)
    permit: "_Permit"

    async def _next(self) -> Letter:
        letter = await super()._next()
        self.permit.give_back()
        return letter


class _Permit:
    """A permit of a semaphore, to be given back once, by whoever comes first."""

    __slots__ = ("_permits",)

    def __init__(self, permits: anyio.Semaphore) -> None:
        self._permits: anyio.Semaphore | None = permits

    def give_back(self) -> None:
        permits, self._permits = self._permits, None
        if permits is not None:
            permits.release()


class Holding:
    """One shard that this member stands for, or owns. Used on one event loop."""

    __slots__ = ("_candidacy", "_election", "_ended", "_on_end", "_told", "number", "term")

    def __init__(self, number: int, election: Election, on_end: Callable[[int], None]) -> None:
        self.number, self._election, self._on_end = number, election, on_end
        self.term: Tenure | None = None  # while it is owned
        self._candidacy = anyio.CancelScope()
        self._told, self._ended = anyio.Event(), anyio.Event()

    @property
    def is_leaving(self) -> bool:
        """Whether it is being handed over, or was."""
        return self._told.is_set()

    async def hold(self, body: Body, sinks: Sequence[Sink], permits: anyio.Semaphore) -> None:
        """Stand for the shard, and run ``body`` whenever it is owned, until it is handed over."""
        try:
            with self._candidacy:
                await permits.acquire()
                permit = _Permit(permits)
                try:
                    sitting = _Sitting(self._election.desk, sinks)
                    sitting.permit = permit
                    await sitting.lead(lambda term: self._own(body, term), once=False)
                finally:
                    permit.give_back()
        finally:
            self._ended.set()
            self._on_end(self.number)

    async def _own(self, body: Body, term: Tenure) -> None:
        self.term = term
        try:
            await body(Shard(self.number, term, self._told))
            # It has nothing more to do with this shard. Whoever came next would do it all again, so it stays here.
            await self._told.wait()
        finally:
            self.term = None

    async def hand_over(self, drain_s: float) -> None:
        """Have the body end, within that time if it can, and the office released. Returns when that is done."""
        self._told.set()
        if self.term is not None:
            with anyio.move_on_after(drain_s):
                await self._ended.wait()
        # In office a cancellation is no word to the office, which would renew for as long as a body does not end.
        if self.term is not None:
            self.term.resign()
        else:
            self._candidacy.cancel()
        await self._ended.wait()
