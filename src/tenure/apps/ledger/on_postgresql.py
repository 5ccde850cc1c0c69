"""A ledger in a PostgreSQL database, by asyncpg."""

from functools import lru_cache
from itertools import count
from typing import Any

import asyncpg

from tenure.apps.ledger.base import Kind, Statement, Told, Words
from tenure.apps.ledger.on_server import NOTHING, ServerLedger
from tenure.sinks.postgresql.dialect import PostgresDialect
from tenure.sinks.postgresql.on_asyncpg import AsyncpgDriver
from tenure.sinks.postgresql.sink import PostgresSink
from tenure.sinks.sql.talk import Ask

_TEXTS_MAX = 256


class PostgresLedger(ServerLedger):
    """See ``Ledger``."""

    kind: Kind = "postgresql"
    words = Words('varchar(255) COLLATE "C"', "text", "bigint", "")
    errors = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError)
    commits = False

    def __init__(self, url: str, idle_s: float) -> None:
        super().__init__(PostgresSink(url, idle_s=idle_s), AsyncpgDriver(url, {}), PostgresDialect())

    async def asked(self, raw: Any, ask: Ask | Statement) -> Told:
        if isinstance(ask, Statement):
            await raw.execute(ask.sql)
            return NOTHING
        sql = numbered(ask.sql)
        if sql.startswith("SELECT"):
            return Told([tuple(row.values()) for row in await raw.fetch(sql, *ask.parameters)], 0)
        changed = (await raw.execute(sql, *ask.parameters)).rpartition(" ")[2]  # It says "UPDATE 3".
        return Told([], int(changed) if changed.isdigit() else 0)


@lru_cache(_TEXTS_MAX)
def numbered(sql: str) -> str:
    """Return SQL with PostgreSQL's marks for parameters."""
    numbers = count(1)
    return "".join(f"${next(numbers)}" if letter == "?" else letter for letter in sql)
