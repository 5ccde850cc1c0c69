"""The public face of shards: take a seat, take part, and run a body for every shard that is owned here."""

import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack
from itertools import count as numbers
from typing import Final

import anyio

from tenure.apps.shards.book import Book
from tenure.apps.shards.holding import Body
from tenure.apps.shards.part import Part
from tenure.apps.shards.terms import Terms
from tenure.election import Election
from tenure.errors import StoreError, TenureOver
from tenure.office.on_loop import Stay
from tenure.office.opened import LoopStore
from tenure.office.sitting import check_sinks
from tenure.office.tenure import Tenure
from tenure.sinks.base import Sink
from tenure.timing import Seconds, Timing

_LOG: Final = logging.getLogger("tenure")
_ASK_ONCE: Final = 0.0


class Shards:
    """One member of a set of shards, each of which is an election of its own.

    Promises of each shard what an election promises of its leader, and that the members who are alive come to own about equal
    parts of them by weight, by as few moves as that takes. Does not promise when: a shard whose owner died has none for up to
    the ttl, the store's slack and a heartbeat, and balance comes about a heartbeat after the last member came or went. A member
    that is alive and does nothing keeps its shards.
    """

    def __init__(  # noqa: PLR0913  (each has a default but the first three)
        self,
        store: LoopStore,
        name: str,
        count: int,
        *,
        member: str | None = None,
        weight: int = 1,
        max_shards: int | None = None,
        drain: Seconds = 0,
        return_within: Seconds = 0,
        ttl: Seconds | None = None,
        timing: Timing | None = None,
    ) -> None:
        """Take part in the ``count`` shards of ``name``, which must be the same number for all members.

        ``member`` is a name that stays when the process does not: who comes back under it ``return_within`` that time finds its
        shards kept, though owned by nobody meanwhile. Left out, it is the lowest number that is free. ``weight`` is how
        much this member should own beside others, 0 nothing; ``max_shards`` is how many at most. A body that is to hand over
        its shard is told, and cancelled ``drain`` later.
        """
        self._terms = Terms.of(
            name, count, member=member, weight=weight, max_shards=max_shards, drain=drain, return_within=return_within
        )
        like = Election(store, name, ttl=ttl, timing=timing)  # Its settings are those of all, checked and filled in.
        self._book = Book(store, name, count, like.timing, like.holder)
        self._timing = like.timing
        self._part: Part | None = None
        self._everything = anyio.CancelScope()
        self._leaving = False

    @property
    def owned(self) -> frozenset[int]:
        """The shards that are owned here at this moment."""
        return frozenset() if self._part is None else self._part.owned

    def leave(self) -> None:
        """Hand over whatever is owned here, as soon as others wait for it, and have ``run`` return.

        Takes up to two heartbeats, and the time to drain; with ``return_within`` others are not waited for. Call it where
        ``run`` is, not from another thread.
        """
        self._leaving = True
        if self._part is not None:
            self._part.leave()
        else:  # Nothing is owned: it waits for a seat, or does not run.
            self._everything.cancel()

    async def run(self, body: Body, *, sinks: Sequence[Sink] = ()) -> None:
        """Take part, and run ``body`` for every shard that is owned here, each in a task of its own, until told to leave.

        Loss of a shard, or its hand-over, cancels its body at every await until it has ended. A body that returns has done what
        there was to do for its shard, which stays here, idle, until it is handed over. An exception of a body ends them all and is
        raised: unchanged, or in a group if several raised. ``sinks`` are sealed for each shard before its body begins.
        """
        sinks = check_sinks(sinks)
        with self._everything:
            while not self._leaving:
                await self._take_part(body, sinks)

    async def _take_part(self, body: Body, sinks: Sequence[Sink]) -> None:
        """Take part until told to leave, or until the seat is lost: then others may count us as gone, and so do we."""
        term: Tenure | None = None
        try:
            async with AsyncExitStack() as stack:
                member, term = await self._take_seat(stack)
                self._part = Part(self._book, member, term.token, self._terms, self._timing)
                await self._part.take(body, sinks)
        except TenureOver:
            if term is None or term.reason is None:  # It is a body's, about something else.
                raise
        except BaseExceptionGroup as several:
            raise _only(several) from None
        finally:
            self._part = None

    async def _take_seat(self, stack: AsyncExitStack) -> tuple[str, Tenure]:
        """Return under which name we take part, and the tenure in its seat, which ends with ``stack``."""
        for number in numbers():
            member = str(number) if self._terms.member is None else self._terms.member
            stay = Stay(self._book.seat(member).desk, ())
            term = await self._entered(stay)
            if term is not None:
                stack.push_async_exit(stay)
                return member, term
        raise AssertionError("there is no end of numbers")

    async def _entered(self, stay: Stay) -> Tenure | None:
        """Wait for a seat of our own, or ask once for one that may be another's: None, if it is."""
        while True:
            try:
                return await stay.enter(_ASK_ONCE if self._terms.member is None else None)
            except StoreError as error:
                _LOG.warning("%s; trying again", error)
                await anyio.sleep(self._timing.renew_every_ns / 1e9)


def _only(several: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the exception in a group that has one, or the group."""
    if len(several.exceptions) > 1:
        return several
    only = several.exceptions[0]
    return _only(only) if isinstance(only, BaseExceptionGroup) else only
