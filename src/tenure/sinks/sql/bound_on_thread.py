"""What a tenure is given of a sink over a driver that blocks: transactions, one at a time on a connection of the sink's."""

from types import TracebackType
from typing import TYPE_CHECKING, Generic

from tenure.sinks.base import Bound
from tenure.sinks.sql.flow import once_at_a_time
from tenure.sinks.sql.talk import Raw, checked

if TYPE_CHECKING:
    from tenure.sinks.sql.flow import Kept
    from tenure.sinks.sql.on_thread import ThreadSink


class ThreadTransaction(Generic[Raw]):
    """One fenced transaction: ``with``. Made by a sink."""

    __slots__ = ("_fence", "_is_entered", "_isolation", "_kept", "_lent", "_sink", "_token")

    def __init__(self, sink: "ThreadSink[Raw]", term: Bound, isolation: str) -> None:
        self._sink, self._isolation = sink, isolation
        self._fence, self._token = term.fence, checked(term.fence, term.token)
        self._is_entered = False

    def __enter__(self) -> Raw:
        if self._is_entered:
            raise once_at_a_time()
        self._is_entered = True
        begun = False
        try:
            with self._sink.refused.counting(self._fence):
                self._kept: Kept[Raw] = self._sink.begin(self._fence, self._token, self._isolation)
            begun = True
        finally:
            self._is_entered = begun
        self._lent: Raw = self._sink.driver.lend(self._kept.raw)
        return self._lent

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sink, kept = self._sink, self._kept
        try:
            is_inside = sink.driver.end(kept.raw, self._lent)
            with sink.refused.counting(self._fence):
                if error is None:
                    sink.finish(kept, self._fence, self._token, is_inside=is_inside)
                elif isinstance(error, Exception):  # Not if it is interrupted: then there is no time to be polite.
                    sink.undo(kept, error, self._fence, self._token)
        finally:
            self._is_entered = False
            sink.give_back(kept)


class BoundOnThread(Generic[Raw]):
    """A sink as one tenure may use it. Its transactions fail with StaleToken once that tenure has been succeeded."""

    __slots__ = ("_sink", "_term")

    def __init__(self, sink: "ThreadSink[Raw]", term: Bound) -> None:
        self._sink, self._term = sink, term

    def transaction(self, isolation: str = "") -> ThreadTransaction[Raw]:
        """Return a fenced transaction (see ``transaction`` of the sink)."""
        return ThreadTransaction(self._sink, self._term, isolation)
