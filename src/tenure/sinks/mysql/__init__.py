"""Fenced writes to the caller's own MySQL or MariaDB, in shapes that share one fence table and may be mixed.

``MySQLSink``, ``PyMySQLSink``       transactions that are bound to a tenure, the seal, and triggers
``guard``, ``guard_sync``            the same check in a transaction that the caller has begun
``present_sql``, ``withdraw_sql``    what a session says to tables with triggers
``fenced_engine``                    the same for every transaction of an Engine of SQLAlchemy
"""

from tenure.sinks.mysql.guard import guard, guard_sync, present_sql, withdraw_sql
from tenure.sinks.mysql.schema import grants_sql, set_up_sql
from tenure.sinks.mysql.sink import MySQLSink, PyMySQLSink
from tenure.sinks.sql.on_sqlalchemy import fenced_engine

__all__ = [
    "MySQLSink",
    "PyMySQLSink",
    "fenced_engine",
    "grants_sql",
    "guard",
    "guard_sync",
    "present_sql",
    "set_up_sql",
    "withdraw_sql",
]
