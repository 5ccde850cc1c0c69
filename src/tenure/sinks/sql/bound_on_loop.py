"""What a tenure is given of a sink over a driver that awaits: transactions, one at a time on a connection of the sink's."""

from types import TracebackType
from typing import TYPE_CHECKING, Generic

from tenure.sinks.base import Bound
from tenure.sinks.refusals import REFUSED
from tenure.sinks.sql.flow import once_at_a_time
from tenure.sinks.sql.talk import Raw, checked

if TYPE_CHECKING:
    from tenure.sinks.sql.flow import Kept
    from tenure.sinks.sql.on_loop import LoopSink


class LoopTransaction(Generic[Raw]):
    """One fenced transaction: ``async with``. Made by a sink."""

    __slots__ = ("_fence", "_is_entered", "_isolation", "_kept", "_lent", "_sink", "_token")

    def __init__(self, sink: "LoopSink[Raw]", term: Bound, isolation: str) -> None:
        self._sink, self._isolation = sink, isolation
        self._fence, self._token = term.fence, checked(term.fence, term.token)
        self._is_entered = False

    async def __aenter__(self) -> Raw:
        if self._is_entered:
            raise once_at_a_time()
        sink = self._sink
        kept = sink.postponed(self._fence, self._token, self._isolation)
        self._is_entered = True
        if kept is None:
            begun = False
            try:
                with sink.refused.counting(self._fence):
                    kept = await sink.begin(self._fence, self._token, self._isolation)
                begun = True
            finally:
                self._is_entered = begun
        self._kept: Kept[Raw] = kept
        self._lent: Raw = sink.driver.lend(kept.raw)
        return self._lent

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sink, kept = self._sink, self._kept
        try:
            sink.driver.end(kept.raw, self._lent)
            if error is None:
                await sink.finish(kept, self._fence, self._token)
            elif isinstance(error, Exception):  # Not if it is cancelled: then there is no time to be polite.
                await sink.undo(kept, error, self._fence, self._token)
        except REFUSED as refusal:  # Not by ``counting``, which costs something also where nothing is refused.
            sink.refused.counted(refusal, self._fence)
            raise
        finally:
            self._is_entered = False
            sink.give_back(kept)


class BoundOnLoop(Generic[Raw]):
    """A sink as one tenure may use it. Its transactions fail with StaleToken once that tenure has been succeeded."""

    __slots__ = ("_sink", "_term")

    def __init__(self, sink: "LoopSink[Raw]", term: Bound) -> None:
        self._sink, self._term = sink, term

    def transaction(self, isolation: str = "") -> LoopTransaction[Raw]:
        """Return a fenced transaction (see ``transaction`` of the sink)."""
        return LoopTransaction(self._sink, self._term, isolation)
