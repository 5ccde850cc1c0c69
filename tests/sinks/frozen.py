"""A leader that a test freezes inside a transaction: it says "inside", waits for a line, goes on, and says how it ended.

``python -m tests.sinks.frozen SINK URL FENCE TOKEN SHAPE STATEMENT``. SHAPE is ``bound``, for a transaction of the sink, or
``guarded``, for one that has checked its token before it was frozen.
"""

import sys
from types import SimpleNamespace
from typing import Any

from tenure.errors import TenureError


def psycopg_guarded(url: str, term: Any, statement: str) -> None:
    import psycopg

    from tenure.sinks.postgresql import guard_sync

    with psycopg.connect(url) as connection:
        guard_sync(connection, term)
        connection.execute(statement.encode())
        _inside()


def psycopg_bound(url: str, term: Any, statement: str) -> None:
    from tenure.sinks.postgresql import PsycopgSink

    with PsycopgSink(url, idle_s=2) as sink:
        sink.admit(term.fence, term.token)
        with sink.transaction(term) as connection:
            connection.execute(statement)
            _inside()


def pymysql_guarded(url: str, term: Any, statement: str) -> None:
    import pymysql

    from tenure.sinks.mysql import guard_sync
    from tenure.sinks.mysql.settings import arguments_of

    with pymysql.connect(**arguments_of(url)) as connection:
        guard_sync(connection, term)
        connection.cursor().execute(statement)
        _inside()
        connection.commit()


def pymysql_bound(url: str, term: Any, statement: str) -> None:
    from tenure.sinks.mysql import PyMySQLSink

    with PyMySQLSink(url, idle_s=2) as sink:
        sink.admit(term.fence, term.token)
        with sink.transaction(term) as connection:
            connection.cursor().execute(statement)
            _inside()


def _inside() -> None:
    print("inside", flush=True)
    sys.stdin.readline()


SHAPES = {
    "psycopg-guarded": psycopg_guarded,
    "psycopg-bound": psycopg_bound,
    "pymysql-guarded": pymysql_guarded,
    "pymysql-bound": pymysql_bound,
}


def _errors() -> tuple[type[Exception], ...]:
    import psycopg
    import pymysql

    return TenureError, psycopg.Error, pymysql.MySQLError


if __name__ == "__main__":
    shape, url, fence, token, statement = sys.argv[1:]
    try:
        SHAPES[shape](url, SimpleNamespace(fence=fence, token=int(token)), statement)
    except _errors() as error:
        print(f"refused: {type(error).__name__}", flush=True)
    else:
        print("committed", flush=True)
