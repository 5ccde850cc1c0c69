"""Apply what is pending, as the one runner in office. Runs on asyncio.

Rules of this file
1. A step is recorded in the transaction that applies it, under the token of the tenure: there is no moment in which it is applied
   and not recorded, and no runner that was succeeded applies anything.
2. A step without a transaction is recorded twice, before it and after it. A runner that dies between leaves it begun, and who comes
   next begins it again only if the step says that it may be.
3. What was applied is read anew in office. What was read before may be old.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tenure.apps.ledger.opening import open_ledger
from tenure.apps.migrate import records
from tenure.apps.migrate.plan import Plan, Record, plan
from tenure.apps.migrate.steps import How, Step, steps_of
from tenure.election import Election
from tenure.errors import Refused, TenureError, redact
from tenure.office.opened import OpenStore
from tenure.office.tenure import Tenure
from tenure.timing import Seconds, Timing

ELECTION = "migrations"
# Locks of a transaction go when its runner has said nothing for this long. A step in Python may compute for as long.
IDLE_S = 60.0


class StepFailed(TenureError):
    """The database refused a step. Nothing of it was applied, unless it has no transaction. The steps before it stay."""

    def __init__(self, number: int, name: str, detail: str) -> None:
        self.number, self.name, self.detail = number, redact(name), redact(detail)
        super().__init__(number, self.name, self.detail)

    def __str__(self) -> str:
        return f"step {self.number} {self.name} failed: {self.detail}"


class NotInTime(TenureError):
    """Another runner was in office for all of the time that we would wait."""

    def __init__(self, wait_s: float) -> None:
        self.wait_s = wait_s
        super().__init__(wait_s)

    def __str__(self) -> str:
        return f"another runner was in office for {self.wait_s:g} s"


@dataclass(frozen=True, slots=True)
class Applied:
    """One step that this runner has applied."""

    step: Step
    token: int
    took_s: float


class Migration:
    """The steps of a folder and a database: ``async with Migration(folder, url) as migration``.

    Promises that each step is applied once, whoever runs at the same time and whenever a runner dies, as long as it has a
    transaction. Does not promise it of a step without one: a runner that wakes from a long sleep may carry out what another has
    begun meanwhile. Nor does anything here undo a step.
    """

    def __init__(self, folder: Path, database: str, *, allow_newer: bool = False) -> None:
        self.ledger = open_ledger(database, idle_s=IDLE_S)
        self.steps = steps_of(folder, self.ledger.kind)
        self._allow_newer = allow_newer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.ledger.close()

    async def status(self) -> tuple[list[Record], Plan]:
        """Return what was applied and what is pending. It may have changed when you read it."""
        found = await self.ledger.ask(records.found(self.ledger))
        return found, plan(self.steps, found, allow_newer=self._allow_newer)

    async def settle(self, number: int, state: str) -> bool:
        """Record what somebody has found out about a step that was begun; returns whether there was such a step."""
        return bool(await self.ledger.ask(records.found(self.ledger))) and await self.ledger.ask(
            records.settled(number, state)
        )

    async def run(  # noqa: PLR0913  (each has a default but the first)
        self,
        store: OpenStore,
        *,
        election: str = ELECTION,
        timing: Timing | None = None,
        ttl: Seconds | None = None,
        wait_s: float | None = None,
        told: Callable[[Applied], None] = lambda _: None,
    ) -> list[Applied]:
        """Apply what is pending, and return it. If there is nothing to do, no office is taken.

        Waits for another runner at most ``wait_s``. Raises NotInTime, StepFailed, and TenureOver if the office was lost.
        """
        _, due = await self.status()
        if not due.pending:
            return []
        await self.ledger.ask(records.create(self.ledger))
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(wait_s):
                    office = Election(store, election, timing=timing, ttl=ttl).once(sinks=[self.ledger])
                    term = await stack.enter_async_context(office)
            except TimeoutError:
                assert wait_s is not None, "no time was set"
                raise NotInTime(wait_s) from None
            return await self._apply_all(term, told)
        raise AssertionError("a block that is left by an error passes it on")

    async def _apply_all(self, term: Tenure, told: Callable[[Applied], None]) -> list[Applied]:
        found = await self.ledger.record(term, records.recorded())
        begun = {record.number for record in found if record.state == "begun"}
        done = []
        for step in plan(self.steps, found, allow_newer=self._allow_newer).pending:
            began_s = time.monotonic()
            await self._apply(step, term, again=step.number in begun)
            done.append(Applied(step, term.token, time.monotonic() - began_s))
            told(done[-1])
        return done

    async def _apply(self, step: Step, term: Tenure, *, again: bool) -> None:
        try:
            if step.how is How.TRANSACTION:
                await self.ledger.record(term, records.applied(step, term.token))
            else:
                await self.ledger.record(term, records.begun(step, term.token, again=again))
                term.check()  # Nothing fences what comes now, so at least the clock is asked.
                await self.ledger.ask(records.done(step), one_by_one=True)
                await self.ledger.record(term, records.ended(step, term.token))
        except Refused as refused:
            raise StepFailed(step.number, step.name, refused.detail) from refused
