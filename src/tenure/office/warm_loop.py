"""A warm standby on an event loop: ``prepare`` runs while the candidate waits, and has ended before its body begins.

The order is: prepare, ready, stand, office, prepare is cancelled and awaited, body. So what it made ready belongs to the body
alone from its first line. Nothing of this is in the way of the office: claims, seals and renewals go on as if there were none.
If the tenure ends before ``prepare`` has, its body never begins: it counts as ended at once, and ``prepare`` is awaited after.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import anyio

from tenure.clients.upkeep import failure_of
from tenure.errors import ConfigError, Reason, TenureOver
from tenure.office.desk import Desk
from tenure.office.eligibility import Question
from tenure.office.on_loop import LoopSitting
from tenure.office.sitting import Sitting, tenure_over
from tenure.office.tenure import Tenure
from tenure.office.term import Term
from tenure.sinks.base import Sink

T = TypeVar("T")

BY_CHOICE: Final = (Reason.RESIGNED, Reason.STALLED)


class Standby:
    """What ``prepare`` is given: how it says that it is ready, and so that this candidate may stand."""

    __slots__ = ("is_ready",)

    def __init__(self) -> None:
        self.is_ready = anyio.Event()

    def ready(self) -> None:
        """Say that office may come. Does not promise that it does, nor when. Saying it again changes nothing."""
        self.is_ready.set()


Prepare = Callable[[Standby], Awaitable[object]]


class WarmSitting(LoopSitting):
    """Stands once ``prepare`` is ready, and lets it run on until office comes."""

    __slots__ = ("_prepare", "_stood")

    def __init__(self, desk: Desk, sinks: Sequence[Sink], prepare: Prepare, eligible: Question | None) -> None:
        super().__init__(desk, sinks, eligible)
        self._prepare, self._stood = prepare, False

    def stand(self) -> None:
        """Not yet: who is not ready does not stand."""

    async def leave(self) -> None:
        if self._stood:
            await super().leave()
        else:  # There is nothing to release, and nobody would say that it has been.
            self._desk.leave()

    def _is_open(self) -> bool:
        """Say whether there still is a store to stand at: nobody evicts who does not stand."""
        try:
            if self._desk.store is self.seat.store:
                return True
        except ConfigError:
            pass
        self.evicted()
        return False

    async def _wait_for_start(self, *, ask_once: bool = False) -> Term | None:
        standby, following, ended = Standby(), anyio.CancelScope(), anyio.Event()
        prepare_failure: Exception | None = None
        async with anyio.create_task_group() as tasks:

            async def follow() -> None:
                nonlocal prepare_failure
                with following:
                    prepare_failure = await failure_of(self._prepare(standby))
                if prepare_failure is not None:
                    tasks.cancel_scope.cancel()
                standby.ready()  # One that returns has nothing to follow, and is ready.
                ended.set()

            tasks.start_soon(follow)
            await standby.is_ready.wait()
            if prepare_failure is None and self._is_open():
                self._stood = True
                super().stand()
                term = await super()._wait_for_start(ask_once=ask_once)
                if term is not None:
                    following.cancel()
                    await self._wait_for_end(term, ended)
            tasks.cancel_scope.cancel()
        if prepare_failure is not None:
            self.failure = prepare_failure  # Also a TenureOver, which is of another tenure: this one had no body yet.
            raise prepare_failure
        if self._open is not None:
            self.tenure(self._open).progress(None)
        elif self.last is not None:
            raise tenure_over(self.last)
        return self._open

    async def _wait_for_end(self, term: Term, ended: anyio.Event) -> None:
        """Wait until ``prepare`` has ended. If the tenure ends first, it is left here: nobody will run in it."""
        # One that will not end must not keep an office that nobody fills: then the tenure is given up.
        self.tenure(term).progress(self._desk.timing.ttl_ns / 1e9)
        try:
            with self.cover(term):
                await ended.wait()
        finally:
            if not ended.is_set():
                self.body_over(stand_again=False)


async def lead_warm(  # noqa: PLR0913  (what ``lead`` was given)
    desk: Desk,
    sinks: Sequence[Sink],
    body: Callable[[Tenure], Awaitable[T]],
    prepare: Prepare,
    *,
    eligible: Question | None,
    once: bool,
) -> T:
    """Do what ``LoopSitting.lead`` does, and prepare before every standing: also after a loss, since the feed went on."""
    while True:
        sitting = WarmSitting(desk, sinks, prepare, eligible)
        lost = True

        async def lead(term: Tenure, sitting: WarmSitting = sitting) -> T:
            nonlocal lost
            try:
                return await body(term)
            except TenureOver as over:
                lost = sitting.is_loss(over, term)
                raise

        try:
            return await sitting.lead(lead, once=True)
        except TenureOver as over:
            if once or not lost:
                raise
            if not stands_again(sitting):
                return None  # type: ignore[return-value]  # it resigned
            if over.reason in BY_CHOICE:  # Others go first, as they do where nothing is prepared.
                await anyio.sleep(desk.timing.renew_every_ns / 1e9)


def stands_again(sitting: Sitting) -> bool:
    """Return whether a candidate that has lost its office stands again. Raises why it cannot, if it cannot."""
    if sitting.failure is not None:
        raise sitting.failure from None
    return sitting.last is None or not sitting.last.resigned
