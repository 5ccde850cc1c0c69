"""Fenced writes to the caller's own PostgreSQL, in shapes that share one fence table and may be mixed.

``PostgresSink``, ``PsycopgSink``, ``AsyncPsycopgSink``   transactions that are bound to a tenure, the seal, and triggers
``guard``, ``guard_sync``                                 the same check in a transaction that the caller has begun
``fenced_engine``                                         the same for every transaction of an Engine of SQLAlchemy
"""

from tenure.sinks.postgresql.guard import guard, guard_sync
from tenure.sinks.postgresql.schema import grants_sql, set_up_sql
from tenure.sinks.postgresql.sink import AsyncPsycopgSink, PostgresSink, PsycopgSink
from tenure.sinks.sql.on_sqlalchemy import fenced_engine

__all__ = [
    "AsyncPsycopgSink",
    "PostgresSink",
    "PsycopgSink",
    "fenced_engine",
    "grants_sql",
    "guard",
    "guard_sync",
    "set_up_sql",
]
