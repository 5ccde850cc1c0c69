"""Shards among members of one process: who comes to own what, and how it is handed over."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio

import tenure
from tenure.apps.shards import Shard, Shards
from tenure.office.opened import run_there
from tenure.stores.base import CanAskToResign
from tests.apps.crowd import HEARTBEAT_S, TTL_S, Crowd, crowd_of, run


def test_from_3_to_5_to_2_members_256_shards_move_as_often_as_they_must(
    on: Callable[[Callable[[], Awaitable[None]]], None],
) -> None:
    async def test() -> None:
        # A lease that does not end on a busy machine either: whoever loses its seat moves its shards.
        async with crowd_of(256, ttl_s=6.0) as crowd:
            members = {name: crowd.join(name) for name in "abc"}
            assert await crowd.shared(a=86, b=85, c=85) == 256
            members |= {name: crowd.join(name) for name in "de"}
            assert await crowd.shared(a=52, b=51, c=51, d=51, e=51) == 102
            for name in "cde":
                members[name].leave()
            assert await crowd.shared(a=128, b=128) == 153

    on(test)


def test_members_own_by_weight_and_up_to_their_limits() -> None:
    async def test() -> None:
        async with crowd_of(20) as crowd:
            crowd.join("heavy", weight=3)
            crowd.join("light")
            crowd.join("small", weight=9, max_shards=4)
            crowd.join("idle", weight=0)
            assert await crowd.shared(heavy=12, light=4, small=4) == 20

    run(test)


def test_a_body_is_told_and_has_its_time_while_its_shard_is_still_its_own() -> None:
    async def test() -> None:
        told, may_end = anyio.Event(), anyio.Event()

        async def body(shard: Shard) -> None:
            await shard.leaving()
            told.set()
            await may_end.wait()
            assert shard.term.valid

        async with crowd_of(1) as crowd:
            member = crowd.join("a", body, drain=10)
            await crowd.shared(a=1)
            member.leave()
            crowd.join("b")
            await told.wait()
            await anyio.sleep(2 * TTL_S)  # Renewals go on: a lease would have ended.
            assert crowd.owner == {0: "a"}
            may_end.set()
            await crowd.shared(b=1)

    run(test)


def test_a_body_that_takes_longer_than_its_time_to_drain_is_cancelled() -> None:
    async def test() -> None:
        async with crowd_of(4) as crowd:
            member = crowd.join("a", drain=0.2)
            await crowd.shared(a=4)
            crowd.join("b")
            assert await crowd.shared(a=2, b=2) == 2
            member.leave()
            assert await crowd.shared(b=4) == 2

    run(test)


def test_who_leaves_keeps_its_shards_until_others_wait_for_them() -> None:
    """A gap would be seen as the time from the end of one body to the beginning of the next: a heartbeat and more without this."""

    async def test() -> None:
        gaps_s: list[float] = []
        ended_at: dict[int, float] = {}

        async def body(shard: Shard) -> None:
            if shard.number in ended_at:
                gaps_s.append(anyio.current_time() - ended_at[shard.number])
            try:
                await anyio.sleep_forever()
            finally:
                ended_at[shard.number] = anyio.current_time()

        async with crowd_of(8, ttl_s=3.0) as crowd:
            members = {name: crowd.join(name, body) for name in "ab"}
            await crowd.shared(a=4, b=4)
            members["a"].leave()
            await crowd.shared(b=8)
        assert len(gaps_s) == 4
        assert max(gaps_s) < 1.0  # A look of the one that takes over is a quarter of a heartbeat.

    run(test)


def test_a_member_that_comes_back_in_time_finds_its_shards_kept() -> None:
    async def test() -> None:
        async with crowd_of(16) as crowd:
            first = crowd.join("a", return_within=20)
            crowd.join("b")
            await crowd.shared(a=8, b=8)
            before = crowd.of("a")
            first.leave()
            await crowd.shared(b=8)
            crowd.join("a", return_within=20)
            assert await crowd.shared(a=8, b=8) == 8
            assert crowd.of("a") == before

    run(test)


def test_a_member_that_does_not_come_back_in_time_has_its_shards_given_away() -> None:
    async def test() -> None:
        async with crowd_of(4) as crowd:
            first = crowd.join("a", return_within=0.5)
            crowd.join("b")
            await crowd.shared(a=2, b=2)
            first.leave()
            assert await crowd.shared(b=4) == 2

    run(test)


def test_members_without_a_name_take_the_lowest_number_that_is_free() -> None:
    async def test() -> None:
        async with tenure.open_store("memory://") as store:
            crowd = Crowd(store, 4)
            async with crowd.tasks:
                unnamed = {name: Shards(store, "crawl", 4, ttl=TTL_S) for name in "ab"}
                for name, shards in unnamed.items():
                    crowd.tasks.start_soon(crowd.run, shards, name, None)
                await crowd.shared(a=2, b=2)
                assert [await store.document("crawl/roster")] != [None]
                for seat in ("0", "1"):
                    assert await tenure.Election(store, f"crawl/members/{seat}").incumbent() is not None
                crowd.tasks.cancel_scope.cancel()

    run(test)


def test_a_second_process_under_one_name_waits_for_the_first_to_go() -> None:
    async def test() -> None:
        async with crowd_of(2) as crowd:
            first = crowd.join("a")
            await crowd.shared(a=2)
            second = crowd.join("a")
            with anyio.move_on_after(2 * HEARTBEAT_S):
                await crowd.until(lambda: bool(second.owned))
            assert not second.owned
            first.leave()
            await crowd.until(lambda: len(second.owned) == 2)

    run(test)


def test_a_member_that_waits_for_its_seat_can_leave() -> None:
    async def test() -> None:
        async with crowd_of(2) as crowd:
            crowd.join("a")
            await crowd.shared(a=2)
            waiting = Shards(crowd.store, "crawl", 2, member="a", ttl=TTL_S)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(crowd.run, waiting, "a", None)
                await anyio.sleep(0.2)
                waiting.leave()
            assert crowd.owner == {0: "a", 1: "a"}

    run(test)


def test_a_member_whose_seat_is_lost_owns_nothing_and_takes_part_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with crowd_of(4, f"sqlite://{tmp_path}/store.db") as crowd:
            for name in "ab":
                crowd.join(name)
            await crowd.shared(a=2, b=2)
            store = crowd.store.store
            assert isinstance(store, CanAskToResign)
            assert await run_there(crowd.store.office, store.ask_to_resign("crawl/members/a"))
            await crowd.until(lambda: not crowd.of("a"))
            await crowd.shared(a=2, b=2)

    run(test)
