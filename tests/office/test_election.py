"""Leading over real IO: what the office promises to a body, on asyncio and on trio."""

import time
from collections.abc import Awaitable, Callable

import anyio
import pytest

from tenure.core.effects import Elected, Fact, Left, Overstayed
from tenure.election import Election
from tenure.errors import ConfigError, Reason, StaleToken, TenureOver
from tenure.model import Token
from tenure.office.tenure import Tenure
from tenure.stores.memory import MemoryEngine, MemoryStore

BACKENDS = ["asyncio", "trio"]
TTL = 2.0
pytestmark = pytest.mark.parametrize("backend", BACKENDS)


def on(backend: str, test: Callable[[], Awaitable[None]]) -> None:
    """Run a test on a backend, within a bound."""

    async def bounded() -> None:
        with anyio.fail_after(20):
            await test()

    anyio.run(bounded, backend=backend)


def test_lead_returns_what_the_body_returns_and_leaves_the_office_free(backend: str) -> None:
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

    on(backend, test)


def test_a_body_that_blocks_its_own_event_loop_for_three_ttl_keeps_its_tenure(backend: str) -> None:
    async def test() -> None:
        async with Election(MemoryStore(), "x", ttl=TTL).once() as term:
            time.sleep(3 * TTL)
            assert term.valid
            term.check()
            assert term.margin is not None

    on(backend, test)


def test_a_body_that_declared_progress_and_stalls_loses_its_tenure_and_stands_again(backend: str) -> None:
    async def test() -> None:
        facts: list[Fact] = []
        tokens: list[int] = []

        async def body(term: Tenure) -> None:
            tokens.append(term.token)
            if len(tokens) == 1:
                term.progress(0.3)
                await anyio.sleep_forever()

        await Election(MemoryStore(), "x", ttl=TTL, hooks=[facts.append]).lead(body)
        assert tokens == [1, 2]
        assert Left(Token(1), Reason.STALLED) in facts

    on(backend, test)


def test_progress_that_comes_in_time_keeps_the_tenure(backend: str) -> None:
    async def test() -> None:
        async with Election(MemoryStore(), "x", ttl=TTL).once() as term:
            for _ in range(4):
                term.progress(1.5)
                await anyio.sleep(0.5)
            term.progress(None)
            await anyio.sleep(2)
            assert term.reason is None

    on(backend, test)


def test_loss_cancels_at_every_await_and_only_then_is_the_office_released(backend: str) -> None:
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

    on(backend, test)


def test_a_body_that_swallows_cancellation_becomes_an_overstay(backend: str) -> None:
    async def test() -> None:
        engine, facts = MemoryEngine(), list[Fact]()
        election = Election(MemoryStore(engine), "x", ttl=0.4, hooks=[facts.append])

        async def body(_: Tenure) -> str:
            engine.delete("x")
            try:
                await anyio.sleep_forever()
            except anyio.get_cancelled_exc_class():
                time.sleep(0.5)
            return "done all the same"

        assert await election.lead(body, once=True) == "done all the same"
        assert [type(fact) for fact in facts] == [Elected, Overstayed, Left]

    on(backend, test)


def test_an_exception_in_the_body_releases_the_office_and_propagates_unchanged(backend: str) -> None:
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

    on(backend, test)


def test_cancelling_lead_from_outside_releases_at_once(backend: str) -> None:
    async def test() -> None:
        election = Election(MemoryStore(), "x", ttl=30)
        began = time.monotonic()
        with anyio.move_on_after(0.1) as scope:
            await election.lead(lambda _: anyio.sleep_forever())
        assert scope.cancelled_caught
        assert await election.incumbent() is None
        assert time.monotonic() - began < 5

    on(backend, test)


def test_cancelling_a_standby_leaves_nothing_behind(backend: str) -> None:
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

    on(backend, test)


def test_the_next_in_line_leads_when_the_first_has_finished(backend: str) -> None:
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

    on(backend, test)


def test_losing_the_office_cancels_the_block_of_once_and_raises_tenure_over(backend: str) -> None:
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

    on(backend, test)


class RecordingSink:
    """A sink that says what was asked of it, and refuses or fails on demand."""

    def __init__(self, *answers: Exception) -> None:
        self.sealed: list[tuple[str, int]] = []
        self._answers = list(answers)

    async def seal(self, fence: str, token: Token) -> None:
        self.sealed.append((fence, token))
        if self._answers:
            raise self._answers.pop(0)


def test_sinks_are_sealed_under_the_fence_of_the_tenure_before_the_body(backend: str) -> None:
    async def test() -> None:
        sink = RecordingSink()
        async with Election(MemoryStore(), "x", ttl=TTL).once([sink]) as term:
            assert sink.sealed == [(term.fence, term.token)]
            assert term.fence.endswith("/x")

    on(backend, test)


def test_a_sink_that_fails_is_sealed_again_and_one_that_refuses_ends_the_try(backend: str) -> None:
    async def test() -> None:
        sink = RecordingSink(OSError("not now"), StaleToken(1, 2))
        async with Election(MemoryStore(), "x", ttl=0.4).once([sink]) as term:
            assert [token for _, token in sink.sealed] == [1, 1, 2]
            assert term.token == 2

    on(backend, test)


def test_who_is_not_prepared_does_not_stand(backend: str) -> None:
    async def test() -> None:
        store, ready = MemoryStore(), list[bool]()
        election = Election(store, "x", ttl=TTL)

        async def prepare() -> None:
            assert await election.incumbent() is None
            ready.append(True)

        async def body(_: Tenure) -> None:
            assert ready == [True]

        await election.lead(body, prepare=prepare)

    on(backend, test)


def test_observe_tells_of_every_change_that_lasts(backend: str) -> None:
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

    on(backend, test)


def test_a_decorated_function_stands_and_leads_when_it_is_called(backend: str) -> None:
    async def test() -> None:
        @Election(MemoryStore(), "x", ttl=TTL).leader_only()
        async def work(term: Tenure) -> int:
            return term.token

        assert await work() == 1
        assert await work() == 2

    on(backend, test)


def test_one_election_object_is_one_candidate(backend: str) -> None:
    async def test() -> None:
        election = Election(MemoryStore(), "x", ttl=TTL)
        async with election.once():
            with pytest.raises(ConfigError, match="stands already"):
                async with election.once():
                    pytest.fail("it stood twice")
            with pytest.raises(ConfigError, match="stands already"):
                await Election(election._given, "x", holder=election.holder).lead(lambda _: anyio.sleep_forever())
        async with election.once() as term:
            assert term.token == 2

    on(backend, test)


def test_a_thousand_elections_run_on_one_thread(backend: str) -> None:
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

    on(backend, test)


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 10_000, "..", "a/../b", "/a", "a//b", " a", "a\x00", 7])
def test_an_absurd_name_is_refused_in_one_line(backend: str, name: str) -> None:
    del backend
    with pytest.raises(ConfigError) as refused:
        Election(MemoryStore(), name)
    assert "\n" not in str(refused.value)


def test_settings_that_contradict_are_refused(backend: str) -> None:
    del backend
    store = MemoryStore()
    for bad in ({"ttl": -1}, {"ttl": 8, "timing": Election(store, "x").timing}, {"on_overstay": "shrug"}):
        with pytest.raises(ConfigError):
            Election(store, "x", **bad)
