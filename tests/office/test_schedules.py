"""Schedules that once held an office for ever, hung, or lied. Each was found by somebody who looked for it."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

import anyio
import pytest

from tenure import sync
from tenure.clock import BootClock
from tenure.election import Election
from tenure.errors import ConfigError, OutcomeUnknown, TenureOver, Unreachable
from tenure.facts import subscribe
from tenure.facts.kinds import Elected, Fact
from tenure.lock import Lock
from tenure.model import Ended, Grant, Token
from tenure.office.tenure import Tenure
from tenure.office.thread import Office
from tenure.stores.memory import MemoryEngine, MemoryStore
from tenure.timing import Timing

# An answer has three seconds to come in before the question is repeated, and whoever steps back does so for a moment only.
PATIENT = Timing.of(ttl=4, heartbeat=0.2, attempt_timeout=3)
On = Callable[[Callable[[], Awaitable[None]]], None]


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit])
def test_a_subscriber_that_fails_or_exits_takes_neither_the_tenure_nor_the_office_with_it(
    on: On, error: type[BaseException]
) -> None:
    async def test() -> None:
        async def body(term: Tenure) -> int:
            return term.token

        election = Election(MemoryStore(), "x", ttl=1)
        assert await election.lead(body) == 1
        assert await election.lead(body) == 2

    def fail(fact: Fact) -> None:
        raise error(f"was told {fact}")

    with subscribe(fail, kinds=(Elected,)) as subscription:
        on(test)
        assert subscription.wait_until_told(20)
    assert subscription.failed == 2


def test_a_lock_may_be_acquired_under_one_loop_and_released_under_the_next() -> None:
    lock = Lock(MemoryStore(), "x", ttl=2)
    term = asyncio.run(lock.acquire())
    assert term is not None
    time.sleep(3)  # It is renewed meanwhile: no loop is needed for that.
    assert lock.locked
    asyncio.run(lock.release())
    assert not lock.locked


def test_of_two_that_release_one_lock_one_does_and_the_other_is_told(on: On) -> None:
    async def test() -> None:
        lock, refused = Lock(MemoryStore(), "x", ttl=2), list[ConfigError]()
        await lock.acquire()

        async def release() -> None:
            try:
                await lock.release()
            except ConfigError as error:
                refused.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(release)
            tasks.start_soon(release)
        assert ["is not held" in str(error) for error in refused] == [True]

    on(test)


def test_a_lock_is_not_released_inside_its_own_block(on: On) -> None:
    async def test() -> None:
        lock = Lock(MemoryStore(), "x", ttl=2)
        async with lock:
            with pytest.raises(ConfigError, match="released by the end of its block"):
                await lock.release()
            assert lock.locked

    on(test)


def test_a_body_that_learns_of_its_loss_by_asking_stands_again(on: On) -> None:
    async def test() -> None:
        engine, tokens = MemoryEngine(), list[int]()

        async def body(term: Tenure) -> str:
            tokens.append(term.token)
            if len(tokens) == 1:
                engine.delete("x")
                while term.reason is None:
                    time.sleep(0.01)
                term.check()
            return "done"

        assert await Election(MemoryStore(engine), "x", ttl=0.4).lead(body) == "done"
        assert tokens == [1, 2]

    on(test)


def test_a_release_tells_of_a_loss_that_the_office_has_not_noticed_yet() -> None:
    lock = sync.Lock(MemoryStore(), "x", ttl=0.3)
    assert lock.acquire() is not None
    office = Office.of_this_process()
    office.loop.call_soon_threadsafe(time.sleep, 1.0)  # frozen past the ttl, as by SIGSTOP
    while lock._stay is not None and BootClock().now() < lock._stay.term.valid_until:  # type: ignore[union-attr]
        time.sleep(0.01)
    with pytest.raises(TenureOver):
        lock.release()


def test_an_old_tenure_cannot_end_the_present_one(on: On) -> None:
    async def test() -> None:
        terms: list[Tenure] = []

        async def body(term: Tenure) -> str:
            terms.append(term)
            if len(terms) == 1:
                term.give_up()
                await anyio.sleep_forever()
            terms[0].resign()
            terms[0].give_up()
            terms[0].progress(0.01)
            await anyio.sleep(0.3)
            return "undisturbed"

        assert await Election(MemoryStore(), "x", ttl=0.8).lead(body) == "undisturbed"

    on(test)


class Recording:
    def __init__(self) -> None:
        self.sealed: list[int] = []

    async def seal(self, fence: str, token: Token) -> None:
        assert fence.endswith("/x")
        self.sealed.append(token)


def test_sinks_that_are_given_as_an_iterator_are_sealed_in_every_tenure(on: On) -> None:
    async def test() -> None:
        sink = Recording()

        async def body(term: Tenure) -> None:
            if term.token == 1:
                term.give_up()
                await anyio.sleep_forever()

        await Election(MemoryStore(), "x", timing=PATIENT).lead(body, sinks=iter([sink]))  # type: ignore[arg-type]
        assert sink.sealed == [1, 2]
        with pytest.raises(ConfigError, match="is no sink"):
            await Election(MemoryStore(), "x", ttl=0.4).lead(body, sinks=[object()])  # type: ignore[list-item]

    on(test)


class Hanging:
    """A sink that never answers, and counts those who wait."""

    def __init__(self) -> None:
        self.waiting = self.most = 0

    async def seal(self, fence: str, token: Token) -> None:
        del fence, token
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        try:
            await anyio.sleep_forever()
        finally:
            self.waiting -= 1


def test_seals_that_hang_do_not_pile_up_and_are_not_taken_for_another_holder(on: On) -> None:
    async def test() -> None:
        sink = Hanging()
        with pytest.raises(OutcomeUnknown, match="Hanging: seal has no known outcome"):
            await Lock(MemoryStore(), "x", ttl=0.4, sinks=[sink]).acquire(timeout=1.5)
        assert (sink.waiting, sink.most <= 2) == (0, True)

    on(test)


def test_seals_that_hang_do_not_pile_up_for_a_thread_either() -> None:
    sink = Hanging()
    with pytest.raises(OutcomeUnknown, match="Hanging: seal has no known outcome"):
        sync.Lock(MemoryStore(), "x", ttl=0.4, sinks=[sink]).acquire(timeout=1.5)
    assert sink.most <= 2


class Fickle(MemoryStore):
    """Renews from when it is told to, until it is told not to any more."""

    def __init__(self) -> None:
        super().__init__()
        self.may_renew, self.is_gone = threading.Event(), False

    async def renew(self, grant: Grant) -> Grant | Ended:
        while not self.may_renew.is_set():
            await asyncio.sleep(0.001)
        if self.is_gone:
            raise Unreachable(self.address, "renew")
        return await super().renew(grant)


def test_the_margin_is_that_of_renewals_that_came_and_never_negative(on: On) -> None:
    async def test() -> None:
        store = Fickle()
        with pytest.raises(TenureOver):  # noqa: PT012  (the block is the body)
            async with Election(store, "x", ttl=2).once() as term:
                assert term.margin is None
                store.may_renew.set()
                while term.margin is None:
                    await anyio.sleep(0.001)
                store.is_gone = True
                await anyio.sleep_forever()
        assert term.margin is not None
        assert 0 < term.margin < 2

    on(test)
