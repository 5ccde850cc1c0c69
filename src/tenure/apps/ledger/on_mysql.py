"""A ledger in a MySQL or MariaDB database, by asyncmy."""

from typing import Any

from asyncmy.constants import CLIENT
from asyncmy.cursors import Cursor
from asyncmy.errors import MySQLError

from tenure.apps.ledger.base import Kind, Statement, Told, Words
from tenure.apps.ledger.on_server import ServerLedger
from tenure.sinks.mysql.dialect import MySQLDialect
from tenure.sinks.mysql.on_asyncmy import AsyncmyDriver
from tenure.sinks.mysql.sink import MySQLSink
from tenure.sinks.sql.talk import Ask


class MySQLLedger(ServerLedger):
    """See ``Ledger``."""

    kind: Kind = "mysql"
    words = Words(
        "varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        "longtext CHARACTER SET utf8mb4",
        "bigint",
        " ENGINE = InnoDB",
    )
    errors = (MySQLError,)
    commits = True

    def __init__(self, url: str, idle_s: float) -> None:
        # An UPDATE counts the rows that it has found, as everywhere else, and not those that it has made different.
        found: dict[str, Any] = {"client_flag": CLIENT.FOUND_ROWS}
        super().__init__(MySQLSink(url, idle_s=idle_s, **found), AsyncmyDriver(url, found), MySQLDialect())

    async def asked(self, raw: Any, ask: Ask | Statement) -> Told:
        parameters = ask.parameters if isinstance(ask, Ask) else ()
        # asyncmy looks for parameters only if there are some, and then a % of the text's own has to be two.
        sql = ask.sql.replace("%", "%%").replace("?", "%s") if parameters else ask.sql
        async with Cursor(raw) as cursor:
            await cursor.execute(sql, parameters or None)
            rows = [tuple(row) for row in await cursor.fetchall()] if cursor.description else []
            return Told(rows, cursor.rowcount if isinstance(cursor.rowcount, int) else 0)
