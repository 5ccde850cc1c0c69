"""What a tenure is given of a sink over a driver that awaits: transactions, one at a time on a connection of the sink's."""

from types import TracebackType
from typing import TYPE_CHECKING, Generic

from tenure.sinks.base import Bound
from tenure.sinks.refusals import REFUSED
from tenure.sinks.sql.flow import once_at_a_time
from tenure.sinks.sql.talk import Raw, Trouble, checked

if TYPE_CHECKING:
    from tenure.sinks.sql.flow import Kept
    from tenure.sinks.sql.on_loop import LoopSink


class LoopTransaction(Generic[Raw]):
    """One fenced transaction: ``async with``. Made by a sink."""

    __slots__ = ("_fence", "_is_entered", "_isolation", "_kept", "_lent", "_sink", "_token")
    _kept: "Kept[Raw]"
    _lent: Raw

    def __init__(self, sink: "LoopSink[Raw]", term: Bound, isolation: str) -> None:
        self._sink, self._isolation = sink, isolation
        fence, number = term.fence, term.token
        known = sink.sealed.get(fence)  # which was checked when it became known
        self._fence = fence
        self._token = known if known is not None and known is number else checked(fence, number)
        self._is_entered = False

    async def __aenter__(self) -> Raw:
        if self._is_entered:
            raise once_at_a_time()
        sink = self._sink
        postponed = sink.postponed(self._fence, self._token, self._isolation)
        self._is_entered = True
        if postponed is not None:
            self._kept, self._lent = postponed
            return self._lent
        begun = False
        try:
            with sink.refused.counting(self._fence):
                self._kept = await sink.begin(self._fence, self._token, self._isolation)
            begun = True
        finally:
            self._is_entered = begun
        self._lent = sink.driver.lend(self._kept.raw)
        return self._lent

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sink, kept = self._sink, self._kept
        try:
            is_inside = sink.driver.end(kept.raw, self._lent)
            if error is None:
                failed: Trouble | None = None
                if is_inside and kept.ends_by is not None:
                    # Here, and neither in a talk nor by the sink: to a single writer, whose caches are cold when it is answered, each
                    # coroutine more costs some hundredths of a commit.
                    try:
                        await sink.driver.ask(kept.raw, kept.ends_by)
                    except Trouble as trouble:
                        failed = trouble
                    else:
                        sink.sealed[self._fence] = self._token
                        kept.is_clean = True
                        return
                await sink.finish(kept, self._fence, self._token, failed, is_inside=is_inside)
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
