"""The store as an event loop sees it: nothing blocks, nothing is left behind, and a fork is told what to do."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tenure.clock import BootClock
from tenure.errors import ConfigError, Refused, Unreachable
from tenure.model import Bid, Ended, Grant, Holder, Incumbent, Token, Wait
from tenure.stores.base import CanAskToResign, CanList, CanRenewTogether
from tenure.stores.sqlite import SQLiteStore, from_url
from tenure.stores.sqlite.thread import MESSAGES_MAX

pytestmark = pytest.mark.anyio

TTL_NS = 10**10
ADA, BOB = Holder("host", 1, "ada"), Holder("host", 1, "bob")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.db"


def bid(holder: Holder = ADA, serial: int = 1, election: str = "e") -> Bid:
    return Bid(election, holder, serial, TTL_NS)


async def taken(store: SQLiteStore, asked: Bid) -> Grant:
    answer = await store.claim(asked)
    assert isinstance(answer, Grant)
    return answer


async def refused(store: SQLiteStore, asked: Bid) -> Wait:
    answer = await store.claim(asked)
    assert isinstance(answer, Wait)
    return answer


def traces() -> tuple[int, set[str]]:
    """How many descriptors are open, and which threads of ours run. Others come and go as they please."""
    names = {thread.name for thread in threading.enumerate()}
    return len(list(Path("/proc/self/fd").iterdir())), {name for name in names if name.startswith("tenure")}


class StuckClock(BootClock):
    """Holds up whoever asks for the time: to the event loop, it is a disk that does not answer."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.runs = threading.Event(), threading.Event()
        self.runs.set()

    def now(self) -> int:
        self.asked.set()
        self.runs.wait(60)
        return super().now()


@asynccontextmanager
async def stuck(path: Path) -> AsyncIterator[tuple[SQLiteStore, StuckClock, "asyncio.Task[object]"]]:
    """A store whose disk has stopped answering, and the claim that is stuck in it."""
    clock = StuckClock()
    async with SQLiteStore(path, clock=clock) as store:
        clock.asked.clear()
        clock.runs.clear()
        first = asyncio.ensure_future(store.claim(bid()))
        await asyncio.to_thread(clock.asked.wait, 60)
        try:
            yield store, clock, first
        finally:
            clock.runs.set()


async def test_the_address_and_the_identity_are_those_of_the_file(path: Path) -> None:
    async with SQLiteStore(path) as store, SQLiteStore(str(path)) as same, SQLiteStore(f"{path}2") as other:
        assert store.address == same.address == f"sqlite://{path}"
        assert store.identity == same.identity != other.identity


@pytest.mark.parametrize("name", ["x.db", "a b%20c?d#e@f.db", "ä.db"])
async def test_the_address_opens_the_same_file(name: str, tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / name) as store, from_url(store.address) as same:
        assert same.identity == store.identity


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_url_without_a_file_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        from_url(url)


def test_four_slashes_are_as_good_as_three() -> None:
    assert from_url("sqlite:////var/x.db").address == from_url("sqlite:///var/x.db").address == "sqlite:///var/x.db"


async def test_closing_leaves_no_thread_no_descriptor_and_no_log(path: Path) -> None:
    before = traces()
    for serial in range(1, 6):
        async with SQLiteStore(path) as store, SQLiteStore(path) as other:
            await taken(store, bid(ADA, serial))
            wait = await refused(other, bid(BOB, serial))
            await store.release(bid(ADA, serial))
            await other.changed(wait)
        assert traces() == before
        assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.fixture
def junk(path: Path) -> Path:
    path.write_text("not a database, and longer than the shortest one could be\n" * 20)
    return path


async def test_a_store_that_cannot_be_opened_leaves_no_thread_and_no_descriptor(junk: Path) -> None:
    before = traces()
    with pytest.raises(ConfigError, match="not a database"):
        async with SQLiteStore(junk):
            pass
    join_threads()
    assert traces() == before


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8])
async def test_an_opening_or_closing_that_is_cancelled_ends_its_threads_all_the_same(turns: int, path: Path) -> None:
    before = traces()

    async def use() -> None:
        async with SQLiteStore(path) as store:
            await store.read("e")

    task = asyncio.ensure_future(use())
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    join_threads()
    assert traces() == before


def join_threads() -> None:
    for thread in threading.enumerate():
        if thread.name.startswith("tenure-sqlite"):
            thread.join(30)


async def test_closing_carries_out_what_was_sent_before(path: Path) -> None:
    async with SQLiteStore(path) as store:
        await taken(store, bid())
        leaving = asyncio.ensure_future(store.release(bid()))
        await asyncio.sleep(0)
    await leaving
    async with SQLiteStore(path) as store:
        assert await store.read("e") is None


CALLS: dict[str, Callable[[SQLiteStore], Awaitable[object]]] = {
    "claim": lambda store: store.claim(bid()),
    "renew": lambda store: store.renew(Grant(bid(), Token(1))),
    "renew_together": lambda store: store.renew_together([Grant(bid(), Token(1))]),
    "release": lambda store: store.release(bid()),
    "changed": lambda store: store.changed(Wait(bid(), None)),
    "read": lambda store: store.read("e"),
    "elections": lambda store: store.elections(),
    "ask_to_resign": lambda store: store.ask_to_resign("e"),
}


@pytest.mark.parametrize("call", CALLS)
async def test_a_store_that_is_not_open_is_unreachable(call: str, path: Path) -> None:
    store = SQLiteStore(path)
    with pytest.raises(Unreachable, match="not open"):
        await CALLS[call](store)
    async with store:
        pass
    with pytest.raises(Unreachable, match="not open"):
        await CALLS[call](store)


async def test_a_store_is_opened_once(path: Path) -> None:
    store = SQLiteStore(path)
    async with store:
        with pytest.raises(ConfigError, match="make a new one"):
            await store.__aenter__()


@pytest.mark.parametrize("name", ["", "\udcff"])
async def test_a_name_that_cannot_be_stored_is_refused(name: str, path: Path) -> None:
    async with SQLiteStore(path) as store:
        with pytest.raises(Refused, match="cannot be stored"):
            await store.claim(bid(election=name))
        with pytest.raises(Refused, match="cannot be stored"):
            await store.read(name)


@pytest.mark.parametrize("name", ["a\0b", "ä/ö", "'; DROP TABLE office; --", "x" * 10_000, "e\n"])
async def test_every_other_name_is_a_name(name: str, path: Path) -> None:
    async with SQLiteStore(path) as store:
        grant = await taken(store, bid(election=name))
        assert await store.read(name) == Incumbent(name, ADA, grant.token)
        assert await store.read("e") is None


@pytest.mark.parametrize("address", ["", "http://10.0.0.5:8080", "ä\0"])
async def test_everybody_is_told_where_the_leader_can_be_reached(address: str, path: Path) -> None:
    async with SQLiteStore(path) as store, SQLiteStore(path) as other:
        grant = await taken(store, replace(bid(), advertise=address))
        incumbent = Incumbent("e", ADA, grant.token, address)
        assert await other.read("e") == incumbent
        assert (await refused(other, bid(BOB))).incumbent == incumbent
        assert [status.incumbent for status in await other.elections()] == [incumbent]
        assert await other.ask_to_resign("e") == incumbent


async def test_an_address_that_cannot_be_stored_is_refused(path: Path) -> None:
    async with SQLiteStore(path) as store:
        with pytest.raises(Refused, match="cannot be stored"):
            await store.claim(replace(bid(), advertise="\udcff"))
        assert await store.read("e") is None


async def test_a_number_that_no_file_can_hold_is_refused(path: Path) -> None:
    async with SQLiteStore(path) as store:
        with pytest.raises(Refused, match="serial and pid"):
            await store.claim(bid(serial=2**63))


async def test_a_disk_that_hangs_stops_neither_the_loop_nor_a_cancellation(path: Path) -> None:
    async with stuck(path) as (store, _, first):
        waiting = [asyncio.ensure_future(CALLS[name](store)) for name in CALLS if name != "changed"]
        await asyncio.sleep(0)
        for task in (first, *waiting):
            task.cancel()
        done, pending = await asyncio.wait([first, *waiting], timeout=30)
        assert (len(done), len(pending)) == (len(waiting) + 1, 0)
        assert all(task.cancelled() for task in done)


async def test_a_claim_cancelled_before_its_turn_is_not_carried_out_and_one_under_way_is(path: Path) -> None:
    async with stuck(path) as (store, clock, first):
        second = asyncio.ensure_future(store.claim(bid(election="second")))
        await asyncio.sleep(0)
        for task in (first, second):
            task.cancel()
        await asyncio.wait([first, second])
        clock.runs.set()
        assert await store.read("second") is None
        assert await store.read("e") is not None
        await store.release(bid())
        assert await store.read("e") is None


async def test_a_queue_that_is_full_turns_requests_away_unsent(path: Path) -> None:
    async with stuck(path) as (store, _, first):
        waiting = [asyncio.ensure_future(store.read("e")) for _ in range(MESSAGES_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(Unreachable, match="the disk does not answer"):
            await store.read("e")
        for task in waiting:
            task.cancel()
    await asyncio.wait([first, *waiting])


async def test_requests_that_wait_together_are_carried_out_together(path: Path) -> None:
    async with SQLiteStore(path) as store:
        session = store._worker._session
        grants = await asyncio.gather(*(taken(store, bid(election=f"e{number}")) for number in range(500)))
        assert session._transaction_count < 50
        assert await asyncio.gather(*map(store.renew, grants)) == grants
        assert session._transaction_count < 100


async def test_tenures_that_are_renewed_together_get_each_an_answer_of_its_own_in_a_few_transactions(
    path: Path,
) -> None:
    async with SQLiteStore(path) as store:
        assert isinstance(store, CanRenewTogether)
        assert await store.renew_together([]) == []
        grants = list(await asyncio.gather(*(taken(store, bid(election=f"e{number}")) for number in range(600))))
        await store.release(grants[300].bid)
        await store.ask_to_resign("e599")
        answers: list[Grant | Ended] = list(grants)
        answers[300] = Ended(grants[300].bid, grants[300].token)
        before = store._worker._session._transaction_count
        assert await store.renew_together(grants) == answers
        assert store._worker._session._transaction_count - before == 3
        assert [store.resign_asked(grant) for grant in grants] == [False] * 599 + [True]


async def test_who_is_asked_to_resign_learns_of_it_at_the_next_renewal(path: Path) -> None:
    async with SQLiteStore(path) as store, SQLiteStore(path) as operator:
        assert await operator.ask_to_resign("e") is None
        grant = await taken(store, bid())
        await store.renew(grant)
        assert await operator.ask_to_resign("e") == Incumbent("e", ADA, grant.token)
        assert not store.resign_asked(grant)
        await store.renew(grant)
        assert store.resign_asked(grant)
        await store.release(bid())
        second = await taken(store, bid(ADA, 2))
        await store.renew(second)
        assert not store.resign_asked(second)


def test_the_store_is_one_that_can_list_its_elections_and_ask_to_resign(path: Path) -> None:
    assert isinstance(SQLiteStore(path), CanList)
    assert isinstance(SQLiteStore(path), CanAskToResign)


async def test_the_status_tells_of_every_election_and_who_waits(path: Path) -> None:
    async with SQLiteStore(path) as store, SQLiteStore(path) as other:
        await taken(store, bid())
        await refused(other, bid(BOB))
        await taken(other, bid(BOB, election="f"))
        led, theirs = await store.elections()
        assert (led.election, led.standbys, theirs.election, theirs.standbys) == ("e", (BOB,), "f", ())
        assert led.incumbent is not None
        assert (led.incumbent.holder, led.resign_asked) == (ADA, False)
        assert 0 <= (led.held_for_ns or 0) < TTL_NS
        assert 0 < (led.remaining_ns or 0) <= TTL_NS


async def test_a_watch_ends_when_the_lease_does(path: Path) -> None:
    clock = BootClock()
    async with SQLiteStore(path) as store, SQLiteStore(path) as other:
        sent_at = clock.now()
        await store.claim(Bid("e", ADA, 1, 2 * 10**9))  # counted from before it is on disk, which may take a while
        await other.changed(await refused(other, bid(BOB)))
        assert 2 * 10**9 <= clock.now() - sent_at < TTL_NS // 2


async def test_watches_end_with_an_error_when_the_store_is_closed(path: Path) -> None:
    async with SQLiteStore(path) as store:
        await taken(store, bid())
        watch = asyncio.ensure_future(store.changed(await refused(store, bid(BOB))))
        await asyncio.sleep(0)
    with pytest.raises(Unreachable, match="closed"):
        await watch
