"""The worker thread: whatever becomes of it, whoever asked is answered."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tenure.clock import VirtualClock
from tenure.errors import OutcomeUnknown, Unreachable
from tenure.stores.sqlite.desk import Desk
from tenure.stores.sqlite.host import Host
from tenure.stores.sqlite.session import READ, Request, Session
from tenure.stores.sqlite.worker import Worker

pytestmark = pytest.mark.anyio

PATIENCE_S = 60


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class SlowSession(Session):
    """Waits for its cue before it carries anything out."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk, VirtualClock(1))
        self.begun, self.cue = threading.Event(), threading.Event()

    def carry_out(self, requests: Sequence[Request]) -> list[object]:
        self.begun.set()
        self.cue.wait(PATIENCE_S)
        return super().carry_out(requests)


class MistakenSession(SlowSession):
    def carry_out(self, requests: Sequence[Request]) -> list[object]:
        super().carry_out(requests)
        raise ZeroDivisionError


class UntidySession(SlowSession):
    """Finds others in its way when it tidies up, three times."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.tries, self.tidied_up = 0, threading.Event()
        self.cue.set()

    def tidy(self) -> bool:
        self.tries += 1
        if self.tries > 3:
            self.tidied_up.set()
        return self.tries > 3


Running = tuple[Worker, "asyncio.Future[Any]"]


@asynccontextmanager
async def reading(session: SlowSession) -> AsyncIterator[Running]:
    """A worker in the middle of a request."""
    worker = Worker(session, lambda: None)
    async with asyncio.timeout(PATIENCE_S):
        await worker.start()
        first = asyncio.ensure_future(worker.call(READ, "e"))
        await asyncio.to_thread(session.begun.wait, PATIENCE_S)
        try:
            yield worker, first
        finally:
            session.cue.set()
            await worker.stop_soon()
            worker.join()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "x.db", "sqlite://x.db", lambda: Host("boot", "time"))


async def test_what_is_sent_after_the_end_is_turned_away_and_what_was_sent_before_is_carried_out(desk: Desk) -> None:
    async with reading(session := SlowSession(desk)) as (worker, first):
        stopped = worker.stop_soon()
        behind = asyncio.ensure_future(worker.call(READ, "e"))
        await asyncio.sleep(0)
        session.cue.set()
        assert await first is None
        with pytest.raises(Unreachable, match="the store is closed"):
            await behind
        await stopped
        with pytest.raises(Unreachable, match="the store is closed"):
            await worker.call(READ, "e")


async def test_a_mistake_of_ours_leaves_nobody_waiting_and_is_forgotten_with_its_connection(desk: Desk) -> None:
    async with reading(session := MistakenSession(desk)) as (worker, first):
        behind = asyncio.ensure_future(worker.call(READ, "e"))
        await asyncio.sleep(0)
        session.cue.set()
        for asked in (first, behind):
            with pytest.raises(OutcomeUnknown, match=r"a mistake of ours.*ZeroDivisionError\(\) at test_sqlite_worker"):
                await asked
    assert desk.opened_count == 2


async def test_a_mistake_in_the_last_batch_does_not_hide_the_wish_to_stop(desk: Desk) -> None:
    async with reading(session := MistakenSession(desk)) as (worker, _):
        behind = asyncio.ensure_future(worker.call(READ, "e"))
        await asyncio.sleep(0)
        stopped = worker.stop_soon()
        session.cue.set()
        with pytest.raises(OutcomeUnknown):
            await behind
        await stopped


async def test_what_could_not_be_tidied_up_is_tried_again_although_nobody_asks_for_anything(desk: Desk) -> None:
    async with reading(session := UntidySession(desk)) as (_, first):
        assert await first is None
        assert await asyncio.to_thread(session.tidied_up.wait, PATIENCE_S)
