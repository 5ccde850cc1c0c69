"""What is under way for the places of one store: one thing at a time for each of them, and to its end."""

import asyncio
from asyncio.tasks import _enter_task, _leave_task  # for who steps a task, by the chapter "Extending" of asyncio
from collections.abc import Coroutine, Generator
from contextvars import copy_context
from types import TracebackType
from typing import Any, Protocol, TypeVar, cast

T = TypeVar("T")


class Busy(Exception):
    """Something else was under way for a place for as long as there was time, so nothing was begun."""


class Place(Protocol):
    """Whatever one thing at a time is done to."""

    busy: "asyncio.Future[Any] | None"  # the request that is under way


class _OfItsOwn:
    """A place to which nothing else is done."""

    __slots__ = ("busy",)

    def __init__(self) -> None:
        self.busy: asyncio.Future[Any] | None = None


class Turns:
    """Every piece of work that is under way. Used on one event loop."""

    def __init__(self) -> None:
        self._under_way: set[asyncio.Task[Any]] = set()

    async def alone(self, place: Place, work: Coroutine[Any, Any, T]) -> T:
        """Do one thing at a time to a place, to its end: who is cancelled stops waiting for it and no more.

        A release that overtook a put on its way would leave a key behind that nobody knows of.
        """
        if place.busy is not None:
            await _free(place, work)
        loop, context = asyncio.get_running_loop(), copy_context()
        over = loop.create_future()
        begun = _Begun(self._to_its_end(place, work, over))
        # Not by the loop's factory: one that begins tasks at once would be through before the place is taken.
        place.busy = task = asyncio.Task(begun, loop=loop, context=context)
        self._under_way.add(task)
        try:
            # At once and not in the next turn of the loop: what it sends goes out sooner.
            context.run(begun.step, loop, task)
        except StopIteration as ended:  # There was nothing to wait for.
            result: T = ended.value
            return result
        try:
            # Not the task: cancelling whoever waits for that would cancel it, and a shield takes a turn more.
            await over
        finally:
            if task.done():  # Its error may have come together with the cancellation of whoever would have heard it.
                _ask_for_its_error(task)
            else:
                task.add_done_callback(_ask_for_its_error)
        return task.result()

    def through(self, work: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """Likewise do something beside which others may be done."""
        return self.alone(_OfItsOwn(), work)

    async def _to_its_end(self, place: Place, work: Coroutine[Any, Any, T], over: "asyncio.Future[None]") -> T:
        try:
            return await work
        finally:
            # Here and not when the task is done, of which others hear a turn later: who is woken next finds the place free.
            self._under_way.discard(cast("asyncio.Task[T]", place.busy))
            place.busy = None
            if not over.done():
                over.set_result(None)

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
        while self._under_way:  # Whoever is answered may ask for more before this is told.
            await asyncio.wait(self._under_way)

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._under_way.discard(task)
        _ask_for_its_error(task)  # Its caller may be gone.


class _Begun(Coroutine[Any, Any, T]):
    """Work whose first step is taken before its task takes the others: Python 3.11 has no task that begins at once."""

    __slots__ = ("_first", "_is_over", "_work")

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._first: list[Any] = []  # what it waits for after the first step, until the task has been told
        self._is_over = False

    def step(self, loop: asyncio.AbstractEventLoop, task: "asyncio.Task[T]") -> None:
        """Take the first step, as the task: a deadline in it is this one's, and not its caller's."""
        caller = asyncio.current_task(loop)
        if caller is not None:
            _leave_task(loop, caller)
        _enter_task(loop, task)
        self._is_over = True  # unless it waits for something
        try:
            self._first.append(self._work.send(None))
            self._is_over = False
        finally:
            _leave_task(loop, task)
            if caller is not None:
                _enter_task(loop, caller)

    def send(self, value: Any) -> Any:
        if self._is_over:
            raise StopIteration
        return self._first.pop() if self._first else self._work.send(value)

    def throw(self, error: Any, value: Any = None, traceback: TracebackType | None = None) -> Any:
        waited = self._first.pop() if self._first else None
        if waited is not None and isinstance(error, asyncio.CancelledError) and waited.cancel():
            return waited  # What is waited for is cancelled, as the task would do, and hears of it.
        if self._is_over:  # Cancelled before it could notice that there is nothing left to do.
            raise error
        return self._work.throw(error, value, traceback) if value is not None else self._work.throw(error)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return (yield from self._work.__await__())


def _ask_for_its_error(task: "asyncio.Task[Any]") -> None:
    """Have nobody complain of an error that nobody else will ask for."""
    if not task.cancelled():
        task.exception()


async def _free(place: Place, work: Coroutine[Any, Any, Any]) -> None:
    """Wait until nothing is under way for a place."""
    while place.busy is not None:
        try:
            await asyncio.wait([place.busy])
        except asyncio.CancelledError:
            work.close()
            raise
