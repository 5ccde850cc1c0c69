"""A warm standby: ready before it stands, following while it waits, and quiet before its body begins."""

import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from tenure import Standby, sync
from tenure.election import Election
from tenure.errors import ConfigError, Reason, TenureOver
from tenure.office.opened import open_store
from tenure.office.tenure import Tenure
from tenure.stores.memory import MemoryEngine, MemoryStore

TTL = 2.0
On = Callable[[Callable[[], Awaitable[None]]], None]


class Feed:
    """A log that grows, and a standby's copy of it."""

    def __init__(self) -> None:
        self.log, self.copy = [1, 2, 3], list[int]()
        self.following = 0
        self.news = anyio.Event()

    def write(self, value: int) -> None:
        self.log.append(value)
        news, self.news = self.news, anyio.Event()
        news.set()

    async def follow(self, standby: Standby) -> None:
        self.following += 1
        try:
            while True:
                self.copy[:] = self.log
                standby.ready()
                await self.news.wait()
        finally:
            self.following -= 1


def test_a_standby_that_follows_a_feed_has_all_of_it_when_its_body_begins(on: On) -> None:
    async def test() -> None:
        store, feed = MemoryStore(), Feed()

        async def body(_: Tenure) -> list[int]:
            assert not feed.following, "nobody else writes to what the body has"
            return list(feed.copy)

        async with anyio.create_task_group() as tasks:
            found: list[list[int]] = []

            async def stand() -> None:
                found.append(await Election(store, "x", ttl=TTL).lead(body, prepare=feed.follow))

            async with Election(store, "x", ttl=TTL).once():
                tasks.start_soon(stand)
                while not feed.following:
                    await anyio.sleep(0.01)
                feed.write(4)
                await anyio.wait_all_tasks_blocked()
        assert found == [[1, 2, 3, 4]]

    on(test)


def test_who_is_not_ready_does_not_stand(on: On) -> None:
    async def test() -> None:
        election = Election(MemoryStore(), "x", ttl=TTL)
        may_go_on = anyio.Event()

        async def prepare(standby: Standby) -> None:
            await may_go_on.wait()
            standby.ready()
            standby.ready()
            await anyio.sleep_forever()

        async def body(term: Tenure) -> int:
            return term.token

        async with anyio.create_task_group() as tasks:
            found: list[int] = []

            async def stand() -> None:
                found.append(await election.lead(body, prepare=prepare))

            tasks.start_soon(stand)
            await anyio.wait_all_tasks_blocked()
            assert await election.incumbent() is None
            async with Election(election.desk.given, "x", ttl=TTL).once(), anyio.create_task_group():
                may_go_on.set()
        assert found == [2]

    on(test)


def test_one_that_returns_is_ready_and_one_that_raises_ends_the_standing(on: On) -> None:
    async def test() -> None:
        election = Election(MemoryStore(), "x", ttl=TTL)

        async def load(_: Standby) -> None:
            await anyio.lowlevel.checkpoint()

        async def broken(_: Standby) -> None:
            raise OSError("no such feed")

        async def of_another(_: Standby) -> None:
            raise TenureOver(7, Reason.LAPSED)

        async def breaks_later(standby: Standby) -> None:
            standby.ready()
            await anyio.sleep(0.2)
            raise OSError("the feed is gone")

        async def body(term: Tenure) -> int:
            return term.token

        assert await election.lead(body, prepare=load) == 1
        with pytest.raises(OSError, match="no such feed"):
            await election.lead(body, prepare=broken)
        with pytest.raises(TenureOver, match="tenure 7"):
            await election.lead(body, prepare=of_another)
        async with Election(election.desk.given, "x", ttl=TTL).once():
            with pytest.raises(OSError, match="the feed is gone"):
                await election.lead(body, prepare=breaks_later)
        assert await election.incumbent() is None

    on(test)


def test_after_a_loss_it_prepares_anew_before_it_stands_again(on: On) -> None:
    async def test() -> None:
        engine, happened = MemoryEngine(), list[str]()

        async def prepare(standby: Standby) -> None:
            happened.append("prepare")
            standby.ready()
            try:
                await anyio.sleep_forever()
            finally:
                happened.append("told")

        async def body(term: Tenure) -> str:
            happened.append(f"lead {term.token}")
            if term.token == 1:
                engine.delete("x")
                await anyio.sleep_forever()
            return "done"

        assert await Election(MemoryStore(engine), "x", ttl=TTL).lead(body, prepare=prepare) == "done"
        assert happened == ["prepare", "told", "lead 1", "prepare", "told", "lead 2"]

        async def of_another(term: Tenure) -> None:  # an error like any other
            raise TenureOver(term.token + 98, Reason.LAPSED)

        with pytest.raises(TenureOver) as raised:
            await Election(MemoryStore(), "x", ttl=TTL).lead(of_another, prepare=prepare)
        assert raised.value.token == 99

    on(test)


def test_a_leader_that_resigns_does_not_stand_again_and_one_that_gives_up_lets_others_go_first(on: On) -> None:
    async def test() -> None:
        store, tokens = MemoryStore(), list[int]()

        async def leave(term: Tenure) -> None:
            tokens.append(term.token)
            (term.resign if len(tokens) > 1 else term.give_up)()
            await anyio.sleep_forever()

        async def load(_: Standby) -> None:
            await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as tasks:

            async def other() -> None:
                async with Election(store, "x", ttl=TTL).once() as term:
                    tokens.append(-term.token)

            async def stand() -> None:
                await Election(store, "x", ttl=TTL).lead(leave, prepare=load)

            tasks.start_soon(stand)
            while not tokens:
                await anyio.sleep(0.01)
            tasks.start_soon(other)
        assert tokens == [1, -2, 3]

    on(test)


def test_a_store_that_is_closed_ends_a_warm_standing_with_the_reason(on: On) -> None:
    async def test() -> None:
        async with anyio.create_task_group() as tasks:
            began = anyio.Event()

            async def body(_: Tenure) -> None:
                began.set()
                await anyio.sleep_forever()

            async def load(_: Standby) -> None:
                await anyio.lowlevel.checkpoint()

            async with open_store("memory://") as store:

                async def stand() -> None:
                    with pytest.raises(ConfigError, match="was closed"):
                        await Election(store, "x", ttl=TTL).lead(body, prepare=load)

                tasks.start_soon(stand)
                await began.wait()

    on(test)


@pytest.mark.parametrize("scheme", ["memory://", "sqlite://{}/store.db"])
def test_a_store_that_was_closed_before_it_was_ready_is_an_error_and_not_a_wait(
    on: On, scheme: str, tmp_path: Path
) -> None:
    async def test() -> None:
        closed = anyio.Event()

        async def prepare(_: Standby) -> None:
            await closed.wait()

        async def body(_: Tenure) -> None:
            pytest.fail("it led")

        async with anyio.create_task_group() as tasks:
            async with open_store(scheme.format(tmp_path)) as store:

                async def stand() -> None:
                    with pytest.raises(ConfigError, match="was closed"):
                        await Election(store, "x", ttl=TTL).lead(body, prepare=prepare)

                tasks.start_soon(stand)
                await anyio.wait_all_tasks_blocked()
            closed.set()

    on(test)


def test_in_threads_it_is_told_by_its_standby_and_the_body_waits_for_it() -> None:
    engine, happened = MemoryEngine(), list[str]()

    def prepare(standby: sync.Standby) -> None:
        happened.append("prepare")
        standby.ready()
        while standby.sleep(60):
            pass
        happened.append("told")

    def body(term: sync.Tenure) -> str:
        happened.append(f"lead {term.token}")
        if term.token == 1:
            engine.delete("x")
            term.sleep(60)
        if term.token == 2:
            term.resign()
            term.sleep(60)
        return "done"

    election = sync.Election(MemoryStore(engine), "x", ttl=TTL)
    nothing: Any = election.lead(body, prepare=prepare)
    assert nothing is None
    assert election.lead(body, prepare=prepare) == "done"
    assert happened == [word for token in (1, 2, 3) for word in ("prepare", "told", f"lead {token}")]


def test_in_threads_a_feed_that_fails_ends_the_standing() -> None:
    election, other = (sync.Election(store, "x", ttl=TTL) for store in [MemoryStore()] * 2)
    failing = threading.Event()

    def breaks(standby: sync.Standby) -> None:
        standby.ready()
        failing.wait(30)
        raise OSError("the feed is gone")

    def broken(_: sync.Standby) -> None:
        raise OSError("no such feed")

    def body(term: sync.Tenure) -> int:
        return term.token

    with pytest.raises(OSError, match="no such feed"):
        election.lead(body, prepare=broken)
    with other.once():
        threading.Timer(0.2, failing.set).start()
        with pytest.raises(OSError, match="the feed is gone"):
            election.lead(body, prepare=breaks)
    assert election.incumbent() is None
    assert election.lead(body, prepare=lambda _: None) == 2
    with pytest.raises(TenureOver):
        election.lead(_raises, prepare=lambda _: None)


def _raises(_: sync.Tenure) -> None:
    raise TenureOver(99, Reason.LAPSED)
