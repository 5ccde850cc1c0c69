"""Leading over real IO: what the office promises to a body, on asyncio and on trio."""

import time
from collections.abc import Awaitable, Callable

import anyio
import pytest
from tests.hearing import Hearing

from tenure.election import Election
from tenure.errors import ConfigError, Reason, TenureOver, Unreachable
from tenure.facts.kinds import Elected, Left, Overstayed
from tenure.model import Ended, Grant, Token
from tenure.office.tenure import Tenure
from tenure.stores.memory import MemoryEngine, MemoryStore

TTL = 2.0
On = Callable[[Callable[[], Awaitable[None]]], None]


def test_lead_returns_what_the_body_returns_and_leaves_the_office_free(on: On) -> None:
    async def test() -> None:
        election = Election(MemoryStore(), "x", ttl=TTL)

        async def body(term: Tenure) -> int:
            assert term.valid
            assert 0 < term.remaining <= TTL
            incumbent = await election.incumbent()
            assert incumbent is not None
            assert (incumbent.token, incumbent.holder) == (term.token, election.holder)
            return term.token

        assert await election.lead(body) == 1
        assert await election.incumbent() is None

    on(test)


def test_a_body_that_blocks_its_own_event_loop_for_three_ttl_keeps_its_tenure(on: On) -> None:
    async def test() -> None:
        async with Election(MemoryStore(), "x", ttl=TTL).once() as term:
            time.sleep(3 * TTL)
            assert term.valid
            term.check()
            assert term.margin is not None

    on(test)


def test_a_body_that_declared_progress_and_stalls_loses_its_tenure_and_stands_again(on: On) -> None:
    async def test() -> None:
        tokens: list[int] = []
        election = Election(MemoryStore(), "x", ttl=TTL)

        async def body(term: Tenure) -> None:
            tokens.append(term.token)
            if len(tokens) == 1:
                term.progress(0.3)
                await anyio.sleep_forever()

        with Hearing(election) as heard:
            await election.lead(body)
            assert tokens == [1, 2]
            assert Left(Token(1), Reason.STALLED) in heard.left

    on(test)


def test_progress_that_comes_in_time_keeps_the_tenure(on: On) -> None:
    async def test() -> None:
        async with Election(MemoryStore(), "x", ttl=TTL).once() as term:
            with pytest.raises(ConfigError, match="must say first"):
                term.progress()
            term.progress(1.5)
            for _ in range(4):
                await anyio.sleep(0.5)
                term.progress()
            term.progress(None)
            await anyio.sleep(2)
            assert term.reason is None

    on(test)


def test_loss_cancels_at_every_await_and_only_then_is_the_office_released(on: On) -> None:
    async def test() -> None:
        engine = MemoryEngine()
        election = Election(MemoryStore(engine), "x", ttl=TTL)
        caught: list[bool] = []

        async def body(term: Tenure) -> None:
            if caught:
                return
            term.give_up()
            for _ in range(3):
                try:
                    await anyio.sleep(5)
                except anyio.get_cancelled_exc_class():
                    incumbent = engine.read("x", time.clock_gettime_ns(time.CLOCK_BOOTTIME))
                    caught.append(incumbent is not None and incumbent.token == term.token)
            await anyio.lowlevel.checkpoint()

        await election.lead(body)
        assert caught == [True, True, True]

    on(test)


def test_a_body_that_swallows_cancellation_becomes_an_overstay(on: On) -> None:
    async def test() -> None:
        engine = MemoryEngine()
        election = Election(MemoryStore(engine), "x", ttl=1.5)

        async def body(_: Tenure) -> str:
            engine.delete("x")
            try:
                await anyio.sleep_forever()
            except anyio.get_cancelled_exc_class():
                time.sleep(1.6)
            return "done all the same"

        with Hearing(election) as heard:
            assert await election.lead(body, once=True) == "done all the same"
            assert [type(what) for what in heard.of_office] == [Elected, Overstayed, Left]

    on(test)


def test_an_exception_in_the_body_releases_the_office_and_propagates_unchanged(on: On) -> None:
    async def test() -> None:
        election, error = Election(MemoryStore(), "x", ttl=TTL), KeyError("boom")

        async def body(_: Tenure) -> None:
            raise error

        with pytest.raises(KeyError) as raised:
            await election.lead(body)
        assert raised.value is error
        with pytest.raises(KeyError) as raised:
            async with election.once():
                raise error
        assert raised.value is error
        assert await election.incumbent() is None

    on(test)


def test_cancelling_lead_from_outside_releases_at_once(on: On) -> None:
    async def test() -> None:
        election = Election(MemoryStore(), "x", ttl=30)
        began = time.monotonic()
        with anyio.move_on_after(0.1) as scope:
            await election.lead(lambda _: anyio.sleep_forever())
        assert scope.cancelled_caught
        assert await election.incumbent() is None
        assert time.monotonic() - began < 5

    on(test)


def test_cancelling_a_standby_leaves_nothing_behind(on: On) -> None:
    async def test() -> None:
        store = MemoryStore(MemoryEngine(queue=True))
        async with Election(store, "x", ttl=30).once():
            for _ in range(3):
                with anyio.move_on_after(0.05):
                    async with Election(store, "x", ttl=30).once():
                        pytest.fail("two are in office")
        with anyio.fail_after(5):
            async with Election(store, "x", ttl=30).once() as term:
                assert term.token == 2

    on(test)


def test_the_next_in_line_leads_when_the_first_has_finished(on: On) -> None:
    async def test() -> None:
        store, order = MemoryStore(MemoryEngine(queue=True)), list[int]()

        async def lead(number: int) -> None:
            async with Election(store, "x", ttl=TTL).once():
                order.append(number)
                await anyio.sleep(0.05)

        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(lead, number)
                await anyio.sleep(0.01)
        assert order == [0, 1, 2, 3, 4]

    on(test)


def test_losing_the_office_cancels_the_block_of_once_and_raises_tenure_over(on: On) -> None:
    async def test() -> None:
        engine = MemoryEngine()
        with pytest.raises(TenureOver) as over:  # noqa: PT012  (the block is the body)
            async with Election(MemoryStore(engine), "x", ttl=TTL).once() as term:
                engine.delete("x")
                await anyio.sleep_forever()
        assert (over.value.token, over.value.reason) == (term.token, Reason.DEPOSED)
        assert not term.valid
        with pytest.raises(TenureOver):
            term.check()

    on(test)


def test_cancelling_at_the_very_moment_of_the_election_leaves_nothing_behind(on: On) -> None:
    async def test() -> None:
        engine = MemoryEngine()
        for stand in ("lead", "once"):
            election, standing = Election(MemoryStore(engine), stand, ttl=TTL), anyio.Event()

            async def once(election: Election = election, standing: anyio.Event = standing) -> None:
                standing.set()
                async with election.once():
                    await anyio.sleep_forever()

            async def lead(election: Election = election, standing: anyio.Event = standing) -> None:
                standing.set()
                await election.lead(lambda _: anyio.sleep_forever())

            async with anyio.create_task_group() as tasks:
                tasks.start_soon({"lead": lead, "once": once}[stand])
                await standing.wait()
                # This loop hears nothing while it is blocked, so the word that the body may begin lies there unread.
                while engine.read(stand, time.clock_gettime_ns(time.CLOCK_BOOTTIME)) is None:
                    time.sleep(0.01)
                time.sleep(0.05)
                tasks.cancel_scope.cancel()
            assert await election.incumbent() is None

    on(test)


def test_observe_tells_of_every_change_that_lasts(on: On) -> None:
    async def test() -> None:
        store, seen = MemoryStore(), list[int | None]()
        watcher = Election(store, "x", ttl=0.4)

        async def observe() -> None:
            async for incumbent in watcher.observe():
                seen.append(None if incumbent is None else incumbent.token)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(observe)
            while not seen:
                await anyio.sleep(0.01)
            async with Election(store, "x", ttl=TTL).once():
                while len(seen) < 2:
                    await anyio.sleep(0.01)
            while len(seen) < 3:
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
        assert seen == [None, 1, None]

    on(test)


def test_a_decorated_function_stands_and_leads_when_it_is_called(on: On) -> None:
    async def test() -> None:
        @Election(MemoryStore(), "x", ttl=TTL).leader_only()
        async def work(term: Tenure) -> int:
            return term.token

        assert await work() == 1
        assert await work() == 2

        @Election(MemoryStore(), "x", ttl=TTL).leader_only()
        async def add(term: Tenure, number: int, *, to: int) -> int:
            return term.token + number + to

        assert await add(10, to=100) == 111

    on(test)


def test_a_thousand_elections_run_on_one_thread(on: On) -> None:
    async def test() -> None:
        store, leading = MemoryStore(), list[int]()
        done = anyio.Event()

        async def body(term: Tenure) -> None:
            leading.append(term.token)
            if len(leading) == 1000:
                done.set()
            await done.wait()

        async with anyio.create_task_group() as tasks:
            for number in range(1000):
                tasks.start_soon(Election(store, f"x/{number}", ttl=10).lead, body)
        assert sorted(leading) == list(range(1, 1001))
        import threading

        assert [thread.name for thread in threading.enumerate()].count("tenure-office") == 1

    on(test)


def test_a_read_is_answered_only_before_the_end_of_validity_and_never_after_it(on: On) -> None:
    class Deaf(MemoryStore):
        async def renew(self, grant: Grant) -> Grant | Ended:
            raise Unreachable(self.address, "renew", f"token {grant.token}")

    async def test() -> None:
        answers: list[tuple[int, bool]] = []
        with pytest.raises(TenureOver):  # noqa: PT012  (the block is the body)
            async with Election(Deaf(), "x", ttl=0.4).once() as term:
                until = term._term.valid_until
                while len(answers) < 10 or any(served for _, served in answers[-10:]):
                    now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
                    try:
                        term.check()
                    except TenureOver:
                        answers.append((now, False))
                    else:
                        answers.append((now, True))
        assert all(now < until for now, served in answers if served)
        assert [served for _, served in answers] == sorted((served for _, served in answers), reverse=True)

    on(test)
