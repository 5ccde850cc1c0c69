"""SQLAlchemy 2: an Engine whose every transaction counts under one tenure, for Core, Session and AsyncSession alike.

The token is presented to triggers by the first statement after BEGIN, and checked by the last one before COMMIT.
"""

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tenure.errors import ConfigError
from tenure.sinks.base import Bound
from tenure.sinks.sql.dialect import Dialect
from tenure.sinks.sql.extras import needed
from tenure.sinks.sql.talk import Trouble, checked

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine
    from sqlalchemy.engine import ExceptionContext


def fenced_engine(engine: "Engine", term: Bound) -> "Engine":
    """Return an Engine that shares the pool of ``engine``, and whose transactions are committed only under ``term``.

    Whatever writes through it is fenced: ``Session(fenced)``, and ``AsyncEngine(fenced_engine(engine.sync_engine, term))`` for
    AsyncSession. A commit raises StaleToken, and has committed nothing, once the tenure was succeeded. The token must have been
    sealed, as an election does for its sinks; this never raises the fence. AUTOCOMMIT is refused at the end of the first
    transaction, which is too late for what that one wrote. Transactions in two phases are refused: what was prepared is committed
    later, when nothing checks a token any more. Does not fence COMMIT as text, nor
    ``commit_prepared``. On SQLite only by pysqlite; there each transaction has the write lock from its first statement.
    """
    with needed("sqlalchemy", "sqlalchemy"):
        from sqlalchemy import event, text  # noqa: PLC0415  (only if it is used)
    fence, token = term.fence, checked(term.fence, term.token)
    if engine.dialect.name == "sqlite":
        from tenure.sinks.sqlite.on_sqlalchemy import fenced_sqlite  # noqa: PLC0415  (only if it is used)

        return fenced_sqlite(engine, fence, token)
    dialect = _dialect_of(engine)
    (show, shown), (check, asked) = dialect.engine_words(fence, token)
    show_clause, check_clause = text(show), text(check)
    fenced = engine.execution_options()

    def begin(connection: "Connection") -> None:
        connection.execute(show_clause, shown)

    def commit(connection: "Connection", *_: Any) -> None:
        passed = False
        try:
            rows = [tuple(row) for row in connection.execute(check_clause, asked)]
            dialect.judge(rows, fence, token)
            passed = True
        finally:
            if not passed and not connection.invalidated:  # A pool may commit what it is given back.
                with suppress(
                    engine.dialect.loaded_dbapi.Error
                ):  # Of a connection that is gone, and the transaction with it.
                    connection.connection.rollback()

    def refuse(*_: Any) -> None:
        raise ConfigError("transaction", "two phases", "must be one of one phase: what is prepared cannot be fenced")

    def explain(context: "ExceptionContext") -> None:
        error = context.original_exception
        refusal = dialect.refusal(Trouble(_code_of(error), str(error)))
        if refusal is not None:
            raise refusal from error

    event.listen(fenced, "begin", begin)
    event.listen(fenced, "commit", commit)
    event.listen(fenced, "begin_twophase", refuse)
    event.listen(fenced, "handle_error", explain)
    return fenced


def _dialect_of(engine: "Engine") -> Dialect:
    match engine.dialect.name:
        case "postgresql":
            from tenure.sinks.postgresql.dialect import PostgresDialect  # noqa: PLC0415  (only if it is used)

            return PostgresDialect()
        case "mysql" | "mariadb":
            from tenure.sinks.mysql.dialect import MySQLDialect  # noqa: PLC0415  (only if it is used)

            return MySQLDialect(engine.url.database or "")
        case name:
            raise ConfigError("engine", name, "must be PostgreSQL, MySQL, MariaDB or SQLite")


def _code_of(error: BaseException) -> str:
    first = next(iter(error.args), None)
    # Drivers of MySQL have a number in front, beside an SQLSTATE that many errors share.
    return str(first) if isinstance(first, int) else str(getattr(error, "sqlstate", None) or "")
