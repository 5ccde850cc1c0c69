"""The public face of an election: stand, lead, observe."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import anyio

from tenure.model import Incumbent
from tenure.office.on_loop import LoopSitting, Stay
from tenure.office.opened import run_there
from tenure.office.standing import Standing
from tenure.office.tenure import Tenure
from tenure.sinks.base import Sink

T = TypeVar("T")
P = ParamSpec("P")


class Election(Standing):
    """One candidate of one election.

    Promises that at most one tenure is valid at any instant while clocks keep their bound, and that whatever is written
    through a declared sink is the latest leader's, whatever clocks do. Does not promise that there is a leader, nor that
    a body stops when it is cancelled: one that does not is published as an Overstay, or with ``on_overstay="kill"`` ends
    the process.
    """

    __slots__ = ()

    async def lead(
        self,
        body: Callable[[Tenure], Awaitable[T]],
        *,
        sinks: Sequence[Sink] = (),
        prepare: Callable[[], Awaitable[object]] | None = None,
        once: bool = False,
    ) -> T:
        """Stand, and run ``body`` in every tenure until it returns; return what it returned.

        Loss cancels the body at every await until it has ended; then this candidate stands again (``once``: raises
        TenureOver). An exception of the body releases the office and is raised unchanged. ``prepare`` is awaited before
        standing: who is not ready does not stand. ``sinks`` are sealed before every body begins; one that says by a
        ConfigError that it never can be ends the standing with that error.
        """
        if prepare is not None:
            await prepare()
        return await LoopSitting(self.desk, sinks).lead(body, once=once)

    def once(self, sinks: Sequence[Sink] = ()) -> AbstractAsyncContextManager[Tenure]:
        """Return a context manager that takes office once, with its block as the body.

        Loss cancels the block, and TenureOver is raised at its end.
        """
        return Stay(self.desk, sinks)

    async def incumbent(self) -> Incumbent | None:
        """Return who holds the office now, as the engine decides it. It may have changed when you read this."""
        result: Incumbent | None = await run_there(self.desk.office, self.desk.store.read(self.name))
        return result

    async def observe(self) -> AsyncGenerator[Incumbent | None, None]:
        """Yield who holds the office, now and whenever that changes. May miss a leader who was there for a moment."""
        seen: object = self
        while True:
            incumbent = await self.incumbent()
            if incumbent != seen:
                seen = incumbent
                yield incumbent
            await anyio.sleep(self.look_every_s)

    def leader_only(
        self, *, sinks: Sequence[Sink] = ()
    ) -> Callable[[Callable[Concatenate[Tenure, P], Awaitable[T]]], Callable[P, Awaitable[T]]]:
        """Return a decorator: the function becomes the body, and calling it stands for election and leads.

        It gets the Tenure before its own arguments. One call at a time: an election object is one candidate.
        """
        sinks = tuple(sinks)

        def decorate(body: Callable[Concatenate[Tenure, P], Awaitable[T]]) -> Callable[P, Awaitable[T]]:
            @wraps(body)
            async def stand(*arguments: P.args, **named: P.kwargs) -> T:
                return await self.lead(lambda term: body(term, *arguments, **named), sinks=sinks)

            return stand

        return decorate
