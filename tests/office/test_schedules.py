"""Schedules that once held an office for ever, hung, or lied. Each was found by somebody who looked for it."""

import asyncio
import gc
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import anyio
import pytest

from tenure import sync
from tenure.election import Election
from tenure.errors import ConfigError, OutcomeUnknown, TenureOver, Unreachable
from tenure.facts import subscribe
from tenure.facts.kinds import Elected, Fact
from tenure.lock import Lock
from tenure.model import Bid, Ended, Grant, Token, Wait
from tenure.office.on_loop import LoopSitting
from tenure.office.sitting import Letter
from tenure.office.tenure import Tenure
from tenure.office.thread import Office
from tenure.stores.memory import MemoryEngine, MemoryStore
from tenure.timing import Timing

# An answer has three seconds to come in before the question is repeated, and whoever steps back does so for a moment only.
PATIENT = Timing.of(ttl=4, heartbeat=0.2, attempt_timeout=3)
On = Callable[[Callable[[], Awaitable[None]]], None]


def now() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


async def until_free(engine: MemoryEngine, election: str = "x") -> None:
    while engine.read(election, now()) is not None:
        await anyio.sleep(0.01)


class ExitOnElection:
    def __init__(self, error: type[BaseException]) -> None:
        self._error = error

    def __call__(self, fact: Fact) -> None:
        raise self._error(f"hook was told {fact}")


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


def test_a_standby_whose_loop_is_blocked_keeps_nobody_from_the_office(on: On) -> None:
    engine, blocked, over = MemoryEngine(), threading.Event(), threading.Event()

    async def stand_and_block() -> None:
        async def body(_: Tenure) -> None:
            pass

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Election(MemoryStore(engine), "x", ttl=1).lead, body)
            await anyio.sleep(0.5)  # It stands by the end of this, or is late and shows nothing.
            blocked.set()
            over.wait(60)

    async def test() -> None:
        stuck = threading.Thread(target=asyncio.run, args=(stand_and_block(),))
        async with Election(MemoryStore(engine), "x", ttl=4).once():
            stuck.start()
            await anyio.to_thread.run_sync(blocked.wait)
        # Whoever takes the office for the one that is blocked gives it up before its lease is over, every time.
        with anyio.fail_after(30):
            async with Election(MemoryStore(engine), "x", ttl=4).once() as term:
                assert term.valid
                assert not over.is_set()
        over.set()
        await anyio.to_thread.run_sync(stuck.join)

    on(test)


def test_an_office_that_was_taken_for_a_loop_that_is_blocked_since_is_given_up(on: On) -> None:
    engine, asked, blocked, over = MemoryEngine(), threading.Event(), threading.Event(), threading.Event()

    class GrantsTheBlocked(MemoryStore):
        """Its first answer comes when whoever asked can do nothing any more."""

        async def claim(self, bid: Bid) -> Grant | Wait:
            asked.set()
            await asyncio.to_thread(blocked.wait)
            return await super().claim(bid)

    async def stand_and_block() -> None:
        async def body(_: Tenure) -> None:
            pass

        standing = asyncio.ensure_future(Election(GrantsTheBlocked(engine), "x", ttl=1).lead(body))
        while not asked.is_set():
            await asyncio.sleep(0.001)
        blocked.set()
        over.wait(60)
        await standing

    async def test() -> None:
        stuck = threading.Thread(target=lambda: asyncio.run(stand_and_block()))
        stuck.start()
        while engine.read("x", now()) is None:
            await anyio.sleep(0.001)
        with anyio.fail_after(30):
            async with Election(MemoryStore(engine), "x", ttl=4).once() as term:
                assert (term.token, over.is_set()) == (2, False)
        over.set()
        await anyio.to_thread.run_sync(stuck.join)

    on(test)


def test_only_who_has_just_stood_is_not_asked_whether_its_loop_still_runs(
    monkeypatch: pytest.MonkeyPatch, on: On
) -> None:
    letters: list[str] = []
    put = LoopSitting.put

    def noted(sitting: LoopSitting, letter: Letter) -> None:
        letters.append(type(letter).__name__)
        put(sitting, letter)

    monkeypatch.setattr(LoopSitting, "put", noted)
    engine, lost = MemoryEngine(), False

    async def body(term: Tenure) -> None:
        nonlocal lost
        if not lost:
            lost = True
            term.give_up()  # and stand again
            await anyio.sleep_forever()

    async def both() -> None:
        async with Election(MemoryStore(engine), "x", timing=PATIENT).once():
            pass
        await Election(MemoryStore(engine), "x", timing=PATIENT).lead(body)

    on(both)
    assert letters == ["Start", "Idle", "Start", "Seal", "Start", "Idle"]


def test_a_generator_that_is_left_in_the_middle_of_its_block_gives_the_office_back() -> None:
    engine = MemoryEngine()

    async def leading() -> AsyncIterator[Tenure]:
        async with Election(MemoryStore(engine), "x", ttl=30).once() as term:  # A lapse would free it in time as well.
            yield term

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # it is closed in another task, and says so
        async for term in leading():
            assert term.valid
            break
        gc.collect()
        with anyio.fail_after(10):
            await until_free(engine)

    asyncio.run(main())


CLOSED_LOOP = """
import asyncio, os, time
from tenure.election import Election
from tenure.office import desk
from tenure.stores.memory import MemoryEngine, MemoryStore
engine = MemoryEngine()
loop, leading = asyncio.new_event_loop(), asyncio.Event()
async def body(term):
    leading.set()
    await asyncio.sleep(3600)
tasks = [loop.create_task(Election(MemoryStore(engine), "x", ttl=0.4).lead(body)) for _ in range(2)]
loop.run_until_complete(leading.wait())
loop.close()
while engine.read("x", time.clock_gettime_ns(time.CLOCK_BOOTTIME)) is not None or any(desk._TAKEN.values()):
    time.sleep(0.01)
os._exit(7)
"""


def test_who_leads_or_stands_by_on_an_event_loop_that_is_closed_gives_up() -> None:
    assert subprocess.run([sys.executable, "-c", CLOSED_LOOP], check=False, timeout=30).returncode == 7


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
    while lock._stay is not None and now() < lock._stay.term.valid_until:  # type: ignore[union-attr]
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
