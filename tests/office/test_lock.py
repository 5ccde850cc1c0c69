"""A lock over real IO, on asyncio and on trio: who holds it, who waits, who lost it."""

import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

import tenure
from tenure.errors import ConfigError, Reason, TenureOver, Unreachable
from tenure.lock import Lock
from tenure.model import Bid, Ended, Grant, Wait
from tenure.office.tenure import Tenure
from tenure.stores.memory import MemoryEngine, MemoryStore
from tenure.timing import Timing

TTL = 2.0
On = Callable[[Callable[[], Awaitable[None]]], None]


async def turns(condition: Callable[[], bool]) -> None:
    while not condition():
        await anyio.sleep(0.005)


def test_the_block_holds_the_lock_and_its_end_gives_it_back(on: On) -> None:
    async def test() -> None:
        store = MemoryStore()
        lock, other = Lock(store, "x", ttl=TTL), Lock(store, "x", ttl=TTL)
        assert not lock.locked
        async with lock as term:
            assert lock.locked
            assert term.token == 1
            assert not other.locked
            assert await other.acquire(timeout=0) is None
        assert not lock.locked
        held = await other.acquire(timeout=0)
        assert held is not None
        assert held.token == 2
        await other.release()

    on(test)


def test_who_waits_is_woken_by_the_release_and_who_waited_in_vain_leaves_nothing_behind(on: On) -> None:
    async def test() -> None:
        store = MemoryStore(MemoryEngine(queue=True))
        first, second, third = (Lock(store, "x", ttl=30) for _ in range(3))
        await first.acquire()
        assert await second.acquire(timeout=0.1) is None
        got: list[Tenure | None] = []

        async def wait() -> None:
            got.append(await third.acquire(timeout=10))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.sleep(0.05)
            await first.release()
        assert [term.token for term in got if term] == [2]
        await third.release()

    on(test)


def test_a_lock_is_not_reentrant_and_says_so_instead_of_waiting_for_itself(on: On) -> None:
    async def test() -> None:
        store = MemoryStore()
        lock = Lock(store, "x", ttl=TTL)
        async with lock:
            for again in (lock.acquire, lock.__aenter__):
                with pytest.raises(ConfigError, match="lock = x: this Lock is in use already"):
                    await again()
            assert lock.locked
            waiting = Lock(store, "x", ttl=TTL)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(waiting.acquire)
                await anyio.sleep(0.02)
                with pytest.raises(ConfigError, match="in use already"):
                    await waiting.acquire()
                tasks.cancel_scope.cancel()
        assert await waiting.acquire(timeout=5) is not None
        await waiting.release()
        with pytest.raises(ConfigError, match="is not held by this Lock"):
            await waiting.release()

    on(test)


def test_losing_the_lock_cancels_the_block_and_raises_tenure_over(on: On) -> None:
    async def test() -> None:
        engine = MemoryEngine()
        lock = Lock(MemoryStore(engine), "x", ttl=TTL)
        with pytest.raises(TenureOver) as over:  # noqa: PT012  (the block is the body)
            async with lock:
                engine.delete("x")
                await anyio.sleep_forever()
        assert over.value.reason is Reason.DEPOSED
        assert not lock.locked
        async with lock as term:
            assert term.token == 2

    on(test)


def test_who_lost_the_lock_cannot_unlock_the_next_holders(on: On) -> None:
    async def test() -> None:
        engine = MemoryEngine()
        store = MemoryStore(engine)
        old, new = Lock(store, "x", ttl=TTL), Lock(store, "x", ttl=TTL)
        first = await old.acquire()
        assert first is not None
        engine.delete("x")
        second = await new.acquire()
        assert second is not None
        await turns(lambda: first.reason is not None)
        assert not old.locked
        with pytest.raises(TenureOver, match="tenure 1 is over: deposed"):
            await old.release()
        assert new.locked
        assert await Lock(store, "x", ttl=TTL).acquire(timeout=0) is None
        await new.release()

    on(test)


class Deaf(MemoryStore):
    """A store that stops answering renewals, or everything."""

    deaf = False

    async def claim(self, bid: Bid) -> Grant | Wait:
        if self.deaf:
            raise Unreachable(self.address, "claim", "the line is dead")
        return await super().claim(bid)

    async def renew(self, grant: Grant) -> Grant | Ended:
        if self.deaf:
            await anyio.sleep_forever()
        return await super().renew(grant)


def test_locked_turns_false_by_the_local_clock_while_the_tenure_is_still_valid(on: On) -> None:
    async def test() -> None:
        store = Deaf()
        lock = Lock(store, "x", timing=Timing.of(ttl=4, local_share=0.3))
        term = await lock.acquire()
        assert term is not None
        store.deaf = True
        await turns(lambda: not lock.locked)
        # 0.3 of 4 s are over; the validity has 2.76 s left, of which the last 0.5 s are for stopping.
        assert term.reason is None
        assert term.valid
        await turns(lambda: term.reason is not None)
        with pytest.raises(TenureOver):
            await lock.release()

    on(test)


def test_a_store_that_cannot_be_asked_is_an_error_and_not_a_lock_held_by_another(on: On) -> None:
    async def test() -> None:
        store = Deaf()
        store.deaf = True
        for timeout in (0, 0.1):
            with pytest.raises(Unreachable, match="the line is dead"):
                await Lock(store, "x", ttl=TTL).acquire(timeout=timeout)
        with pytest.raises(ConfigError, match="timeout"):
            await Lock(store, "x", ttl=TTL).acquire(timeout=-1)

    on(test)


def test_a_decorated_function_holds_the_lock_and_overlapping_calls_wait_for_each_other(on: On) -> None:
    async def test() -> None:
        store = MemoryStore()
        inside, results = list[int](), list[int]()

        @Lock(store, "x", ttl=TTL)
        async def work(term: Tenure, number: int) -> int:
            assert not inside
            inside.append(number)
            await anyio.sleep(0.01)
            inside.remove(number)
            return term.token

        async def call(number: int) -> None:
            results.append(await work(number))

        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(call, number)
        assert sorted(results) == [1, 2, 3, 4, 5]

    on(test)


def threads_of_ours() -> list[str]:
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("tenure"))


def test_a_thousand_locks_are_held_over_one_connection(on: On, tmp_path: Path) -> None:
    async def test() -> None:
        async with tenure.open_store(f"sqlite://{tmp_path / 'locks.db'}") as store:
            locks = [Lock(store, f"account/{number}", ttl=30) for number in range(1000)]
            threads = threads_of_ours()
            async with anyio.create_task_group() as tasks:
                for lock in locks:
                    tasks.start_soon(lock.acquire)
            assert all(lock.locked for lock in locks)
            assert threads_of_ours() == threads
            assert await Lock(store, "account/7", ttl=30).acquire(timeout=0) is None
            async with anyio.create_task_group() as tasks:
                for lock in locks:
                    tasks.start_soon(lock.release)
            assert not any(lock.locked for lock in locks)

    on(test)
