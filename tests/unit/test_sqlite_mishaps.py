"""What nobody has foreseen costs the store whose request it was, and no other election: edits by hand, a system that has nothing left, our own mistakes."""

import asyncio
import errno
import re
import resource
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

import pytest

from tenure.clock import BootClock
from tenure.errors import ConfigError, OutcomeUnknown, Refused, TenureError, Unreachable
from tenure.model import Bid, Grant, Holder, Wait
from tenure.stores.sqlite import SQLiteStore
from tenure.stores.sqlite.host import Host, this_host

pytestmark = pytest.mark.anyio

TTL_NS = 10**10
PATIENCE_S = 60
ADA, BOB = Holder("host", 1, "ada"), Holder("host", 1, "bob")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def bid(holder: Holder = ADA, serial: int = 1, election: str = "e") -> Bid:
    return Bid(election, holder, serial, TTL_NS)


async def taken(store: SQLiteStore, asked: Bid) -> Grant:
    answer = await store.claim(asked)
    assert isinstance(answer, Grant)
    return answer


def edit(path: Path, change: str) -> None:
    """Do what an operator may do by hand."""
    with closing(sqlite3.connect(path, isolation_level=None)) as hand:
        hand.execute(change)


@asynccontextmanager
async def with_two_offices(path: Path) -> AsyncIterator[tuple[SQLiteStore, Grant]]:
    """A store of which one election is about to be spoilt, and in which the other goes on to the end."""
    async with asyncio.timeout(PATIENCE_S), SQLiteStore(path) as store:
        await taken(store, bid())
        well = await taken(store, bid(election="other"))
        yield store, well
        assert await store.renew(well) == well
        assert await store.read("other") is not None
        await store.release(well.bid)
        await store.changed(Wait(well.bid, None))


Ask = Callable[[SQLiteStore], Awaitable[object]]
ASKS: dict[str, Ask] = {
    "claim": lambda store: store.claim(bid(BOB)),
    "read": lambda store: store.read("e"),
    "changed": lambda store: store.changed(Wait(bid(BOB), None)),
    "ask_to_resign": lambda store: store.ask_to_resign("e"),
    "elections": lambda store: store.elections(),
}


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("value", ["'abc'", "x'00'", "1e300"])
async def test_a_lease_that_ends_at_no_number_is_refused_by_name_and_other_elections_go_on(
    value: str, ask: str, tmp_path: Path
) -> None:
    async with with_two_offices(path := tmp_path / "x.db") as (store, _):
        edit(path, f"UPDATE office SET expires = {value} WHERE election = 'e'")  # noqa: S608
        with pytest.raises(
            Refused, match=r"table office, expires of election e is .* must be a whole number: .*set it to 0"
        ):
            await ASKS[ask](store)


async def test_a_renewal_puts_right_what_was_written_over_the_end_of_its_lease(tmp_path: Path) -> None:
    async with with_two_offices(path := tmp_path / "x.db") as (store, well):
        edit(path, "UPDATE office SET expires = 'abc' WHERE election = 'other'")
        assert await store.renew(well) == well
        assert await store.read("other") is not None


async def test_since_when_somebody_leads_is_read_only_by_who_asks_for_it(tmp_path: Path) -> None:
    async with with_two_offices(path := tmp_path / "x.db") as (store, _):
        edit(path, "UPDATE office SET since = 'abc' WHERE election = 'e'")
        assert isinstance(await store.claim(bid(BOB)), Wait)
        with pytest.raises(Refused, match=r"table office, since of election e is 'abc' .*: set it to 0"):
            await store.elections()
        edit(path, "UPDATE office SET since = 0 WHERE election = 'e'")
        assert len(await store.elections()) == 2


@pytest.mark.parametrize("value", ["'abc'", "NULL"])
async def test_a_serial_that_is_no_number_is_refused_to_its_own_holder(value: str, tmp_path: Path) -> None:
    async with with_two_offices(path := tmp_path / "x.db") as (store, _):
        edit(path, f"UPDATE office SET serial = {value} WHERE election = 'e'")  # noqa: S608
        with pytest.raises(Refused, match="serial of election e"):
            await store.claim(bid())


@pytest.mark.parametrize("ask", ASKS)
async def test_a_text_that_is_none_is_refused_and_spoils_no_request_beside_it(ask: str, tmp_path: Path) -> None:
    async with with_two_offices(path := tmp_path / "x.db") as (store, well):
        edit(path, "UPDATE office SET host = CAST(x'ff' AS TEXT) WHERE election = 'e'")
        refused, renewed = await asyncio.gather(ASKS[ask](store), store.renew(well), return_exceptions=True)
        assert isinstance(refused, Refused)
        assert "the file was edited: in the table office" in refused.detail
        assert renewed == well
        edit(path, "DELETE FROM office WHERE election = 'e'")
        await taken(store, bid(BOB))


@pytest.mark.parametrize(
    ("ask", "spoilt"),
    [
        (lambda store: store.elections(), "standby SET host"),
        (lambda store: store.fetch("key"), "document SET value"),
        (lambda store: store.fetch("key"), "document SET version"),
        (lambda store: store.swap("key", b"new", None), "document SET value"),
        (lambda store: store.claim(bid(election="new")), "store SET last_token"),
    ],
)
async def test_a_text_that_is_none_in_any_table_costs_who_reads_it_and_no_request_beside_it(
    ask: Ask, spoilt: str, tmp_path: Path
) -> None:
    async with with_two_offices(path := tmp_path / "x.db") as (store, well):
        await store.swap("key", b"value", None)
        edit(
            path,
            "INSERT INTO standby SELECT election, 'host', 1, 'bob', 1, 1 << 62, boot_id, time_namespace FROM office",
        )
        edit(path, f"UPDATE {spoilt} = CAST(x'ff' AS TEXT)")
        opened_count = store._desk.opened_count
        refused, renewed = await asyncio.gather(ask(store), store.renew(well), return_exceptions=True)
        assert isinstance(refused, Refused)
        assert f"the file was edited: in the table {spoilt.split(maxsplit=1)[0]}, " in refused.detail
        assert renewed == well
        assert store._desk.opened_count == opened_count, "nothing is wrong with the connection"


async def test_a_counter_that_is_no_number_is_refused_to_who_needs_a_token(tmp_path: Path) -> None:
    async with with_two_offices(path := tmp_path / "x.db") as (store, _):
        edit(path, "UPDATE store SET last_token = 'abc'")
        with pytest.raises(Refused, match="last_token in the table store is 'abc'"):
            await store.claim(bid(election="new"))


@pytest.mark.parametrize("value", ["'abc'", "CAST(x'ff' AS TEXT)"])
async def test_a_standby_and_a_turnover_that_are_no_numbers_are_written_anew(value: str, tmp_path: Path) -> None:
    async with with_two_offices(path := tmp_path / "x.db") as (store, _):
        await store.claim(bid(BOB))
        await store.read("e")  # Before it is carried out, who waits is recorded.
        edit(path, f"UPDATE standby SET fresh_until = {value}")  # noqa: S608
        edit(path, f"UPDATE store SET turnover = {value}")  # noqa: S608
        await store.claim(bid(BOB))
        waiting = asyncio.ensure_future(store.changed(Wait(bid(BOB), None)))
        await store.read("e")
        await store.release(bid())
        await waiting
    with closing(sqlite3.connect(path)) as hand:
        assert hand.execute("SELECT typeof(fresh_until) FROM standby").fetchall() == [("integer",)]


class Moody(BootClock):
    """A clock and a host that fail while they are told to."""

    def __init__(self) -> None:
        super().__init__()
        self.failure: Exception | None = None

    def now(self) -> int:
        if self.failure is not None and threading.current_thread().name.startswith("tenure-sqlite"):
            raise self.failure
        return super().now()

    def host(self) -> Host:
        if isinstance(self.failure, OSError | ConfigError):
            raise self.failure
        return Host("boot", "time")


@contextmanager
def failing(moody: Moody, failure: Exception) -> Iterator[None]:
    moody.failure = failure
    try:
        yield
    finally:
        moody.failure = None


@pytest.mark.parametrize(
    ("ask", "told"), [("claim", OutcomeUnknown), ("read", OutcomeUnknown), ("changed", Unreachable)]
)
async def test_a_mistake_of_ours_costs_who_asked_and_not_the_thread(
    ask: str, told: type[TenureError], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    moody = Moody()
    async with asyncio.timeout(PATIENCE_S), SQLiteStore(tmp_path / "x.db", clock=moody, host=moody.host) as store:
        office = await taken(store, bid())
        with failing(moody, ZeroDivisionError("redis://user:hunter2@host")):
            for _ in range(3):
                with pytest.raises(
                    told, match=r"a mistake of ours.*ZeroDivisionError.* at test_sqlite_mishaps\.py:\d+"
                ):
                    await ASKS[ask](store)
        assert await store.renew(office) == office
        waiting = asyncio.ensure_future(store.changed(Wait(bid(BOB), None)))
        await store.release(office.bid)
        await waiting
        assert (await taken(store, bid(BOB))).token == office.token + 1
    (line,) = [record.getMessage() for record in caplog.records if record.name == "tenure"]
    assert line.startswith("tenure-sqlite-")
    assert "has failed, and goes on: ZeroDivisionError" in line
    assert "hunter2" not in line


@pytest.mark.parametrize("ask", ["claim", "changed"])
@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (OSError(errno.EMFILE, "Too many open files"), Unreachable),
        (ConfigError("platform", "linux", "odd"), ConfigError),
    ],
)
async def test_a_moment_without_descriptors_is_over_when_there_are_some_again(
    failure: Exception, told: type[TenureError], ask: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    moody = Moody()
    async with asyncio.timeout(PATIENCE_S), SQLiteStore(tmp_path / "x.db", clock=moody, host=moody.host) as store:
        office = await taken(store, bid())
        assert isinstance(await store.claim(bid(BOB)), Wait)  # who is to be recorded by ``tidy``
        store._desk.close()
        with failing(moody, failure), pytest.raises(told, match=re.escape(str(failure))):
            await ASKS[ask](store)
        assert await store.renew(office) == office
    assert caplog.records == []  # No mistake of ours.


def test_a_host_is_not_blamed_for_having_no_descriptor_left_for_a_moment() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, before[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            this_host()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("ask", ["open", "changed"])
async def test_a_system_that_gives_no_thread_leaves_the_store_unreached_until_it_gives_one(
    ask: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async with asyncio.timeout(PATIENCE_S), SQLiteStore(tmp_path / "x.db") as store:
        call = SQLiteStore(tmp_path / "y.db").__aenter__() if ask == "open" else store.changed(Wait(bid(), None))
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", none_left)
            with pytest.raises(Unreachable, match="can't start new thread"):
                await call
        await store.changed(Wait(bid(), None))
