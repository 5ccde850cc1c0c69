"""How a thread answers an event loop."""

from asyncio import AbstractEventLoop, Future, get_running_loop
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from tenure.errors import TenureError


@dataclass(eq=False, slots=True)
class Reply:
    """What a coroutine waits for and a thread gives: a value, or an error to be raised there.

    The error travels as a value. A future that holds an exception which nobody collects, because its task was cancelled
    in the same turn, would be reported as a mistake of ours.
    """

    loop: AbstractEventLoop
    future: "Future[object]"

    @classmethod
    def here(cls) -> "Reply":
        loop = get_running_loop()
        return cls(loop, loop.create_future())

    @property
    def unwanted(self) -> bool:
        """Whether nobody waits any more. Asked from any thread, so it may be out of date when it is answered."""
        return self.future.done()

    def give(self, outcome: object) -> None:
        """Answer, from any thread."""
        give_all([(self, outcome)])

    async def outcome(self) -> object:
        outcome = await self.future
        if isinstance(outcome, TenureError):
            raise outcome
        return outcome


def give_all(outcomes: Iterable[tuple[Reply, object]]) -> None:
    """Answer many at once, from any thread: each event loop is woken once."""
    by_loop: dict[AbstractEventLoop, list[tuple[Reply, object]]] = {}
    for reply, outcome in outcomes:
        by_loop.setdefault(reply.loop, []).append((reply, outcome))
    for loop, its_own in by_loop.items():
        with suppress(RuntimeError):  # The loop was closed, so nobody waits.
            loop.call_soon_threadsafe(_settle, its_own)


def _settle(outcomes: list[tuple[Reply, object]]) -> None:
    for reply, outcome in outcomes:
        if not reply.future.done():
            reply.future.set_result(outcome)
