"""An event loop in virtual time: where everybody waits, it jumps to the next moment at which somebody is to go on."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Jumping(selectors.DefaultSelector):
    """Waits for nothing, and says for how long it would have."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now_s += max(0.0, timeout or 0.0)
        return super().select(0)


class JumpingLoop(asyncio.SelectorEventLoop):
    """For what speaks to nobody outside of it: an answer would come after any time that was given to it."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s


def in_no_time(work: Coroutine[Any, Any, T]) -> T:
    """Run it as ``asyncio.run`` does, at once however long it takes."""
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(work)
