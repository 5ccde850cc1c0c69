"""The blocking face: the same promises for threads."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.hearing import Hearing
from tests.processes import freeze

from tenure import sync
from tenure.errors import ConfigError, Reason, StaleToken, TenureOver
from tenure.facts.kinds import Elected, Left, Overstayed
from tenure.model import Token
from tenure.office.opened import wait_there
from tenure.sinks import SQLiteSink
from tenure.stores.memory import MemoryEngine, MemoryStore
from tenure.stores.sqlite import SQLiteStore

TTL = 2.0


def test_lead_runs_the_body_in_the_calling_thread_and_leaves_the_office_free() -> None:
    election = sync.Election(MemoryStore(), "x", ttl=TTL)

    def body(term: sync.Tenure) -> tuple[int, str]:
        incumbent = election.incumbent()
        assert incumbent is not None
        assert incumbent.holder == election.holder
        term.check()
        return term.token, threading.current_thread().name

    assert election.lead(body) == (1, threading.current_thread().name)
    assert election.incumbent() is None


def test_a_body_that_blocks_for_three_ttl_keeps_its_tenure() -> None:
    with sync.Election(MemoryStore(), "x", ttl=2).once() as term:
        time.sleep(6)
        assert term.valid
        assert term.reason is None


def test_loss_interrupts_a_sleep_and_the_candidate_stands_again_with_a_larger_token() -> None:
    engine, tokens = MemoryEngine(), list[int]()

    def body(term: sync.Tenure) -> str:
        tokens.append(term.token)
        if len(tokens) == 1:
            engine.delete("x")
            term.sleep(60)
        return "done"

    assert sync.Election(MemoryStore(engine), "x", ttl=TTL).lead(body) == "done"
    assert tokens == [1, 2]


def test_with_once_a_loss_is_raised() -> None:
    engine = MemoryEngine()

    def body(term: sync.Tenure) -> None:
        engine.delete("x")
        term.sleep(60)

    with pytest.raises(TenureOver) as over:
        sync.Election(MemoryStore(engine), "x", ttl=TTL).lead(body, once=True)
    assert over.value.reason is Reason.DEPOSED


def test_another_tenures_end_is_an_error_like_any_other() -> None:
    other = TenureOver(99, Reason.LAPSED)

    def body(_: sync.Tenure) -> None:
        raise other

    election = sync.Election(MemoryStore(), "x", ttl=TTL)
    with pytest.raises(TenureOver) as raised:
        election.lead(body)
    assert raised.value is other
    assert election.incumbent() is None


def test_an_exception_in_the_body_releases_the_office_and_propagates_unchanged() -> None:
    election, error = sync.Election(MemoryStore(), "x", ttl=TTL), KeyError("boom")

    def body(_: sync.Tenure) -> None:
        raise error

    with pytest.raises(KeyError) as raised:
        election.lead(body)
    assert raised.value is error
    assert raised.value.__cause__ is None
    assert election.incumbent() is None


def test_resigning_ends_lead_without_a_result() -> None:
    def body(term: sync.Tenure) -> str:
        term.resign()
        term.sleep(60)
        return "never"

    assert sync.Election(MemoryStore(), "x", ttl=TTL).lead(body) is None


def test_a_body_that_never_looks_becomes_an_overstay() -> None:
    engine = MemoryEngine()
    election = sync.Election(MemoryStore(engine), "x", ttl=0.4)
    with Hearing(election) as heard:
        with pytest.raises(TenureOver), election.once():  # noqa: PT012  (the block is the body)
            engine.delete("x")
            while not any(isinstance(what, Overstayed) for what in heard.all):
                time.sleep(0.01)
        assert [type(what) for what in heard.of_office] == [Elected, Overstayed, Left]


def test_progress_that_does_not_come_ends_the_tenure() -> None:
    election = sync.Election(MemoryStore(), "x", ttl=TTL)
    with pytest.raises(TenureOver, match="stalled"), election.once() as term:  # noqa: PT012  (the block is the body)
        term.progress(0.2)
        term.sleep(60)


def test_the_store_opens_by_with_and_sinks_are_sealed_before_the_body(tmp_path: Path) -> None:
    with sync.open_store(f"sqlite://{tmp_path / 'x.db'}") as store, SQLiteSink(tmp_path / "ledger.db") as ledger:
        with sync.Election(store, "x", ttl=TTL).once([ledger]) as old, ledger.transaction(old) as connection:
            connection.execute("CREATE TABLE entries (n INTEGER)")
        with sync.Election(store, "x", ttl=TTL).once([ledger]) as new:
            # The new leader has written nothing, and the old one is refused all the same.
            with pytest.raises(StaleToken), ledger.transaction(old) as connection:
                connection.execute("INSERT INTO entries VALUES (1)")
            with ledger.transaction(new) as connection:
                connection.execute("INSERT INTO entries VALUES (2)")


class Refusing:
    async def seal(self, fence: str, token: Token) -> None:
        raise ConfigError("sink", fence, f"is not for {token}")


def test_a_sink_that_can_never_be_sealed_ends_the_standing_with_its_error() -> None:
    election = sync.Election(MemoryStore(), "x", ttl=TTL)
    with pytest.raises(ConfigError, match="is not for 1"):
        election.lead(lambda _: pytest.fail("it led"), sinks=[Refusing()])
    with pytest.raises(ConfigError, match="is not for 2"), election.once([Refusing()]):
        pytest.fail("it led")


def test_observe_tells_of_a_change() -> None:
    store = MemoryStore()
    watcher = sync.Election(store, "x", ttl=0.4).observe()
    assert next(watcher) is None
    with sync.Election(store, "x", ttl=TTL).once() as term:
        seen = next(watcher)
        assert seen is not None
        assert seen.token == term.token
    assert next(watcher) is None


def test_decorated_functions_lead_and_hold() -> None:
    @sync.Election(MemoryStore(), "x", ttl=TTL).leader_only()
    def lead(term: sync.Tenure, number: int) -> int:
        return term.token + number

    @sync.Lock(MemoryStore(), "x", ttl=TTL)
    def hold(term: sync.Tenure, number: int) -> int:
        return term.token + number

    assert (lead(10), lead(10), hold(10), hold(10)) == (11, 12, 11, 12)


def test_threads_that_take_the_same_lock_never_hold_it_together() -> None:
    store, inside, tokens = MemoryStore(), list[int](), list[int]()

    def work(number: int) -> None:
        lock = sync.Lock(store, "x", ttl=TTL)
        for _ in range(10):
            with lock as term:
                inside.append(number)
                assert inside == [number]
                tokens.append(term.token)
                inside.remove(number)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert tokens == sorted(set(tokens))
    assert len(tokens) == 80


def test_acquire_answers_none_in_time_and_reentry_is_refused() -> None:
    store = MemoryStore()
    lock, other = sync.Lock(store, "x", ttl=TTL), sync.Lock(store, "x", ttl=TTL)
    assert lock.acquire() is not None
    assert lock.locked
    with pytest.raises(ConfigError, match="in use already"):
        lock.acquire()
    assert other.acquire(timeout=0) is None
    assert other.acquire(timeout=0.05) is None
    lock.release()
    assert not lock.locked
    with pytest.raises(ConfigError, match="not held"):
        lock.release()
    assert other.acquire(timeout=0) is not None
    other.release()


def test_who_lost_the_lock_learns_it_at_the_release_and_harms_nobody() -> None:
    engine = MemoryEngine()
    store = MemoryStore(engine)
    old, new = sync.Lock(store, "x", ttl=TTL), sync.Lock(store, "x", ttl=TTL)
    term = old.acquire()
    assert term is not None
    engine.delete("x")
    assert new.acquire() is not None
    with pytest.raises(TenureOver):
        term.sleep(60)
    with pytest.raises(TenureOver, match="tenure 1 is over"):
        old.release()
    assert new.locked
    new.release()


SLEEPER = """
import sys
from tenure import sync
tokens = []
def body(term):
    tokens.append(term.token)
    if len(tokens) == 1:
        print("leading", flush=True)
        sys.stdin.readline()          # stopped here, longer than the ttl
        print(term.valid, flush=True)
        term.check()
    return tokens
with sync.open_store(sys.argv[1]) as store:
    print(sync.Election(store, "x", ttl=4).lead(body), flush=True)
"""


def test_a_thread_that_was_stopped_for_longer_than_its_ttl_stands_again(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path / 'x.db'}"
    with subprocess.Popen(
        [sys.executable, "-c", SLEEPER, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as leader:
        assert leader.stdin is not None
        assert leader.stdout is not None
        assert leader.stdout.readline() == "leading\n"
        freeze(leader.pid, tmp_path / "x.db")
        with sync.open_store(url) as store, sync.Election(store, "x", ttl=4).once():
            leader.stdin.write("go on\n")
            leader.stdin.flush()
            os.kill(leader.pid, signal.SIGCONT)
            assert leader.stdout.readline() == "False\n"
        assert leader.stdout.readline() == "[1, 3]\n"
        assert leader.wait(20) == 0


INTERRUPTED = """
import sys
from tenure import sync
from tests.hearing import Hearing
with sync.open_store(sys.argv[1]) as store:
    lock = sync.Lock(store, "x", ttl=30)
    try:
        lock.acquire()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


def test_ctrl_c_ends_the_wait_for_a_lock(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path / 'x.db'}"
    with (
        sync.open_store(url) as store,
        sync.Lock(store, "x", ttl=30),
        subprocess.Popen([sys.executable, "-c", INTERRUPTED, url], stdout=subprocess.PIPE, text=True) as waiter,
    ):
        assert isinstance(store.store, SQLiteStore)
        while not wait_there(store.office, store.store.elections())[0].standbys:
            time.sleep(0.01)
        os.kill(waiter.pid, signal.SIGINT)
        assert waiter.stdout is not None
        assert waiter.stdout.readline() == "interrupted\n"
        assert waiter.wait(20) == 0
