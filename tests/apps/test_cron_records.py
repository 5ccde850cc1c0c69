"""Runs move only by conditional updates under the fence, and every entry may be carried out twice, in every database."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from tenure.apps.cron.due import Due, Gap
from tenure.apps.cron.jobs import Job, Key, OnLoss
from tenure.apps.cron.layout import prepare
from tenure.apps.cron.queue import Waiting
from tenure.apps.cron.records import Ending, Record, Records
from tenure.apps.cron.schedule import At, Every
from tenure.apps.ledger.base import Entry, Ledger, T
from tenure.apps.ledger.opening import open_ledger
from tenure.errors import StaleToken
from tenure.model import Token
from tests.apps.conftest import CLUSTERS

AGAIN = Job("again", Every(1000), ("true",), idempotent=True)
ONCE = Job("once", Every(1000), ("true",))
JOBS = {job.id: job for job in (AGAIN, ONCE)}
DONE = Ending("completed", 9000, 0, "", "printed", 0)


class Book:
    """A ledger as leaders and people use it. Whatever a leader records is carried out twice, as if the first answer had been lost."""

    def __init__(self, ledger: Ledger, election: str) -> None:
        self.ledger, self.records, self.fence = ledger, Records(ledger.kind, election), f"store/{election}"

    def term(self, token: int) -> Any:
        return SimpleNamespace(fence=self.fence, token=token)

    async def lead(self, token: int, entry: Callable[[], Entry[T]]) -> T:
        first = await self.ledger.record(self.term(token), entry())
        second = await self.ledger.record(self.term(token), entry())
        assert first == second
        return second

    async def enter(self, token: int, now_ms: int = 5000) -> Any:
        await self.ledger.seal(self.fence, Token(token))
        jobs = JOBS.values()
        await self.ledger.record(self.term(token), self.records.entered(jobs, token, now_ms))
        return await self.lead(token, lambda: self.records.entered(jobs, token, now_ms))

    async def schedule(self, token: int, *keys: Key) -> None:
        found = Due(keys, (), {key.job: key.scheduled_ms for key in keys})
        await self.lead(token, lambda: self.records.scheduled(found, JOBS, dict.fromkeys(keys, 6000)))

    async def begin(self, token: int, key: Key, attempt: int = 1, on_loss: OnLoss | None = None) -> bool:
        run = Waiting(key, 0, on_loss or JOBS[key.job].on_loss, attempt - 1)
        return await self.lead(token, lambda: self.records.begun(run, token, 7000))

    async def end(self, token: int, key: Key, attempt: int = 1, end: Ending = DONE) -> bool:
        return await self.lead(token, lambda: self.records.ended(key, token, attempt, end))

    async def runs(self) -> list[Record]:
        return await self.ledger.ask(self.records.runs(None, None, 100))

    async def states(self) -> dict[str, str]:
        return {str(run.key): run.state for run in await self.runs()}


AGAIN_6, ONCE_6 = Key("again", 6000), Key("once", 6000)


async def a_run_goes_from_pending_to_running_to_its_end_and_stays_there(book: Book) -> None:
    await book.enter(1)
    await book.schedule(1, AGAIN_6)
    assert await book.states() == {"again@1970-01-01T00:00:06Z": "pending"}
    assert not await book.end(1, AGAIN_6)
    assert await book.begin(1, AGAIN_6)
    assert not await book.begin(1, AGAIN_6, attempt=2)
    assert await book.end(1, AGAIN_6)
    assert not await book.begin(1, AGAIN_6, attempt=2)
    assert not await book.end(1, AGAIN_6, end=Ending("failed", 9500, 1, "too late"))
    [kept] = await book.runs()
    assert (kept.state, kept.attempt, kept.token, kept.code, kept.tail) == ("completed", 1, 1, 0, "printed")
    assert (kept.started_ms, kept.ended_ms) == (7000, 9000)


async def the_same_time_of_the_same_job_is_one_run(book: Book) -> None:
    await book.enter(1)
    await book.schedule(1, AGAIN_6)
    assert await book.begin(1, AGAIN_6)
    await book.schedule(1, AGAIN_6)  # A clock that went back, for instance.
    assert await book.states() == {"again@1970-01-01T00:00:06Z": "running"}


async def a_leader_that_was_succeeded_moves_nothing(book: Book) -> None:
    await book.enter(1)
    await book.schedule(1, AGAIN_6, ONCE_6)
    assert await book.begin(1, AGAIN_6)
    await book.enter(2)
    for entry in (
        lambda: book.begin(1, ONCE_6),
        lambda: book.end(1, AGAIN_6),
        lambda: book.schedule(1, Key("once", 7000)),
    ):
        with pytest.raises(StaleToken):
            await entry()
    assert set((await book.states()).values()) == {"pending"}


async def a_successor_does_with_what_was_under_way_as_the_run_says(book: Book) -> None:
    await book.enter(1)
    await book.schedule(1, AGAIN_6, ONCE_6)
    assert await book.begin(1, AGAIN_6)
    assert await book.begin(1, ONCE_6)
    found = await book.enter(2)
    assert {(str(lost.key), lost.state) for lost in found.settled} == {
        ("again@1970-01-01T00:00:06Z", "pending"),
        ("once@1970-01-01T00:00:06Z", "abandoned"),
    }
    assert all("token 1 was lost in attempt 1" in lost.detail for lost in found.settled)
    assert [lost.key for lost in found.waiting] == [AGAIN_6]
    assert await book.begin(2, AGAIN_6, attempt=2)
    assert not await book.begin(2, ONCE_6, attempt=2)
    # Whoever has no such job, or another policy for it, goes by what was said when it was scheduled.
    renamed = Job("again", Every(1000), ("true",), idempotent=False)
    await book.ledger.seal(book.fence, Token(3))
    found = await book.lead(3, lambda: book.records.entered([renamed], 3, 8000))
    assert [(lost.key, lost.state) for lost in found.settled] == [(AGAIN_6, "pending")]


async def a_run_is_begun_only_by_who_knows_what_becomes_of_it(book: Book) -> None:
    await book.enter(1)
    await book.schedule(1, AGAIN_6, ONCE_6)
    assert not await book.begin(1, AGAIN_6, on_loss="abandon")
    assert not await book.begin(1, ONCE_6, on_loss="retry")
    assert set((await book.states()).values()) == {"pending"}


async def what_was_begun_is_not_given_up_and_a_successor_finds_all_that_waits(book: Book) -> None:
    await book.enter(1)
    await book.schedule(1, AGAIN_6, ONCE_6, Key("once", 7000))
    assert await book.begin(1, AGAIN_6)
    assert await book.end(1, AGAIN_6, end=Ending("pending", 8000, 1, "exited with 1", "", 1, 9000))
    assert not await book.lead(1, lambda: book.records.given_up(AGAIN_6, "skipped", 8000))
    assert await book.lead(1, lambda: book.records.given_up(ONCE_6, "skipped", 8000))
    found = await book.enter(2)
    assert found.settled == []
    assert [(run.key, run.attempt, run.failures, run.not_before_ms) for run in found.waiting] == [
        (AGAIN_6, 1, 1, 9000),
        (Key("once", 7000), 0, 0, 6000),
    ]


async def a_failure_is_pending_again_under_the_same_key(book: Book) -> None:
    await book.enter(1)
    await book.schedule(1, AGAIN_6)
    assert await book.begin(1, AGAIN_6)
    assert await book.end(1, AGAIN_6, end=Ending("pending", 8000, 1, "exited with 1", "", 1, 9000))
    assert await book.begin(1, AGAIN_6, attempt=2)
    assert await book.end(1, AGAIN_6, attempt=2)
    [kept] = await book.runs()
    assert (kept.state, kept.attempt) == ("completed", 2)


async def a_pause_that_was_committed_lets_nothing_begin_but_what_people_trigger(book: Book) -> None:
    await book.enter(1)
    await book.schedule(1, AGAIN_6)
    assert await book.ledger.ask(book.records.paused(AGAIN, 6500, paused=True))
    assert not await book.ledger.ask(book.records.paused(AGAIN, 6500, paused=True))
    assert not await book.begin(1, AGAIN_6)
    by_hand = await book.ledger.ask(book.records.triggered(AGAIN, 6600))
    assert await book.begin(1, by_hand)
    assert await book.ledger.ask(book.records.paused(AGAIN, 9900, paused=False))
    assert await book.begin(1, AGAIN_6)
    rows, _ = await book.ledger.ask(book.records.looked(at_all=True))
    assert rows["again"].mark_ms == 9900  # What passed meanwhile is not due.


async def marks_only_rise_and_what_is_missed_is_on_record(book: Book) -> None:
    await book.enter(1)
    found = Due((Key("again", 9000),), (Gap(Key("again", 8000), 5000),), {"again": 9000})
    await book.lead(1, lambda: book.records.scheduled(found, JOBS, {Key("again", 9000): 9000}))
    await book.schedule(1, AGAIN_6)
    rows = await book.ledger.ask(book.records.jobs())
    assert rows["again"].mark_ms == 9000
    missed = next(run for run in await book.runs() if run.key.scheduled_ms == 8000)
    assert (missed.state, missed.attempt) == ("abandoned", 0)
    assert "due since 1970-01-01T00:00:05Z" in missed.detail


async def another_schedule_counts_from_when_it_is_seen_and_a_moment_that_had_passed_is_told(book: Book) -> None:
    await book.enter(1)
    other, passed = Job("again", Every(7000), ("true",)), Job("past", At(4000), ("true",))
    found = await book.ledger.record(
        book.term(1),
        book.records.entered([other, passed], 1, 60_000),
    )
    assert found.changed == ["again"]
    assert found.jobs["again"].mark_ms == 60_000
    assert set(found.jobs) == {"again", "once", "past"}
    assert await book.states() == {"past@1970-01-01T00:00:04Z": "abandoned"}
    assert [(run.key, run.attempt) for run in found.settled] == [(Key("past", 4000), 0)]


async def a_moment_that_was_moved_and_has_passed_is_on_record_unless_it_was_before(book: Book) -> None:
    async def moved(to_ms: int, now_ms: int, token: int) -> list[Key]:
        job = Job("moved", At(to_ms), ("true",))
        await book.ledger.seal(book.fence, Token(token))
        first = await book.ledger.record(book.term(token), book.records.entered([job], token, now_ms))
        again = await book.ledger.record(book.term(token), book.records.entered([job], token, now_ms))
        assert first.settled == again.settled  # Also if the first answer was lost.
        return [run.key for run in first.settled]

    assert await moved(10_000, 5000, 1) == []
    assert await moved(11_000, 12_000, 2) == [Key("moved", 11_000)]
    [missed] = await book.runs()
    assert (missed.state, missed.attempt) == ("abandoned", 0)
    assert missed.detail == "missed: its time had passed when it was first seen"
    assert await moved(20_000, 13_000, 3) == []
    assert await moved(11_000, 14_000, 4) == []  # That is known.
    assert len(await book.runs()) == 1
    # A clock before this one was ahead: up to its mark nothing will ever be due, though it is yet to come.
    assert await moved(13_500, 13_000, 5) == [Key("moved", 13_500)]
    paused = Job("moved", At(13_500), ("true",))
    assert await book.ledger.ask(book.records.paused(paused, 15_000, paused=True))
    assert await moved(16_000, 17_000, 6) == []  # What passes in a pause is not missed.
    assert len(await book.runs()) == 2


async def the_newest_runs_of_a_job_are_kept_and_what_has_not_ended(book: Book) -> None:
    await book.enter(1)
    keys = [Key("again", 1000 * number) for number in range(1, 11)]
    await book.schedule(1, *keys, ONCE_6)
    for key in keys[1:]:
        assert await book.begin(1, key)
        assert await book.end(1, key)
    await book.lead(1, lambda: book.records.pruned("again", 3))
    kept = sorted(run.key.scheduled_ms for run in await book.runs() if run.key.job == "again")
    assert kept == [1000, 8000, 9000, 10_000]
    newest = await book.ledger.ask(book.records.newest())
    assert {job: run.key.scheduled_ms for job, run in newest.items()} == {"again": 10_000, "once": 6000}


async def what_was_forgotten_is_not_run_again_when_a_clock_was_set_back(book: Book) -> None:
    await book.enter(1)
    keys = [Key("once", 1000 * number) for number in range(6, 16)]
    await book.schedule(1, *keys)
    for key in keys:
        assert await book.begin(1, key)
        assert await book.end(1, key)
    await book.lead(1, lambda: book.records.pruned("once", 3))  # 13, 14 and 15 are kept
    for paused in (True, False):
        assert await book.ledger.ask(book.records.paused(ONCE, 8500, paused=paused))
    row = (await book.ledger.ask(book.records.jobs()))["once"]
    assert (row.mark_ms, row.forgotten_ms, row.changes) == (12_000, 12_000, 2)
    # Whoever has an older mark in mind records none of them anew, and those whose time is yet to come stay.
    await book.lead(1, lambda: book.records.pruned("once", 1))
    gap = Gap(Key("once", 8000), 5000)
    found = Due(tuple(keys[3:]), (gap,), {"once": 15_000})
    await book.lead(1, lambda: book.records.scheduled(found, JOBS, dict.fromkeys(keys, 0)))
    assert {run.key.scheduled_ms: run.state for run in await book.runs()} == dict.fromkeys(
        (13_000, 14_000, 15_000), "completed"
    )


async def a_resumed_job_is_due_from_now_on_if_nothing_later_was_forgotten(book: Book) -> None:
    await book.enter(1)
    await book.schedule(1, AGAIN_6, Key("again", 99_000))
    for paused in (True, False):
        assert await book.ledger.ask(book.records.paused(AGAIN, 7000, paused=paused))
    assert (await book.ledger.ask(book.records.jobs()))["again"].mark_ms == 7000


async def every_order_is_a_run_of_its_own(book: Book) -> None:
    await book.enter(1)
    await book.schedule(1, AGAIN_6)
    orders = [await book.ledger.ask(book.records.triggered(AGAIN, at_ms)) for at_ms in (6000, 6000, 6999, 6999)]
    # 7000 is due by schedule, and is left to it.
    assert [key.scheduled_ms for key in orders] == [6001, 6002, 6999, 7001]
    at_once = await asyncio.gather(*(book.ledger.ask(book.records.triggered(ONCE, 9100)) for _ in range(5)))
    assert {key.scheduled_ms for key in at_once} == set(range(9100, 9105))
    assert {run.key for run in await book.runs() if run.origin == "person"} == {*orders, *at_once}


PROPERTIES = [
    a_run_goes_from_pending_to_running_to_its_end_and_stays_there,
    the_same_time_of_the_same_job_is_one_run,
    a_leader_that_was_succeeded_moves_nothing,
    a_successor_does_with_what_was_under_way_as_the_run_says,
    a_run_is_begun_only_by_who_knows_what_becomes_of_it,
    what_was_begun_is_not_given_up_and_a_successor_finds_all_that_waits,
    a_failure_is_pending_again_under_the_same_key,
    a_pause_that_was_committed_lets_nothing_begin_but_what_people_trigger,
    marks_only_rise_and_what_is_missed_is_on_record,
    another_schedule_counts_from_when_it_is_seen_and_a_moment_that_had_passed_is_told,
    a_moment_that_was_moved_and_has_passed_is_on_record_unless_it_was_before,
    the_newest_runs_of_a_job_are_kept_and_what_has_not_ended,
    what_was_forgotten_is_not_run_again_when_a_clock_was_set_back,
    a_resumed_job_is_due_from_now_on_if_nothing_later_was_forgotten,
    every_order_is_a_run_of_its_own,
]


def check_properties(url: str, *properties: Callable[[Book], Awaitable[None]]) -> None:
    """Check each in an election of its own."""

    async def check() -> None:
        ledger = open_ledger(url)
        try:
            async with asyncio.timeout(60):
                await asyncio.gather(*(prepare(ledger) for _ in range(3)))
                for one in properties:
                    await one(Book(ledger, f"cron/{uuid4().hex}"))
        finally:
            await ledger.close()

    asyncio.run(check())


@pytest.mark.parametrize("one", PROPERTIES, ids=lambda one: one.__name__)
def test_a_file_keeps_its_runs_as_promised(one: Callable[[Book], Awaitable[None]], tmp_path: Path) -> None:
    check_properties(f"sqlite://{tmp_path}/ledger.db", one)


@pytest.mark.parametrize("kind", CLUSTERS)
def test_servers_keep_their_runs_as_promised(kind: str, new_database: Callable[[str], str]) -> None:
    check_properties(new_database(kind), *PROPERTIES)
