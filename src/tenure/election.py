"""The public face of an election: stand, lead, observe."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import anyio

from tenure.model import Incumbent
from tenure.office.eligibility import Question
from tenure.office.on_loop import LoopSitting, Stay
from tenure.office.opened import run_there
from tenure.office.standing import Standing
from tenure.office.tenure import Tenure
from tenure.office.warm_loop import Prepare, lead_warm
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

    def lead(
        self,
        body: Callable[[Tenure], Awaitable[T]],
        *,
        sinks: Sequence[Sink] = (),
        prepare: Prepare | None = None,
        eligible: Question | None = None,
        once: bool = False,
    ) -> Coroutine[Any, Any, T]:
        """Stand, and run ``body`` in every tenure until it returns; return what it returned.

        Loss cancels the body at every await until it has ended; then this candidate stands again (``once``: raises
        TenureOver). An exception of the body releases the office and is raised unchanged. ``sinks`` are sealed before every
        body begins; one that says by a ConfigError that it never can be ends the standing with that error.

        ``prepare`` keeps a standby warm. It is given a ``Standby``: this candidate stands when it has called ``ready()``, or has
        returned. It goes on while others lead, is cancelled when office comes, and has ended before the body begins; after
        a loss it is called anew. A tenure that is over before it has ended gets no body, and is lost. What it raises ends the
        standing. Does not promise that what it has read is all that there is: the last leader may have written since, so a body
        reads on to the end first.

        ``eligible`` is asked whenever office was granted, before anything is sealed: False gives it back at once, no fence is
        raised, and others go first. What it raises is logged, and it is asked again while the grant lasts; so it is if it takes
        long. It is not asked again during a tenure. It decides who *takes* office, and fences nothing.
        """
        # Neither is awaited here: that would be one more frame for as long as the body runs.
        if prepare is not None:
            return lead_warm(self.desk, sinks, body, prepare, eligible=eligible, once=once)
        return LoopSitting(self.desk, sinks, eligible).lead(body, once=once)

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
