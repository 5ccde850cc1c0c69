"""Apply what is pending, as the one runner in office. Runs on asyncio.

Rules of this file
1. A step is recorded in the transaction that applies it, under the token of the tenure: there is no moment in which it is applied
   and not recorded, and no runner that was succeeded applies anything. That it was applied is the last thing recorded.
2. A step without a transaction is recorded twice, before it and after it. A runner that dies between leaves it begun, and who comes
   next begins it again only if the step says that it may be.
3. What was applied is read anew in office. What was read before may be old.
"""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tenure.apps.ledger.base import Ledger
from tenure.apps.ledger.opening import open_ledger
from tenure.apps.migrate import records
from tenure.apps.migrate.plan import Plan, Record, plan
from tenure.apps.migrate.records import Records
from tenure.apps.migrate.steps import How, Step, steps_of
from tenure.election import Election
from tenure.errors import Refused, TenureError, redact
from tenure.office.on_loop import Stay
from tenure.office.opened import OpenStore
from tenure.office.tenure import Tenure
from tenure.timing import Timing

ELECTION = "migrations"
# Locks of a transaction go when its runner has said nothing for this long. A step in Python may compute for as long. Less than
# what servers wait for a lock by default, so that a successor outlasts a runner that is frozen.
IDLE_S = 20.0


class StepFailed(TenureError):
    """A step was refused, or raised. Nothing of it was applied, unless it has no transaction. The steps before it stay."""

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
class Candidature:
    """Where, and for how long, a runner stands for office. ``wait_s``: None is for ever, 0 not at all."""

    store: OpenStore
    election: str = ELECTION
    timing: Timing | None = None
    wait_s: float | None = None


@dataclass(frozen=True, slots=True)
class Applied:
    """One step that this runner has applied."""

    step: Step
    token: int
    took_s: float


class Migration:
    """The steps of a folder and a database: ``async with Migration(folder, url) as migration``.

    Promises that each step is applied once, whoever runs at the same time and whenever a runner dies, as long as it has a
    transaction and leaves it alone. Does not promise it of a step without one: a runner that wakes from a long sleep may carry out
    what another has begun meanwhile. Nor does anything here undo a step.
    """

    def __init__(self, folder: Path, database: str, *, allow_newer: bool = False) -> None:
        self.ledger = open_ledger(database, idle_s=IDLE_S)
        self.steps = steps_of(folder, self.ledger.kind)
        self._database, self._allow_newer = database, allow_newer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.ledger.close()

    async def status(self) -> tuple[list[Record], Plan]:
        """Return what was applied and what is pending. It may have changed when you read it. Changes nothing."""
        found = await self.ledger.look(records.found(self.ledger)) or []
        return found, plan(self.steps, found, in_office=False, allow_newer=self._allow_newer)

    async def settle(self, number: int, state: str, candidature: Candidature) -> bool:
        """Record, in office, what somebody has found out about a step that was begun; returns whether there was such a step."""
        async with _office(candidature, self.ledger) as term:
            table = await self.ledger.record(term, records.where(self.ledger))
            return table is not None and await self.ledger.record(term, table.settled(number, state))

    async def run(self, candidature: Candidature, *, told: Callable[[Applied], None] = lambda _: None) -> list[Applied]:
        """Apply what is pending, and return it. If there is nothing to do, no office is taken.

        Raises NotInTime, StepFailed, StaleToken and, if the office was lost, TenureOver.
        """
        _, due = await self.status()
        if not due.pending:
            return []
        async with _office(candidature, self.ledger) as term:
            return await self._apply_all(term, told)

    async def _apply_all(self, term: Tenure, told: Callable[[Applied], None]) -> list[Applied]:
        table = await self.ledger.record(term, records.where(self.ledger))
        if table is None:
            # Not before office: a step of another runner's may keep everybody from writing for longer than a database is waited for.
            await self.ledger.ask(records.create(self.ledger))
            table = await self.ledger.record(term, records.where(self.ledger))
        if table is None:
            raise Refused(self.ledger.address, "record", f"the table {records.TABLE} is not there any more")
        found = await self.ledger.record(term, table.all())
        begun = {record.number for record in found if record.state == "begun"}
        done = []
        for step in plan(self.steps, found, in_office=True, allow_newer=self._allow_newer).pending:
            began_s = time.monotonic()
            await self._apply(step, term, table, again=step.number in begun)
            done.append(Applied(step, term.token, time.monotonic() - began_s))
            told(done[-1])
        return done

    async def _apply(self, step: Step, term: Tenure, table: Records, *, again: bool) -> None:
        # What a step sets for its session, such as a search path, ends with it: the next one has another connection.
        ledger = open_ledger(self._database, idle_s=IDLE_S)
        try:
            with _Blamed(step):
                if step.how is How.TRANSACTION:
                    await ledger.record(term, table.applied(step, term.token))
                else:
                    await self.ledger.record(term, table.begun(step, term.token, again=again))
                    term.check()  # Nothing fences what comes now, so at least the clock is asked.
                    await ledger.ask(records.done(step), one_by_one=True)
                    await self.ledger.record(term, table.ended(step, term.token))
        finally:
            await ledger.close()


class _Blamed:
    """What is refused, or raised by the step's own Python, is a step that failed. Whatever else is raised passes."""

    def __init__(self, step: Step) -> None:
        self._step = step

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        step = self._step
        if isinstance(error, Refused):
            raise StepFailed(step.number, step.name, error.detail) from error
        if isinstance(error, Exception) and not isinstance(error, TenureError) and (line := step.line_of(error)):
            told = " ".join(f"{type(error).__name__}: {error}".split())
            raise StepFailed(step.number, step.name, f"{told} ({step.file}, line {line})") from error


@asynccontextmanager
async def _office(candidature: Candidature, ledger: Ledger) -> AsyncIterator[Tenure]:
    """Take office with the ledger sealed. Loss cancels the block."""
    stay = Stay(Election(candidature.store, candidature.election, timing=candidature.timing).desk, [ledger])
    term = await stay.enter(candidature.wait_s)
    if term is None:
        assert candidature.wait_s is not None, "who waits for ever gets office, or an exception"
        raise NotInTime(candidature.wait_s)
    async with AsyncExitStack() as stack:
        stack.push_async_exit(stay.__aexit__)
        yield term
