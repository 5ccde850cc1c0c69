"""Tasks that others live by go on after what nobody has foreseen: whoever waits is woken in the end, and the log says what it was."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

import pytest

from tenure.clients.etcd.watches import Watches
from tenure.clients.kubernetes.watch import Watch
from tenure.clients.upkeep import keep_up
from tenure.errors import Unreachable
from tenure.stores.postgresql.listening import Listening
from tenure.stores.redis.hearing import Hearing
from tenure.stores.redis.lookout import Lookout as RedisLookout
from tenure.stores.sql.lookout import Lookout as SqlLookout
from tests.leaping import LeapingClock
from tests.unit.test_sharing_leases import Lease, Leases, place_in

if TYPE_CHECKING:
    from tenure.clients.etcd.link import Link
    from tenure.clients.kubernetes.client import KubernetesClient
    from tenure.clients.redis.client import RedisClient


pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Odd:
    """Something to be asked. The first time it raises what no store speaks of; ``again`` is set by the second."""

    address = "engine://here"
    about = None

    def __init__(
        self, then: Callable[..., Awaitable[Any]] | None = None, first: type[BaseException] = KeyError
    ) -> None:
        self.count, self.again, self._then, self._first = 0, asyncio.Event(), then, first

    async def ask(self, *what: Any, **how: Any) -> Any:
        self.count += 1
        if self.count == 1:
            raise self._first("token=hunter2")
        self.again.set()
        if self._then is not None:
            return await self._then(*what, **how)
        raise Unreachable(self.address, "ask", "no connection")

    # By the names that clients have for it.
    subscribe = get = attempt = ask

    def check(self, operation: str) -> None: ...


async def test_what_fails_is_begun_anew_and_told_of_once_without_what_is_secret(
    caplog: pytest.LogCaptureFixture,
) -> None:
    count = 0

    async def work() -> None:
        nonlocal count
        count += 1
        if count <= 2:
            raise KeyError("password=hunter2")

    await asyncio.wait_for(keep_up(work, "this work"), 30)
    assert count == 3
    [told] = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert told.startswith("this work has failed at test_upkeep.py:")
    assert "hunter2" not in told
    assert "KeyError" in told


async def test_one_that_is_cancelled_ends_and_one_that_meets_something_cancelled_goes_on() -> None:
    loop = asyncio.get_running_loop()
    elsewhere: asyncio.Future[None] = loop.create_future()
    elsewhere.cancel()
    awaited, goes_on = [elsewhere, loop.create_future()], asyncio.Event()

    async def work() -> None:
        if len(awaited) == 1:
            goes_on.set()
        await awaited.pop(0)

    task = keep_up(work, "work")
    await asyncio.wait_for(goes_on.wait(), 30)
    task.cancel()
    await asyncio.wait([task])
    assert task.done()


async def test_one_that_is_cancelled_ends_whatever_it_raises_then() -> None:
    began, began_count = asyncio.Event(), 0

    async def work() -> None:
        nonlocal began_count
        began_count += 1
        began.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            raise OSError("cannot be closed")

    task = keep_up(work, "work")
    await began.wait()
    task.cancel()
    await asyncio.wait_for(asyncio.wait([task]), 30)
    assert (task.done(), began_count) == (True, 1)


async def test_nobody_finds_one_that_has_ended_still_at_work() -> None:
    """Whoever comes then begins another, and would wait for ever if it took the old one for one that works."""
    ended = False

    async def work() -> None:
        nonlocal ended
        ended = True

    task = keep_up(work, "work")
    while not task.done():
        assert not ended
        await asyncio.sleep(0)
    assert ended


@pytest.mark.parametrize("of", ["redis", "sql"])
async def test_whoever_waits_for_an_office_is_woken_though_a_look_has_failed(of: str) -> None:
    async def free(elections: list[str]) -> dict[str, float]:
        return dict.fromkeys(elections, 0)

    odd = Odd(free)
    if of == "redis":
        redis = RedisLookout(odd.ask)
        await asyncio.wait_for(redis.wait("x", 60.0), 30)
        await redis.close()
    else:
        sql = SqlLookout(odd.ask, 60.0)
        await asyncio.wait_for(sql.wait("x"), 30)
        await sql.end(Unreachable("sql", "changed", "closed"))
    assert odd.count == 2


async def test_a_subscription_of_redis_is_tried_again() -> None:
    odd = Odd()
    hearing = Hearing(cast("RedisClient", odd), lambda _: None, lambda: None)
    hearing.want("channel")
    await asyncio.wait_for(odd.again.wait(), 30)
    assert odd.count == 2
    await hearing.close()


async def test_whoever_waits_for_a_listener_of_postgresql_goes_on_without_and_it_is_tried_again() -> None:
    odd = Odd()
    listening = Listening("channel", odd.ask, odd.ask)
    await asyncio.wait_for(listening.begin(SqlLookout(odd.ask, 60.0)), 30)
    assert listening.works is False
    await asyncio.wait_for(odd.again.wait(), 30)
    await listening.end()


async def test_a_watch_of_etcd_is_opened_again() -> None:
    odd = Odd()
    watches = Watches(cast("Link", odd), 1.0)
    waiting = asyncio.create_task(watches.deleted(b"key", 1))
    await asyncio.wait_for(odd.again.wait(), 30)
    assert not waiting.done()
    waiting.cancel()
    await asyncio.wait([waiting])
    await watches.close()


@pytest.mark.parametrize("first", [KeyError, asyncio.CancelledError], ids=["an error", "what was cancelled elsewhere"])
async def test_a_watch_of_kubernetes_is_begun_again(first: type[BaseException]) -> None:
    odd = Odd(first=first)
    watch = Watch(cast("KubernetesClient", odd), "/leases", lambda _, __: None, lambda: None)
    with pytest.raises(Unreachable):  # the second answer, which is one that a store speaks of
        await asyncio.wait_for(watch.begin(), 30)
    assert odd.count == 2
    await watch.end()


async def test_a_lease_is_kept_alive_though_looking_after_it_has_failed() -> None:
    class Kept(Leases):
        async def renew(self, lease: Lease, since: int) -> None:
            await odd.ask(lease, since)

    odd, clock = Odd(), LeapingClock()
    leases = Kept(clock)
    leases.let.set()
    await leases.take(place_in("x", ttl_ns=60_000_000))
    await asyncio.wait_for(odd.again.wait(), 30)
    assert odd.count == 2
    await leases.close()
