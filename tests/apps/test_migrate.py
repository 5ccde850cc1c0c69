"""Each step is applied once and recorded with it, whatever happens to the runner. On every kind of database."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tenure
from tenure.apps.ledger.base import Entry
from tenure.apps.ledger.opening import open_ledger
from tenure.apps.migrate import records
from tenure.apps.migrate.runner import Candidature, Migration, NotInTime, StepFailed
from tenure.errors import ConfigError, StaleToken
from tenure.model import Token
from tenure.sinks.sql.talk import Ask
from tests.apps.test_migrate_steps import written

LOG = "-- tenure: no-transaction repeatable\nCREATE TABLE IF NOT EXISTS log (step int, note varchar(50))"


def inserts(step: int, *, also: str = "") -> str:
    return f"INSERT INTO log (step, note) VALUES ({step}, 'a;b%');{also}"  # noqa: S608


def logged() -> Entry[list[Any]]:
    told = yield Ask("SELECT step FROM log ORDER BY step")
    return [step for (step,) in told.rows]


async def made(migration: Migration) -> records.Records:
    await migration.ledger.ask(records.create(migration.ledger))
    found = await migration.ledger.ask(records.where(migration.ledger))
    assert found is not None
    return found


async def steps_in(url: str) -> list[Any]:
    ledger = open_ledger(url)
    try:
        return await ledger.ask(logged())
    finally:
        await ledger.close()


def run(tmp_path: Path, test: Callable[[tenure.office.opened.OpenStore], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(90), tenure.open_store(f"sqlite://{tmp_path}/elections.db") as store:
            await test(store)

    asyncio.run(bounded())


def test_steps_are_applied_in_their_order_and_a_second_run_has_nothing_to_do(url: str, tmp_path: Path) -> None:
    folder = written(tmp_path, **{"1_log__sql": LOG, "2_two__sql": inserts(2), "3_three__sql": inserts(3)})

    async def test(store: Any) -> None:
        async with Migration(folder, url) as migration:
            done = await migration.run(Candidature(store))
            assert [applied.step.number for applied in done] == [1, 2, 3]
            found, due = await migration.status()
            assert [(record.number, record.state, record.token) for record in found] == [
                (number, "applied", done[0].token) for number in (1, 2, 3)
            ]
            assert due.pending == ()
        async with Migration(folder, url) as migration:
            assert await migration.run(Candidature(store)) == []
        assert await steps_in(url) == [2, 3]

    run(tmp_path, test)


def test_a_look_changes_nothing(url: str, tmp_path: Path) -> None:
    folder = written(tmp_path, **{"1_log__sql": LOG})

    async def test(_: Any) -> None:
        async with Migration(folder, url) as migration:
            for _ in range(2):
                found, due = await migration.status()
                assert (found, len(due.pending)) == ([], 1)

    run(tmp_path, test)


def test_a_step_that_fails_leaves_nothing_of_itself_and_all_that_came_before(url: str, tmp_path: Path) -> None:
    broken = inserts(3, also="INSERT INTO no_such_table (x) VALUES (1)")
    folder = written(tmp_path, **{"1_log__sql": LOG, "2_two__sql": inserts(2), "3_three__sql": broken})

    async def test(store: Any) -> None:
        async with Migration(folder, url) as migration:
            with pytest.raises(StepFailed, match=r"step 3 three failed: .*no_such_table"):
                await migration.run(Candidature(store))
        assert await steps_in(url) == [2]
        written(tmp_path, **{"3_three__sql": inserts(3)})
        async with Migration(folder, url) as migration:
            assert [applied.step.number for applied in await migration.run(Candidature(store))] == [3]
        assert await steps_in(url) == [2, 3]

    run(tmp_path, test)


def test_a_step_in_python_has_the_connection_of_the_transaction(url: str, tmp_path: Path) -> None:
    statement = '"INSERT INTO log (step) VALUES (2)"'
    body = {
        "sqlite": f"def apply(connection):\n    connection.execute({statement})",
        "postgresql": f"async def apply(connection):\n    await connection.execute({statement})",
        "mysql": f"async def apply(connection):\n    async with connection.cursor() as cursor:\n        await cursor.execute({statement})",
    }[url.partition(":")[0]]
    folder = written(
        tmp_path, **{"1_log__sql": LOG, "2_two__py": f"{body}\n", "3_three__py": f"{body}\n    raise KeyError(3)\n"}
    )

    async def test(store: Any) -> None:
        async with Migration(folder, url) as migration:
            line = 1 + len(body.splitlines())
            with pytest.raises(
                StepFailed, match=rf"step 3 three failed: KeyError: 3 \(.*_three\.py, line {line}\)"
            ) as failed:
                await migration.run(Candidature(store))
            assert isinstance(failed.value.__cause__, KeyError)
            found, _ = await migration.status()
            assert [record.number for record in found] == [1, 2]
        assert await steps_in(url) == [2]

    run(tmp_path, test)


def test_a_runner_that_was_succeeded_applies_nothing(url: str, tmp_path: Path) -> None:
    folder = written(tmp_path, **{"1_log__sql": LOG, "2_two__sql": inserts(2)})

    async def test(store: Any) -> None:
        async with Migration(folder, url) as migration:
            await migration.run(Candidature(store))
            written(tmp_path, **{"3_three__sql": inserts(3)})
        async with Migration(folder, url) as late:
            stale: Any = SimpleNamespace(fence="store/late", token=4, check=lambda: None)
            await late.ledger.seal("store/late", Token(5))
            with pytest.raises(StaleToken):
                await late._apply_all(stale, lambda _: None)
            found, _ = await late.status()
            assert len(found) == 2
        assert await steps_in(url) == [2]

    run(tmp_path, test)


def test_a_step_whose_end_is_not_known_is_begun_again_or_settled(url: str, tmp_path: Path) -> None:
    once = f"-- tenure: no-transaction\n{inserts(2)}"
    folder = written(tmp_path, **{"1_log__sql": LOG, "2_two__sql": once})
    term: Any = SimpleNamespace(fence="store/dead", token=1)

    async def test(store: Any) -> None:
        async with Migration(folder, url) as migration:
            await migration.ledger.record(term, (await made(migration)).begun(migration.steps[0], 1, again=False))
            await migration.run(Candidature(store))  # The first says that it may be begun again.
            assert await steps_in(url) == [2]
        written(tmp_path, **{"3_three__sql": once.replace("(2,", "(3,")})
        async with Migration(folder, url) as migration:
            await migration.ledger.record(term, (await made(migration)).begun(migration.steps[2], 1, again=False))
            with pytest.raises(ConfigError, match="--settle 3="):
                await migration.run(Candidature(store))
            assert not await migration.settle(2, "applied", Candidature(store))  # It is no question any more.
            assert await migration.settle(3, "undone", Candidature(store))
            await migration.run(Candidature(store))
            assert await steps_in(url) == [2, 3]

    run(tmp_path, test)


def test_who_waits_in_vain_is_told_so(tmp_path: Path) -> None:
    folder = written(tmp_path, **{"1_log__sql": LOG})

    async def test(store: Any) -> None:
        books = Migration(folder, f"sqlite://{tmp_path}/books.db")
        async with tenure.Election(store, "migrations").once(), books as migration:
            with pytest.raises(NotInTime, match=r"in office for 0\.3 s"):
                await migration.run(Candidature(store, wait_s=0.3))
            found, _ = await migration.status()
            assert found == []

    run(tmp_path, test)


def test_a_step_that_a_live_runner_has_begun_is_waited_for_and_not_judged(tmp_path: Path) -> None:
    folder = written(tmp_path, **{"1_log__sql": "-- tenure: no-transaction\nCREATE TABLE log (step int)"})
    books = f"sqlite://{tmp_path}/books.db"

    async def test(store: Any) -> None:
        async with tenure.Election(store, "migrations").once() as term, Migration(folder, books) as migration:
            await migration.ledger.record(
                term, (await made(migration)).begun(migration.steps[0], term.token, again=False)
            )
            assert len((await migration.status())[1].pending) == 1
            with pytest.raises(NotInTime):
                await migration.run(Candidature(store, wait_s=0))
            with pytest.raises(NotInTime):
                await migration.settle(1, "undone", Candidature(store, wait_s=0))

    run(tmp_path, test)


def test_a_step_that_ends_its_transaction_inside_is_never_taken_for_applied(
    tmp_path: Path, new_database: Callable[[str], str]
) -> None:
    url = new_database("mysql")
    hidden = "EXECUTE IMMEDIATE 'COMMIT'; INSERT INTO no_such_table VALUES (1)"
    folder = written(tmp_path, **{"1_log__sql": LOG, "2_two__sql": inserts(2, also=hidden)})

    async def test(store: Any) -> None:
        async with Migration(folder, url) as migration:
            with pytest.raises(StepFailed, match="no_such_table"):
                await migration.run(Candidature(store))
            found, _ = await migration.status()
            assert [(record.number, record.state) for record in found] == [(1, "applied"), (2, "begun")]
            with pytest.raises(ConfigError, match="it ended its transaction inside; look at the database"):
                await migration.run(Candidature(store))

    run(tmp_path, test)


def test_what_a_step_sets_for_its_session_ends_with_it(tmp_path: Path, new_database: Callable[[str], str]) -> None:
    url = new_database("postgresql")
    folder = written(
        tmp_path,
        **{"1_log__sql": LOG, "2_two__sql": "SELECT set_config('search_path', '', false)", "3_three__sql": inserts(3)},
    )

    async def test(store: Any) -> None:
        async with Migration(folder, url) as migration:
            assert len(await migration.run(Candidature(store))) == 3
        assert await steps_in(url) == [3]

    run(tmp_path, test)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("yield 1", "returned a generator"),
        ("import sys; sys.exit(0)", r"called sys\.exit\(0\)"),
        ("return 1", "returned a int"),
    ],
)
def test_a_step_in_python_that_cannot_have_been_applied_has_failed(tmp_path: Path, body: str, told: str) -> None:
    folder = written(tmp_path, **{"1_one__py": f"def apply(connection):\n    {body}\n"})

    async def test(store: Any) -> None:
        async with Migration(folder, f"sqlite://{tmp_path}/books.db") as migration:
            with pytest.raises(StepFailed, match=told):
                await migration.run(Candidature(store))
            assert (await migration.status())[0] == []

    run(tmp_path, test)


def test_a_constraint_that_is_checked_last_is_a_step_that_failed(
    tmp_path: Path, new_database: Callable[[str], str]
) -> None:
    url = new_database("postgresql")
    tables = "CREATE TABLE a (i int PRIMARY KEY); CREATE TABLE b (i int REFERENCES a DEFERRABLE INITIALLY DEFERRED)"
    folder = written(tmp_path, **{"1_tables__sql": tables, "2_two__sql": "INSERT INTO b VALUES (1)"})

    async def test(store: Any) -> None:
        async with Migration(folder, url) as migration:
            with pytest.raises(StepFailed, match=r"step 2 two failed: .*violates foreign key"):
                await migration.run(Candidature(store))
            assert len((await migration.status())[0]) == 1

    run(tmp_path, test)


def test_who_looks_at_a_file_makes_none_and_waits_for_no_writer(tmp_path: Path) -> None:
    folder, path = written(tmp_path, **{"1_log__sql": LOG}), tmp_path / "books.db"

    async def test(_: Any) -> None:
        async with Migration(folder, f"sqlite://{path}") as migration:
            await migration.status()
            assert not path.exists()
            with closing(sqlite3.connect(path, isolation_level=None)) as writer:
                writer.execute("CREATE TABLE a (b)")
                writer.execute("BEGIN IMMEDIATE")
                assert (await migration.status())[0] == []
                writer.execute("ROLLBACK")
                assert writer.execute("PRAGMA journal_mode").fetchone() == ("delete",)

    run(tmp_path, test)
