"""From a URL to leading: what a new user does first, on the embedded default."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from tests.processes import freeze

import tenure
from tenure.office.opened import run_there
from tenure.sinks import SQLiteSink


def url_of(folder: Path) -> str:
    return f"sqlite://{folder / 'elections.db'}"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_leader_on_sqlite_writes_through_a_fence_and_an_older_token_is_refused(backend: str, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.db"
    sqlite3.connect(ledger).executescript("CREATE TABLE entry (token INTEGER); PRAGMA journal_mode=WAL").close()

    async def main() -> None:
        async with tenure.open_store(url_of(tmp_path)) as store:
            sink = SQLiteSink(ledger)
            election = tenure.Election(store, "billing/close", ttl=5)
            async with election.once([sink]) as first, anyio.create_task_group():
                with sink.transaction(first) as connection:
                    connection.execute("INSERT INTO entry VALUES (?)", (first.token,))
            async with election.once([sink]) as second:
                assert second.token > first.token
                with pytest.raises(tenure.StaleToken), sink.transaction(first) as connection:
                    connection.execute("INSERT INTO entry VALUES (?)", (first.token,))
            sink.close()

    anyio.run(main, backend=backend)
    assert sqlite3.connect(ledger).execute("SELECT count(*) FROM entry").fetchone() == (1,)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("etcd3://h", "memory://, sqlite://"),
        ("nonsense", "must begin with"),
        ("", "must begin with"),
        ("sqlite://host/path", "has a host"),
        ("sqlite:///no/such/folder/x.db", "no/such/folder"),
        ("sqlite:///:memory:", "memory"),
        ("memory://host", "just memory://"),
        ("oops://ada:swordfish@h", "must begin with"),
    ],
)
def test_a_store_that_cannot_be_is_refused_in_one_line_without_its_secret(url: str, said: str) -> None:
    async def main() -> None:
        async with tenure.open_store(url):
            pytest.fail("it opened")

    with pytest.raises(tenure.ConfigError) as refused:
        anyio.run(main)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "swordfish" not in str(refused.value)


def test_options_that_a_store_does_not_have_are_refused() -> None:
    with pytest.raises(tenure.ConfigError, match="colour"):
        tenure.open_store("memory://", colour="red")


LEADER = """
import anyio, sys, tenure
async def main(url):
    async with tenure.open_store(url) as store:
        async with tenure.Election(store, "x", ttl=1).once() as term:
            print(term.token, flush=True)
            sys.stdin.readline()      # stopped here, longer than the ttl
            print(term.valid, flush=True)
            await anyio.sleep_forever()
try:
    anyio.run(main, sys.argv[1])
except tenure.TenureOver as over:
    print(over.reason.value, flush=True)
"""


def test_a_leader_that_was_stopped_for_longer_than_its_ttl_knows_it_at_the_first_instruction(tmp_path: Path) -> None:
    url = url_of(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", LEADER, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as leader:
        assert leader.stdin is not None
        assert leader.stdout is not None
        assert leader.stdout.readline() == "1\n"
        freeze(leader.pid, tmp_path / "elections.db")

        async def take_over() -> int:
            async with tenure.open_store(url) as store, tenure.Election(store, "x", ttl=30).once() as term:
                leader.stdin.write("go on\n")  # type: ignore[union-attr]
                leader.stdin.flush()  # type: ignore[union-attr]
                os.kill(leader.pid, signal.SIGCONT)
                assert leader.stdout is not None
                lines = [await anyio.to_thread.run_sync(leader.stdout.readline) for _ in range(2)]
                assert lines[0] == "False\n"
                assert lines[1].strip() in {"lapsed", "store-gone", "deposed"}
                return term.token

        assert anyio.run(take_over) == 2
        assert leader.wait(20) == 0


def test_a_process_that_ends_in_office_leaves_no_lease_behind(tmp_path: Path) -> None:
    url = url_of(tmp_path)
    leave = LEADER.replace("sys.stdin.readline()", "sys.exit(0)").replace("ttl=1", "ttl=60")
    assert subprocess.run([sys.executable, "-c", leave, url], check=True, capture_output=True).stdout == b"1\n"

    async def free() -> bool:
        async with tenure.open_store(url) as store:
            return await tenure.Election(store, "x", ttl=60).incumbent() is None

    assert anyio.run(free)


def test_a_leader_that_is_asked_to_resign_leaves_at_its_next_renewal_in_favour_of_another(tmp_path: Path) -> None:
    async def main() -> None:
        async with tenure.open_store(url_of(tmp_path)) as store, tenure.open_store(url_of(tmp_path)) as other:
            leading, successor = anyio.Event(), list[int]()

            async def first(term: tenure.Tenure) -> None:
                if term.token > 1:
                    return
                leading.set()
                await anyio.sleep_forever()

            async def second(term: tenure.Tenure) -> None:
                successor.append(term.token)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(tenure.Election(store, "x", ttl=2).lead, first)
                await leading.wait()
                tasks.start_soon(tenure.Election(other, "x", ttl=2).lead, second)
                asked = await run_there(other.office, other.store.ask_to_resign("x"))  # type: ignore[attr-defined]
                assert asked.token == 1
            assert successor == [2]

    anyio.run(main)
