"""The clocks: one that counts suspend and never goes back, and one that moves only when told to."""

import sys
import threading
import time
from collections.abc import Callable, Iterator

import anyio
import pytest
import trio.testing
from anyio.lowlevel import checkpoint

from tenure.clock import BootClock, Clock, VirtualClock
from tenure.errors import ClockError, ConfigError

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])
LINUX = pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="only Linux has this clock by name")
Reading = Callable[[int], int]


def shows(monkeypatch: pytest.MonkeyPatch, reading: Reading) -> None:
    """Let the machine's clock show ``reading(clock id)``."""
    monkeypatch.setattr(time, "clock_gettime_ns", reading)


def readings(*instants: int) -> Reading:
    coming: Iterator[int] = iter(instants)
    return lambda _: next(coming)


def test_both_are_clocks() -> None:
    clocks: list[Clock] = [BootClock(), VirtualClock()]
    assert all(isinstance(clock.now(), int) for clock in clocks)


@LINUX
def test_the_boot_clock_reads_the_clock_that_counts_suspend(monkeypatch: pytest.MonkeyPatch) -> None:
    shows(monkeypatch, lambda clock_id: clock_id)
    assert BootClock().now() == time.CLOCK_BOOTTIME


@LINUX
def test_the_boot_clock_is_the_machines_own() -> None:
    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    shown = BootClock().now()
    assert before <= shown <= time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def test_darwin_counts_suspend_under_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)
    monkeypatch.setattr(sys, "platform", "darwin")
    shows(monkeypatch, lambda clock_id: clock_id)
    assert BootClock().now() == time.CLOCK_MONOTONIC


def test_a_platform_without_such_a_clock_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)
    monkeypatch.setattr(sys, "platform", "atlantis")
    with pytest.raises(ConfigError) as caught:
        BootClock()
    assert (caught.value.setting, caught.value.value) == ("platform", "atlantis")


def test_the_boot_clock_refuses_to_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    shows(monkeypatch, readings(7, 7, 6))
    clock = BootClock()
    assert [clock.now(), clock.now()] == [7, 7]
    with pytest.raises(ClockError) as caught:
        clock.now()
    assert (caught.value.shown_ns, caught.value.before_ns) == (6, 7)


def test_a_reading_that_another_thread_overtakes_is_not_taken_for_a_clock_that_went_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # 1. The slow thread reads 5 and is held before it can compare.  2. This one reads 7 and is done.  3. The slow
    # one goes on: 5 is less than 7, but it was read first, and no clock went back.
    in_between, go_on = threading.Event(), threading.Event()
    main = threading.get_ident()

    def read(_: int) -> int:
        if threading.get_ident() == main:
            return 7
        in_between.set()
        assert go_on.wait(10)
        return 5

    shows(monkeypatch, read)
    clock, slow_saw = BootClock(), list[int | ClockError]()

    def read_slowly() -> None:
        try:
            slow_saw.append(clock.now())
        except ClockError as error:
            slow_saw.append(error)

    slow = threading.Thread(target=read_slowly)
    slow.start()
    assert in_between.wait(10)
    assert clock.now() == 7
    go_on.set()
    slow.join(10)
    assert slow_saw == [5]


def test_many_threads_read_one_boot_clock_without_complaint() -> None:
    clock, complaints = BootClock(), list[ClockError]()

    def read_often() -> None:
        try:
            for _ in range(5000):
                clock.now()
        except ClockError as error:
            complaints.append(error)

    threads = [threading.Thread(target=read_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert complaints == []


def naps_until(monkeypatch: pytest.MonkeyPatch, instant: int, *instants: int) -> list[int]:
    """Sleep until ``instant`` on a boot clock that shows ``instants``; returns the readings that were taken."""
    taken: list[int] = []
    coming = iter(instants)

    def read(_: int) -> int:
        taken.append(next(coming))
        return taken[-1]

    clock = BootClock()
    shows(monkeypatch, read)
    # Trio's own clock jumps over every nap, so the naps cost no time.
    no_time = trio.testing.MockClock(autojump_threshold=0)
    anyio.run(clock.sleep_until, instant, backend="trio", backend_options={"clock": no_time})
    return taken


def test_the_boot_clock_never_wakes_early(monkeypatch: pytest.MonkeyPatch) -> None:
    assert naps_until(monkeypatch, 30, 10, 29, 30, 31) == [10, 29, 30]


def test_the_boot_clock_sees_a_suspend_after_the_nap_in_which_it_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    assert naps_until(monkeypatch, 30, 10, 10**15, 10**15) == [10, 10**15]


def test_the_boot_clock_does_not_nap_for_an_instant_that_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert naps_until(monkeypatch, 30, 30, 31) == [30]


def test_the_virtual_clock_moves_only_when_told_to() -> None:
    clock = VirtualClock(start=3)
    assert [clock.now(), clock.now()] == [3, 3]
    clock.advance(4)
    clock.advance(0)
    assert clock.now() == 7


def test_the_virtual_clock_refuses_to_go_back() -> None:
    clock = VirtualClock(start=3)
    with pytest.raises(ClockError) as caught:
        clock.advance(-1)
    assert (caught.value.shown_ns, caught.value.before_ns, clock.now()) == (2, 3, 3)


async def sleepers_woken_by(clock: VirtualClock, instants: list[int], steps: list[int]) -> list[list[int]]:
    """Sleep until each of ``instants``; after each step of the clock, note who is awake."""
    awake: list[int] = []
    seen: list[list[int]] = []

    async def sleep(instant: int) -> None:
        await clock.sleep_until(instant)
        assert clock.now() >= instant
        awake.append(instant)

    async with anyio.create_task_group() as tasks:
        for instant in instants:
            tasks.start_soon(sleep, instant)
        for step in steps:
            await turns()
            clock.advance(step)
            await turns()
            seen.append(sorted(awake))
        tasks.cancel_scope.cancel()
    return seen


async def turns() -> None:
    """Let every task that can run do so: none here needs more than two turns."""
    for _ in range(5):
        await checkpoint()


@BACKENDS
def test_the_virtual_clock_wakes_exactly_those_whose_instant_has_come(backend: str) -> None:
    clock = VirtualClock()
    seen = anyio.run(sleepers_woken_by, clock, [10, 30, 20, 20, 0], [0, 9, 1, 15], backend=backend)
    assert seen == [[0], [0], [0, 10], [0, 10, 20, 20]]


@BACKENDS
def test_a_cancelled_sleep_leaves_no_sleeper(backend: str) -> None:
    clock = VirtualClock()
    anyio.run(sleepers_woken_by, clock, [10, 20, 20], [10], backend=backend)
    assert clock._sleepers == []


@BACKENDS
def test_a_sleep_that_is_cancelled_in_the_moment_it_ends_leaves_no_sleeper(backend: str) -> None:
    clock = VirtualClock()

    async def race() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(clock.sleep_until, 10)
            await turns()
            assert len(clock._sleepers) == 1
            clock.advance(10)
            tasks.cancel_scope.cancel()

    anyio.run(race, backend=backend)
    assert clock._sleepers == []
