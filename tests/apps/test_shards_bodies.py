"""What becomes of a shard by its body, its store and its settings."""

import asyncio
import logging
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

import tenure
from tenure.apps.shards import Shard, Shards
from tenure.apps.shards.part import CLAIMS_AT_ONCE
from tenure.errors import ConfigError, Unreachable
from tenure.model import Bid, Document, Grant, Wait
from tenure.office.opened import LoopStore
from tenure.sinks import SQLiteSink
from tenure.stores.memory import MemoryStore
from tests.apps.crowd import TTL_S, Crowd, crowd_of, run


def test_a_shard_whose_body_returns_stays_where_it_is_and_is_not_begun_again() -> None:
    async def test() -> None:
        async def body(_: Shard) -> None:
            pass

        async with crowd_of(4) as crowd:
            member = crowd.join("a", body)
            await crowd.until(lambda: crowd.begun == 4)
            await anyio.sleep(2 * TTL_S)
            assert (len(member.owned), crowd.begun) == (4, 4)

    run(test)


def test_an_exception_of_a_body_ends_them_all_and_is_raised_unchanged() -> None:
    async def test() -> None:
        async def body(shard: Shard) -> None:
            if shard.number == 3:
                raise ZeroDivisionError
            await anyio.sleep_forever()

        async with crowd_of(8) as crowd:
            with pytest.raises(ZeroDivisionError):
                await crowd.run(Shards(crowd.store, "crawl", 8, ttl=TTL_S), "a", body)
            assert not crowd.owner

    run(test)


def test_each_shard_has_a_fence_of_its_own_which_is_sealed_before_its_body(tmp_path: Path) -> None:
    async def test() -> None:
        sink = SQLiteSink(tmp_path / "books.db")
        fences = set()

        async def body(shard: Shard) -> None:
            with sink.transaction(shard.term) as connection:
                row = "SELECT highest FROM tenure_fence WHERE fence = ?"
                assert connection.execute(row, [shard.term.fence]).fetchone() == (shard.term.token,)
            fences.add(shard.term.fence)
            await anyio.sleep_forever()

        async with crowd_of(3) as crowd:
            shards = Shards(crowd.store, "crawl", 3, ttl=TTL_S)
            crowd.tasks.start_soon(partial(crowd.run, shards, "a", body, sinks=[sink]))
            await crowd.until(lambda: len(fences) == 3)

    run(test)


def test_members_that_say_different_numbers_of_shards_are_refused() -> None:
    async def test() -> None:
        async with crowd_of(4) as crowd:
            first = crowd.join("a")
            await crowd.shared(a=4)
            rule = "shards = 5: must be the same for all members, and those of 'crawl' say 4"
            with pytest.raises(ConfigError, match=rule):
                await Shards(crowd.store, "crawl", 5, ttl=TTL_S).run(lambda _: anyio.sleep_forever())
            assert len(crowd.owner) == 4
            first.leave()
            await crowd.shared()

    run(test)


def test_another_number_of_shards_may_be_said_once_nobody_is_there_that_said_the_first() -> None:
    async def test() -> None:
        async with tenure.open_store("memory://") as store:
            for count in (4, 6):
                crowd = Crowd(store, count)
                async with crowd.tasks:
                    crowd.join("a")
                    assert await crowd.shared(a=count) == count
                    crowd.tasks.cancel_scope.cancel()  # without a word: it stays on the roster

    run(test)


class Sulking(MemoryStore):
    """Keeps documents, and does not always say what is in them."""

    def __init__(self) -> None:
        super().__init__()
        self.sulks, self.refusal_count = False, 0

    async def fetch(self, key: str) -> Document | None:
        if self.sulks:
            self.refusal_count += 1
            raise Unreachable(self.address, "fetch", "it sulks")
        return await super().fetch(key)


class Counting(MemoryStore):
    """Takes a moment for every claim, and knows how many it was asked for at once."""

    def __init__(self) -> None:
        super().__init__()
        self.at_once = self.most = 0

    async def claim(self, bid: Bid) -> Grant | Wait:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0.005)
        self.at_once -= 1
        return await super().claim(bid)


class Handed(LoopStore):
    """An open store that somebody else has made."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__("memory://")
        self._unopened = store


def test_however_many_shards_there_are_a_few_are_asked_for_at_a_time() -> None:
    async def test() -> None:
        store = Counting()
        async with Handed(store) as opened, anyio.create_task_group() as tasks:
            crowd = Crowd(opened, 500, ttl_s=6.0)
            crowd.tasks = tasks
            crowd.join("a")
            await crowd.shared(a=500)
            tasks.cancel_scope.cancel()
        assert 1 < store.most <= CLAIMS_AT_ONCE

    run(test)


def test_a_store_that_cannot_be_asked_for_the_roster_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        store = Sulking()
        async with Handed(store) as opened, anyio.create_task_group() as tasks:
            crowd = Crowd(opened, 4)
            crowd.tasks = tasks
            crowd.join("a")
            await crowd.shared(a=4)
            store.sulks = True
            await crowd.until(lambda: store.refusal_count > 2)
            assert len(crowd.owner) == 4
            store.sulks = False
            crowd.join("b")
            await crowd.shared(a=2, b=2)
            tasks.cancel_scope.cancel()

    with caplog.at_level(logging.WARNING, "tenure"):
        run(test)
    assert "the roster of shards: memory://" in caplog.text


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"count": 0}, "shards = 0: must be a whole number from 1 to 32768"),
        ({"count": 40_000}, "shards = 40000: must be a whole number from 1 to 32768"),
        ({"count": True}, "shards = True: must be a whole number"),
        ({"weight": -1}, "weight = -1: must be a whole number from 0 to 1000000"),
        ({"max_shards": 1.5}, "max_shards = 1.5: must be a whole number"),
        ({"member": "a/b"}, "member = 'a/b': must be a name without a slash"),
        ({"member": ""}, "must have no empty part"),
        ({"drain": -1}, "drain = -1: must not be negative"),
        ({"return_within": -1}, "return_within = -1: must not be negative"),
        ({"name": "x" * 250}, "must have at most 255 bytes"),
        ({"ttl": 1, "timing": tenure.Timing.of()}, "give one of the two"),
    ],
)
def test_settings_that_cannot_be_are_refused_at_once(settings: dict[str, Any], rule: str) -> None:
    store = tenure.open_store("memory://")
    with pytest.raises(ConfigError, match=rule):
        Shards(store, settings.pop("name", "crawl"), settings.pop("count", 4), **settings)
