"""A ledger and a clock for tests of the scheduler: offices that begin and end, and what was recorded and told."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from tenure import Election, MemoryStore
from tenure.apps.cron import Cron, Job, Run
from tenure.apps.cron.jobs import Key
from tenure.apps.cron.records import Record, Records
from tenure.apps.cron.tenancy import Tells
from tenure.apps.ledger.opening import open_ledger

NOON_MS = 1_800_014_400_000
MINUTE_MS = 60_000


class Told(Tells):
    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def say(self, event: str, text: str, **_: object) -> None:
        self.events.append((event, text))

    complain = say


class Stage:
    """One ledger, and a clock that stands where it is put."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "ledger.db"
        self.store, self.now_ms, self.told = MemoryStore(), NOON_MS, Told()
        self.ledger = open_ledger(f"sqlite://{self.path}")
        self.election = Election(self.store, "cron", ttl=3)
        self.records = Records("sqlite", "cron")
        self.fence = ""

    @asynccontextmanager
    async def office(self, *jobs: Job, is_lost: bool = False, **settings: Any) -> AsyncIterator[Cron]:
        """Be in office for as long as the block lasts, and let what is under way end; or be lost, and leave it as it is."""
        cron = Cron(self.ledger, jobs, tells=self.told, now_ms=lambda: self.now_ms, **settings)

        async def body(term: Any) -> None:
            self.fence = term.fence
            await cron.run(term)

        leading = asyncio.create_task(self.election.lead(body, sinks=[self.ledger]))
        try:
            yield cron
            if not is_lost:
                cron.drain()
                await leading
        finally:
            leading.cancel()
            await asyncio.wait([leading])

    async def see_first(self, *jobs: Job) -> None:
        """Be in office for as long as it takes to know these jobs: they are due from now on."""
        async with self.office(*jobs):
            await self.known(*(job.id for job in jobs))

    async def resume(self, job: Job) -> None:
        """Pause a job and let it run again, as people do whose clock was ahead."""
        for paused in (True, False):
            assert await self.ledger.ask(self.records.paused(job, self.now_ms, paused=paused))

    async def runs(self) -> list[Record]:
        if not self.path.exists():
            return []
        with closing(sqlite3.connect(self.path)) as connection:
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'tenure_cron_run'").fetchone():
                return []
        return await self.ledger.ask(self.records.runs(None, None, 1000))

    async def until(self, condition: Callable[[list[Record]], object]) -> list[Record]:
        while True:
            runs = await self.runs()
            if condition(runs):
                return runs
            await asyncio.sleep(0.02)

    async def heard(self, event: str) -> str:
        """Return what was told of such an event, once it was."""
        while True:
            for one, text in self.told.events:
                if one == event:
                    return text
            await asyncio.sleep(0.02)

    async def known(self, *job_ids: str) -> None:
        """Return when the scheduler in office knows these jobs."""
        while True:
            with closing(sqlite3.connect(self.path)) as connection:
                if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'tenure_cron_run'").fetchone():
                    found = {job for (job,) in connection.execute("SELECT job FROM tenure_cron_job")}
                    if found >= set(job_ids):
                        return
            await asyncio.sleep(0.02)


def play(tmp_path: Path, test: Callable[[Stage], Awaitable[None]]) -> None:
    async def bounded() -> None:
        stage = Stage(tmp_path)
        try:
            async with asyncio.timeout(60):
                await test(stage)
        finally:
            await stage.ledger.close()

    asyncio.run(bounded())


def settled(count: int) -> Callable[[list[Record]], bool]:
    return lambda runs: len([run for run in runs if run.state not in ("pending", "running")]) == count


def has(key: Key, state: str) -> Callable[[list[Record]], bool]:
    return lambda runs: any(run.key == key and run.state == state for run in runs)


async def nothing(_: Run) -> None:
    pass


class Noting:
    """Work that notes for which runs it was called."""

    def __init__(self) -> None:
        self.seen: list[Key] = []

    async def work(self, run: Run) -> None:
        self.seen.append(run.key)

    def times_ms(self, job_id: str) -> list[int]:
        return [key.scheduled_ms for key in self.seen if key.job == job_id]
