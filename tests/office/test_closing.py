"""What happens to tenures when their store, their process or their interpreter ends."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Self

import anyio
import pytest

import tenure
from tenure import sync
from tenure.errors import ConfigError
from tenure.office.opened import OpenStore
from tenure.office.thread import Office
from tenure.sinks import SQLiteSink
from tenure.stores.memory import MemoryStore

HELD_AT_EXIT = """
import sys
from tenure import sync
store = sync.open_store(sys.argv[1])
store.__enter__()
lock = sync.Lock(store, "x", ttl=60)
assert lock.acquire() is not None
"""


def test_a_lock_that_is_held_when_the_interpreter_leaves_is_released_before_its_store_is_closed(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path / 'x.db'}"
    subprocess.run([sys.executable, "-c", HELD_AT_EXIT, url], check=True, timeout=30)
    with sync.open_store(url) as store:
        assert sync.Election(store, "x").incumbent() is None


def test_who_leads_or_stands_by_on_a_store_that_is_closed_leaves_first_and_is_told_why(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path / 'x.db'}"

    async def main() -> None:
        told: list[ConfigError] = []

        async def lead(store: OpenStore, leading: anyio.Event) -> None:
            async def body(_: tenure.Tenure) -> None:
                leading.set()
                await anyio.sleep_forever()

            with pytest.raises(ConfigError, match="was closed while somebody stood or led on it") as refused:
                await tenure.Election(store, "x", ttl=30).lead(body)
            told.append(refused.value)

        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                leading = anyio.Event()
                async with tenure.open_store(url) as store:
                    tasks.start_soon(lead, store, leading)
                    await leading.wait()
                    tasks.start_soon(lead, store, leading)
                    await anyio.sleep(0.05)
            assert len(told) == 2
            async with tenure.open_store(url) as store:
                assert await tenure.Election(store, "x").incumbent() is None

    anyio.run(main)


def test_a_lock_that_is_held_when_its_store_is_closed_is_given_back(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path / 'x.db'}"
    with sync.open_store(url) as store:
        assert sync.Lock(store, "x", ttl=30).acquire() is not None
    with sync.open_store(url) as store:
        assert sync.Election(store, "x").incumbent() is None


def test_opening_that_is_cancelled_leaves_no_thread_behind(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path / 'x.db'}"

    def left() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name.startswith("tenure-sqlite")]

    async def main() -> None:
        for number in range(20):
            with anyio.move_on_after(number / 4000):
                async with tenure.open_store(url):
                    await anyio.sleep_forever()
        with anyio.move_on_after(10):
            while left():
                await anyio.sleep(0.01)
        assert left() == []

    anyio.run(main)


AFTER_EXIT = """
import atexit
from tenure import sync
from tenure.errors import ConfigError
from tenure.office.opened import OpenStore
from tenure.sinks import SQLiteSink
from tenure.stores.memory import MemoryStore
from tenure.stores.memory import MemoryStore

def late():
    try:
        with sync.Lock(MemoryStore(), "x"):
            print("held")
    except ConfigError as refused:
        print(refused)

atexit.register(late)                       # runs after the office has closed, which is registered later
with sync.Lock(MemoryStore(), "x"):
    pass
"""


def test_whoever_comes_after_the_office_has_closed_is_refused_instead_of_waiting_for_ever() -> None:
    run = subprocess.run([sys.executable, "-c", AFTER_EXIT], capture_output=True, text=True, check=True, timeout=30)
    assert run.stdout.startswith("office = closed: has ended with the interpreter")
    assert run.stderr == ""


OPENS_AT_EXIT = """
import asyncio, threading
from tenure.office.thread import Office

asked = threading.Event()

async def open_what_is_silent():
    asked.set()
    try:
        await asyncio.sleep(3600)
    finally:
        print("let go")

Office.of_this_process().submit(open_what_is_silent())
asked.wait(10)
"""


def test_what_is_being_opened_when_the_interpreter_leaves_is_let_go_without_a_word() -> None:
    command = [sys.executable, "-c", OPENS_AT_EXIT]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    assert (run.stdout, run.stderr) == ("let go\n", "")


RENEWS_AT_EXIT = """
import asyncio, threading
from tenure import sync
from tenure.stores.memory import MemoryStore

asked = threading.Event()

class Silent(MemoryStore):
    async def renew_together(self, grants):
        asked.set()
        await asyncio.sleep(3600)

with sync.Lock(Silent(), "x", ttl=6):
    assert asked.wait(20)
"""


def test_a_round_of_renewals_that_is_under_way_when_the_interpreter_leaves_is_no_fault_of_its_store() -> None:
    command = [sys.executable, "-c", RENEWS_AT_EXIT]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert (run.stdout, run.stderr) == ("", "")


def test_an_office_in_which_nothing_runs_any_more_is_closed_like_any_other() -> None:
    office = Office()

    async def end_the_watch() -> None:
        office._watch.cancel()

    office.submit(end_the_watch()).result(20)
    office.close()
    assert office.loop.is_closed()


CHILD_BELIEVES = """
import os
from tenure import sync
from tenure.stores.memory import MemoryStore
with sync.Election(MemoryStore(), "x", ttl=60).once() as term:
    child = os.fork()
    if child == 0:
        os._exit(1 if term.valid else 0)
    assert term.valid
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


def test_the_child_of_a_fork_does_not_believe_in_its_parents_tenure() -> None:
    run = subprocess.run(
        [sys.executable, "-c", CHILD_BELIEVES], capture_output=True, text=True, check=False, timeout=30
    )
    assert (run.returncode, run.stderr) == (0, "")


def test_a_body_can_write_for_the_last_time_while_its_store_is_being_closed(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as ledger:
        ledger.execute("CREATE TABLE line (text)")
        ledger.commit()

        async def main() -> None:
            leading = anyio.Event()
            sink = SQLiteSink(tmp_path / "ledger.db")

            async def body(term: tenure.Tenure) -> None:
                try:
                    leading.set()
                    await anyio.sleep_forever()
                finally:
                    with anyio.CancelScope(shield=True):
                        await sink.run(term, lambda line: line.execute("INSERT INTO line VALUES ('where I stopped')"))

            async def lead(store: OpenStore) -> None:
                with pytest.raises(ConfigError, match="was closed while somebody stood or led on it"):
                    await tenure.Election(store, "x", ttl=30).lead(body, sinks=[sink])

            with anyio.fail_after(20):
                url = f"sqlite://{tmp_path / 'x.db'}"
                async with anyio.create_task_group() as tasks, tenure.open_store(url) as store:
                    tasks.start_soon(lead, store)
                    await leading.wait()
            sink.close()

        anyio.run(main)
        assert ledger.execute("SELECT text FROM line").fetchall() == [("where I stopped",)]


def test_a_store_whose_closing_is_cancelled_while_somebody_takes_time_to_leave_is_closed_all_the_same() -> None:
    class Closable(MemoryStore):
        closed = False

        async def __aenter__(self) -> Self:
            return self

        async def __aexit__(self, *_: object) -> None:
            self.closed = True

    async def main() -> None:
        engine = Closable()
        opened = tenure.open_store("memory://")
        opened._unopened = engine
        leading, may_end = asyncio.Event(), asyncio.Event()

        async def body(_: tenure.Tenure) -> None:
            leading.set()
            with anyio.CancelScope(shield=True):
                await may_end.wait()

        open_now = asyncio.Event()

        async def use() -> None:
            async with opened:
                open_now.set()
                await leading.wait()

        using = asyncio.create_task(use())
        await open_now.wait()
        lead = asyncio.create_task(tenure.Election(opened, "x", ttl=30).lead(body))
        await leading.wait()
        await asyncio.sleep(0.05)
        assert not engine.closed  # The leader has not left.
        using.cancel()
        await asyncio.wait([using])
        assert using.cancelled()
        with anyio.fail_after(20):
            while not engine.closed:
                await asyncio.sleep(0.01)
        may_end.set()
        await lead

    asyncio.run(main())
