"""The same as ``triggers``, in tables of MySQL and SQLite: zombies write by plain SQL, and the database refuses them."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import tenure
from tenure.errors import StaleToken
from tenure.testing.engines import MariaDbCluster
from tests.processes import is_locked

_STALE = 31001


def _table_of(election: str) -> str:
    return f"`triggered-{election}`"


class InMySQLTriggers:
    store = ""

    def __init__(self, cluster: MariaDbCluster) -> None:
        self.cluster, self.target = cluster, cluster.url

    def prepare(self, election: str) -> None:
        columns = "(entry bigint AUTO_INCREMENT PRIMARY KEY, token bigint)"
        self.cluster.sql(f"CREATE TABLE {_table_of(election)} {columns}", database="test")

    def blocked(self) -> bool:
        return False

    def written(self, election: str) -> list[int]:
        rows = self.cluster.sql(f"SELECT token FROM {_table_of(election)} ORDER BY entry", database="test")  # noqa: S608
        return [int(row) for row in rows.split()]


class MySQLTriggerTarget:
    """Every write is a row. Whoever leads first has the table fenced; it stays as it is where nobody asks for a fence."""

    def __init__(self, url: str) -> None:
        from tenure.sinks import MySQLSink

        self.url, self.sink = url, MySQLSink(url)
        self.fenced = ""

    async def write(self, term: tenure.Tenure, name: str) -> None:
        import pymysql

        from tenure.sinks.mysql import present_sql

        if self.fenced != term.fence:
            await self.sink.install_triggers(_table_of(name).strip("`"), fence=term.fence)
            self.fenced = term.fence
        try:
            self._insert(term, name, present_sql(term))
        except pymysql.MySQLError as error:
            if error.args[0] != _STALE:
                raise
            raise StaleToken(term.token, term.token + 1) from error  # That, or more.

    async def write_unfenced(self, term: tenure.Tenure, name: str) -> None:
        self._insert(term, name)

    def _insert(self, term: tenure.Tenure, name: str, *before: str) -> None:
        import pymysql

        from tenure.sinks.mysql.settings import arguments_of

        with closing(pymysql.connect(**arguments_of(self.url))) as connection, connection.cursor() as cursor:
            for statement in (*before, f"INSERT INTO {_table_of(name)} (token) VALUES ({term.token})"):  # noqa: S608
                cursor.execute(statement)
            connection.commit()


class InSQLiteTriggers:
    store = ""

    def __init__(self, folder: Path) -> None:
        self.database = folder / "triggered.db"
        self.target = str(self.database)

    def prepare(self, election: str) -> None:
        with closing(sqlite3.connect(self.database, isolation_level=None, timeout=10)) as connection:
            columns = "(entry INTEGER PRIMARY KEY AUTOINCREMENT, token INTEGER)"
            connection.execute(f"CREATE TABLE {_table_of(election)} {columns}")

    def blocked(self) -> bool:
        return is_locked(self.database)

    def written(self, election: str) -> list[int]:
        with closing(sqlite3.connect(self.database)) as connection:
            rows = connection.execute(f"SELECT token FROM {_table_of(election)} ORDER BY entry")  # noqa: S608
            return [token for (token,) in rows]


class SQLiteTriggerTarget:
    """Every write is a row. Whoever leads first has the table fenced; it stays as it is where nobody asks for a fence."""

    def __init__(self, database: str) -> None:
        from tenure.sinks import SQLiteSink

        self.database, self.sink = database, SQLiteSink(database)
        self.fenced = ""

    async def write(self, term: tenure.Tenure, name: str) -> None:
        from tenure.sinks import install_triggers, present
        from tenure.sinks.sqlite.triggers import stale_fence

        with closing(self._connected()) as connection:
            if self.fenced != term.fence:
                install_triggers(connection, _table_of(name).strip("`"), fence=term.fence)
                self.fenced = term.fence
            present(connection, term)
            try:
                self._insert(connection, term, name)
            except sqlite3.IntegrityError as error:
                if stale_fence(error) != term.fence:
                    raise
                raise StaleToken(term.token, term.token + 1) from error  # That, or more.

    async def write_unfenced(self, term: tenure.Tenure, name: str) -> None:
        with closing(self._connected()) as connection:
            self._insert(connection, term, name)

    def _connected(self) -> sqlite3.Connection:
        return sqlite3.connect(self.database, isolation_level=None, timeout=10)

    @staticmethod
    def _insert(connection: Any, term: tenure.Tenure, name: str) -> None:
        connection.execute(f"INSERT INTO {_table_of(name)} (token) VALUES (?)", (term.token,))  # noqa: S608
