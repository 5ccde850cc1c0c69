"""Fenced writes to the caller's own SQLite database, in three shapes that share one guard row and may be mixed.

``SQLiteSink``        a transaction that is bound to a tenure, and the seal
``guard``             the same check as a fragment of a transaction that the caller has begun
``install_triggers``  unmodified SQL is refused unless its connection has presented a valid token (``present``)
"""

from tenure.sinks.sqlite.presence import present, withdraw
from tenure.sinks.sqlite.row import guard
from tenure.sinks.sqlite.sink import BoundSQLite, SQLiteSink
from tenure.sinks.sqlite.triggers import fenced_tables, install_triggers, remove_triggers

__all__ = [
    "BoundSQLite",
    "SQLiteSink",
    "fenced_tables",
    "guard",
    "install_triggers",
    "present",
    "remove_triggers",
    "withdraw",
]
