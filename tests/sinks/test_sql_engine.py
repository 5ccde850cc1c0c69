"""``fenced_engine`` on every database: a seal that comes after the first read refuses the commit, of Core and of mapped classes."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from tenure.errors import ConfigError, StaleToken, UnverifiedToken
from tenure.model import Token
from tenure.sinks import PsycopgSink, PyMySQLSink, SQLiteSink, fenced_engine, install_triggers
from tenure.testing.engines import MariaDbCluster, PostgresCluster

LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
FENCE = "engines"


class Base(DeclarativeBase):
    pass


class Entry(Base):
    __tablename__ = "entries"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    cents: Mapped[int]


class Place:
    """A database with an empty table, its engine, and the fence in it, which stands at 1."""

    def __init__(self, engine: Engine, seal: Callable[[int], None]) -> None:
        self.engine, self.seal = engine, seal
        Base.metadata.drop_all(engine)
        Base.metadata.create_all(engine)
        seal(1)

    def fenced(self, token: int, **options: Any) -> Engine:
        return fenced_engine(
            self.engine.execution_options(**options), SimpleNamespace(fence=self.engine.name + FENCE, token=token)
        )

    def entries(self) -> list[int]:
        with Session(self.engine) as session:
            return [entry.cents for entry in session.query(Entry).order_by(Entry.id)]


def _in_server(engine: Engine, sink: PsycopgSink | PyMySQLSink) -> Place:
    # So that each test begins at 1 again.
    def seal(token: int) -> None:
        fence = engine.name + FENCE
        if token == 1:
            table, name = (
                ("tenure_fence.fences", "fence")
                if engine.name == "postgresql"
                else ("tenure_fence", "CAST(fence AS CHAR)")
            )
            sink.set_up()
            with engine.begin() as connection:
                connection.execute(text(f"DELETE FROM {table} WHERE {name} = :fence"), {"fence": fence})  # noqa: S608
        sink.admit(fence, token)

    return Place(engine, seal)


@pytest.fixture
def on_postgresql(postgresql: PostgresCluster) -> Iterator[Place]:
    engine = create_engine(postgresql.url.replace("postgresql:", "postgresql+psycopg:"))
    with PsycopgSink(postgresql.url) as sink:
        yield _in_server(engine, sink)
    engine.dispose()


@pytest.fixture
def on_mysql(mariadb: MariaDbCluster) -> Iterator[Place]:
    engine = create_engine(mariadb.url.replace("mysql:", "mysql+pymysql:"))
    with PyMySQLSink(mariadb.url) as sink:
        yield _in_server(engine, sink)
    engine.dispose()


@pytest.fixture
def on_sqlite(tmp_path: Path) -> Iterator[Place]:
    path = tmp_path / "books.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": 0})
    with SQLiteSink(path) as sink:
        yield Place(engine, lambda token: asyncio.run(sink.seal("sqlite" + FENCE, Token(token))))
    engine.dispose()


@pytest.fixture(params=["on_postgresql", "on_mysql", "on_sqlite"])
def place(request: pytest.FixtureRequest) -> Place:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Place)
    return found


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["on_postgresql", "on_mysql"])
def test_a_seal_after_the_first_read_refuses_the_commit_at_every_level(
    name: str, level: str, request: pytest.FixtureRequest
) -> None:
    place: Place = request.getfixturevalue(name)
    fenced = place.fenced(1, isolation_level=level)
    with fenced.begin() as connection:
        connection.execute(text("INSERT INTO entries (cents) VALUES (1)"))
    with pytest.raises((StaleToken, DBAPIError)) as told, fenced.begin() as connection:  # noqa: PT012
        assert connection.execute(text("SELECT count(*) FROM entries")).scalar() == 1  # Here is its view taken.
        place.seal(2)
        connection.execute(text("INSERT INTO entries (cents) VALUES (2)"))
    if isinstance(
        told.value, DBAPIError
    ):  # Its view is too old to be checked in: it has to be begun anew, and then is stale.
        assert level != "READ COMMITTED"
        assert getattr(told.value.orig, "sqlstate", "") == "40001"
    with pytest.raises(StaleToken, match="token 1 is stale: the highest seen is 2"), fenced.begin():
        pass
    assert place.entries() == [1]


def test_what_a_session_flushes_is_fenced(place: Place) -> None:
    with Session(place.fenced(1)) as session:
        session.add(Entry(cents=1))
        session.commit()
    place.seal(2)
    with Session(place.fenced(1)) as session:
        session.add(Entry(cents=2))
        session.flush()
        with pytest.raises(StaleToken, match="token 1 is stale: the highest seen is 2"):
            session.commit()
        session.rollback()
        session.add(Entry(cents=3))
        with pytest.raises(StaleToken):
            session.commit()
    with Session(place.fenced(3)) as session:
        session.add(Entry(cents=4))
        with pytest.raises(UnverifiedToken):
            session.commit()
    with Session(place.fenced(2)) as session:
        session.add(Entry(cents=5))
        with session.begin_nested() as savepoint:
            session.add(Entry(cents=6))
            savepoint.rollback()
        session.commit()
    assert place.entries() == [1, 5]


def test_sqlite_commits_nothing_that_was_begun_before_the_check(on_sqlite: Place) -> None:
    """sqlite3 alone would commit what makes a table at once."""
    on_sqlite.seal(2)
    with pytest.raises(StaleToken), on_sqlite.fenced(1).begin() as connection:
        connection.execute(text("CREATE TABLE made (a int)"))
    with on_sqlite.engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM sqlite_master WHERE name = 'made'")).scalar() == 0


def test_sqlite_lets_nobody_seal_while_a_fenced_transaction_is_open(on_sqlite: Place) -> None:
    with on_sqlite.fenced(1).begin() as connection:
        connection.execute(text("SELECT count(*) FROM entries"))
        with closing(sqlite3.connect(str(on_sqlite.engine.url.database), timeout=0)) as other:
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                other.execute("BEGIN IMMEDIATE")
            other.rollback()
        with pytest.raises(OperationalError, match="locked"), on_sqlite.fenced(1).begin():
            pass
        connection.execute(text("INSERT INTO entries (cents) VALUES (1)"))
    assert on_sqlite.entries() == [1]


@pytest.mark.parametrize("how", ["their own begin", "autocommit"])
def test_sqlite_is_fenced_however_the_engine_begins_transactions(how: str, on_sqlite: Place) -> None:
    options: dict[str, Any] = {}
    if how == "autocommit":
        options["isolation_level"] = "AUTOCOMMIT"
    else:
        event.listen(on_sqlite.engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    for token, cents in ((1, 1), (2, 2)):
        on_sqlite.seal(token)
        with on_sqlite.fenced(token, **options).begin() as connection:
            connection.execute(text(f"INSERT INTO entries (cents) VALUES ({cents})"))  # noqa: S608
    with pytest.raises(StaleToken), on_sqlite.fenced(1, **options).begin() as connection:
        connection.execute(text("INSERT INTO entries (cents) VALUES (3)"))
    assert on_sqlite.entries() == [1, 2]


def test_sqlite_presents_the_token_to_triggers_and_withdraws_it(on_sqlite: Place) -> None:
    with closing(sqlite3.connect(str(on_sqlite.engine.url.database), isolation_level=None)) as own:
        install_triggers(own, "entries", fence="sqlite" + FENCE)
    insert = text("INSERT INTO entries (cents) VALUES (1)")
    for ends in ("commit", "rollback"):
        with on_sqlite.fenced(1).connect() as connection:
            connection.execute(insert)
            getattr(connection, ends)()
        with pytest.raises(DBAPIError, match="has presented no token"), on_sqlite.engine.begin() as stranger:
            stranger.execute(insert)  # On the same connection of the pool.
    on_sqlite.seal(2)
    with pytest.raises(StaleToken, match="the highest seen is 2"), on_sqlite.fenced(1).begin() as connection:
        connection.execute(insert)
    assert on_sqlite.entries() == [1]


@pytest.mark.parametrize(
    ("name", "driver", "told"),
    [
        ("sqlite", "aiosqlite", r"engine = sqlite\+aiosqlite: must be sqlite\+pysqlite: .*"),
        ("oracle", "oracledb", "engine = oracle: must be PostgreSQL, MySQL, MariaDB or SQLite"),
    ],
)
def test_other_engines_are_refused_in_one_line(name: str, driver: str, told: str) -> None:
    engine: Any = SimpleNamespace(dialect=SimpleNamespace(name=name, driver=driver))
    with pytest.raises(ConfigError, match=f"^{told}$"):
        fenced_engine(engine, SimpleNamespace(fence=FENCE, token=1))
