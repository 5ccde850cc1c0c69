"""``granted_by``: a sink takes the word of the real store on who is in office, and nobody else's."""

import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import anyio
import pytest

from tenure import Election, granted_by, open_store, sync
from tenure.errors import ConfigError, OutcomeUnknown, StoreError, Unreachable, UnverifiedToken
from tenure.facts import subscribe
from tenure.facts.kinds import Elected, Fact
from tenure.model import Incumbent, Token
from tenure.office.opened import OpenStore
from tenure.sinks import Bound, FileSink, MemoryMark, Orders, SQLiteSink
from tenure.stores.memory import MemoryStore

On = Callable[[Callable[[], Awaitable[None]]], None]

FORGED = Token(2**62)
LIMIT_S = 20  # of what takes no time: for a machine that is busy


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/elections.db"


@pytest.fixture
def store(url: str) -> Iterator[OpenStore]:
    with open_store(url) as opened:
        yield opened


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE entries (entry TEXT)")
    return path


def entries(ledger: Path) -> list[str]:
    with closing(sqlite3.connect(ledger)) as connection:
        return [entry for (entry,) in connection.execute("SELECT entry FROM entries ORDER BY rowid")]


def insert(entry: str, connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO entries VALUES (?)", (entry,))


def write(sink: SQLiteSink, term: Bound, entry: str) -> None:
    with sink.transaction(term) as connection:
        insert(entry, connection)


def under(term: Bound, token: int) -> SimpleNamespace:
    return SimpleNamespace(fence=term.fence, token=token)


def test_a_leader_is_confirmed_and_a_forged_token_is_refused_and_counted(url: str, ledger: Path, on: On) -> None:
    async def test() -> None:
        async with open_store(url) as store:
            with SQLiteSink(ledger, verify=granted_by(store)) as sink:
                async with Election(store, "books").once([sink]) as term:
                    await sink.run(term, partial(insert, "by the leader"))
                    with pytest.raises(UnverifiedToken):
                        await sink.seal(term.fence, FORGED)
                    with pytest.raises(UnverifiedToken):
                        await sink.run(under(term, FORGED), partial(insert, "forged"))
                    with pytest.raises(UnverifiedToken):
                        await sink.seal(term.fence, Token(term.token + 1))
                    await sink.run(term, partial(insert, "by the leader still"))
                async with Election(store, "books").once([sink]) as term:
                    await sink.run(term, partial(insert, "by the next"))
                assert (sink.refused.stale, sink.refused.unverified) == (0, 3)
        assert entries(ledger) == ["by the leader", "by the leader still", "by the next"]

    on(test)


def test_sinks_that_block_ask_from_any_thread_and_workers_as_well(store: OpenStore, ledger: Path) -> None:
    orders = Orders(MemoryMark(), verify=granted_by(store))
    with (
        SQLiteSink(ledger, verify=granted_by(store)) as sink,
        sync.Election(store, "books").once() as term,  # Nobody seals, so that each has to ask.
        ThreadPoolExecutor(8) as threads,
    ):
        forgeries = [threads.submit(write, sink, under(term, FORGED + number), "forged") for number in range(8)]
        writes = [threads.submit(write, sink, term, "honest") for _ in range(8)]
        assert [type(each.exception(LIMIT_S)) for each in (*forgeries, *writes)] == [UnverifiedToken] * 8 + [
            type(None)
        ] * 8
        assert (sink.refused.stale, sink.refused.unverified) == (0, 8)
        with pytest.raises(UnverifiedToken):
            orders.accept(under(term, FORGED))
        orders.accept(term)
        assert (orders.refused.stale, orders.refused.unverified) == (0, 1)
    assert entries(ledger) == ["honest"] * 8


def test_a_body_in_a_thread_has_its_sinks_sealed_under_a_token_that_the_store_confirms(
    store: OpenStore, tmp_path: Path
) -> None:
    sink = FileSink(tmp_path, verify=granted_by(store))
    with sync.Election(store, "books").once([sink]) as term:
        sink.blocking(term).write_text("entry", "honest")
        with pytest.raises(UnverifiedToken):
            sink.blocking(under(term, FORGED)).write_text("entry", "forged")
    assert (tmp_path / "entry").read_text() == "honest"
    assert (sink.refused.stale, sink.refused.unverified) == (0, 1)


def test_a_fence_of_another_store_is_never_confirmed(store: OpenStore, tmp_path: Path, ledger: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/others.db") as other, SQLiteSink(ledger, verify=granted_by(other)) as sink:
        with sync.Election(store, "books").once() as term, sync.Election(other, "books").once() as others:
            assert (term.token, term.fence != others.fence) == (others.token, True)
            with pytest.raises(UnverifiedToken):
                write(sink, term, "of another store")
            write(sink, others, "of this store")
            # The name of the other store somewhere inside, and in front of what is no election of it.
            verify = granted_by(other)
            assert not verify(f"x{others.fence}", Token(others.token))
            assert not verify(f"{others.fence}x", Token(others.token))
            assert not verify(f"{others.fence}/more", Token(others.token))
            assert verify(others.fence, Token(others.token))
        assert sink.refused.unverified == 1
    assert entries(ledger) == ["of this store"]


def test_a_tenure_that_has_ended_raises_no_fence_whether_or_not_it_was_succeeded(
    store: OpenStore, ledger: Path
) -> None:
    with SQLiteSink(ledger, verify=granted_by(store)) as sink:
        with sync.Election(store, "books").once() as old:
            pass
        with pytest.raises(UnverifiedToken):
            write(sink, old, "by nobody any more")
        with sync.Election(store, "books").once() as new:
            assert new.token > old.token
            with pytest.raises(UnverifiedToken):  # The sink has never heard of the successor.
                write(sink, old, "succeeded")
            write(sink, new, "by the successor")
        write(sink, new, "late, under a token that the fence stands at")
        assert (sink.refused.stale, sink.refused.unverified) == (0, 2)
    assert entries(ledger) == ["by the successor", "late, under a token that the fence stands at"]


@pytest.mark.parametrize("name", ["", "/", "a//b", "..", "a/../b", "a\0b", " a", "a" * 300])
def test_a_name_that_no_election_can_have_is_not_confirmed(store: OpenStore, name: str) -> None:
    identity = store.store.identity
    assert not granted_by(store)(f"{identity}/{name}", Token(1))


class Silent(MemoryStore):
    """Answers nobody who reads, or says at once that it cannot."""

    def __init__(self, trouble: StoreError | None = None) -> None:
        super().__init__()
        self._trouble = trouble

    async def read(self, election: str) -> Incumbent | None:
        if self._trouble is not None:
            raise self._trouble
        await anyio.sleep_forever()
        return await super().read(election)


@pytest.mark.parametrize(
    ("store", "kind", "said"),
    [
        (Silent(Unreachable("memory://", "read")), Unreachable, "was not sent"),
        (Silent(), OutcomeUnknown, "no answer within 0.05 s"),
    ],
    ids=["unreachable", "silent"],
)
def test_a_store_that_cannot_be_asked_confirms_nothing_and_says_so(
    store: Silent, kind: type[StoreError], said: str, ledger: Path
) -> None:
    fence = f"{store.identity}/books"
    with SQLiteSink(ledger, verify=granted_by(store, within=0.05)) as sink:
        with pytest.raises(kind, match=said):
            anyio.run(sink.seal, fence, Token(1))
        with pytest.raises(kind, match=said):
            write(sink, SimpleNamespace(fence=fence, token=1), "unconfirmed")
        assert (sink.refused.stale, sink.refused.unverified) == (0, 0)  # That is no refusal: nobody has said no.
    with closing(sqlite3.connect(ledger)) as connection:
        assert connection.execute("SELECT * FROM tenure_fence").fetchall() == []
    assert entries(ledger) == []


def test_a_store_that_is_closed_and_a_time_that_is_none_are_mistakes_of_the_caller(url: str) -> None:
    with open_store(url) as store:
        verify = granted_by(store)
    with pytest.raises(ConfigError, match="not open"):
        verify("x/books", Token(1))
    for within in (0, -1):
        with pytest.raises(ConfigError, match="within"):
            granted_by(store, within=within)


def test_a_subscriber_may_ask(store: OpenStore) -> None:
    told: list[bool] = []

    def ask(_: Fact) -> None:
        told.append(granted_by(store)(f"{store.store.identity}/books", Token(1)))

    with subscribe(ask, kinds=(Elected,)) as subscription, sync.Election(store, "books").once():
        assert subscription.wait_until_told(LIMIT_S)
    assert told == [True]


def test_a_seal_that_is_cancelled_does_not_wait_for_the_answer(ledger: Path, on: On) -> None:
    asked, answer, waits = Event(), Event(), list[bool]()

    def verify(_: str, __: Token) -> bool:
        asked.set()
        waits.append(answer.wait(LIMIT_S))
        return True

    async def test() -> None:
        with SQLiteSink(ledger, verify=verify) as sink:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(sink.seal, "x/books", Token(1))
                assert await anyio.to_thread.run_sync(asked.wait, LIMIT_S)
                tasks.cancel_scope.cancel()
            assert waits == []
            answer.set()

    on(test)
