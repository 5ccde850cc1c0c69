"""What is under way for the places of one store: one thing at a time for each of them, and to its end."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Busy(Exception):
    """Something else was under way for a place for as long as there was time, so nothing was begun."""


class Place(Protocol):
    """Whatever one thing at a time is done to."""

    busy: "asyncio.Future[Any] | None"  # the request that is under way


class Turns:
    """Every piece of work that is under way. Used on one event loop."""

    def __init__(self) -> None:
        self._under_way: set[asyncio.Task[Any]] = set()

    async def alone(self, place: Place, work: Coroutine[Any, Any, T]) -> T:
        """Do one thing at a time to a place, to its end: who is cancelled stops waiting for it and no more.

        A release that overtook a put on its way would leave a key behind that nobody knows of.
        """
        await _free(place, work)
        place.busy = task = self.start(work)
        task.add_done_callback(lambda _: setattr(place, "busy", None))
        return await asyncio.shield(task)

    async def passing(self, place: Place, work: Coroutine[Any, Any, T], until_s: float) -> T:
        """Do something likewise that may be given up half-way, with whoever waits for it. It needs no task of its own.

        Raises Busy if its turn has not come by ``until_s``, a time of the event loop: what is before it may hang for longer.
        """
        if place.busy is not None:
            try:
                async with asyncio.timeout_at(until_s):
                    await _free(place, work)
            except TimeoutError:
                raise Busy from None
        place.busy = ended = asyncio.get_running_loop().create_future()
        try:
            return await work
        finally:
            place.busy = None
            ended.set_result(None)

    def start(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Begin something that goes on also if its caller does not."""
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._ended)
        return task

    async def all_ended(self) -> None:
        """Wait for all of it. Each has a deadline."""
        if self._under_way:
            await asyncio.wait(self._under_way)

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # Its caller may be gone, and then nobody else will ask.


async def _free(place: Place, work: Coroutine[Any, Any, Any]) -> None:
    """Wait until nothing is under way for a place."""
    while place.busy is not None:
        try:
            await asyncio.wait([place.busy])
        except asyncio.CancelledError:
            work.close()
            raise
