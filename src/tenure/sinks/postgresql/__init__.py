"""Fenced writes to the caller's own PostgreSQL, in three shapes that share one fence table and may be mixed.

``PostgresSink``, ``PsycopgSink``, ``AsyncPsycopgSink``   transactions that are bound to a tenure, and the seal
``guard``, ``guard_sync``                                 the same check in a transaction that the caller has begun
``fenced_engine``                                         the same for every transaction of an Engine of SQLAlchemy
``install_triggers_sql``                                  unmodified SQL is refused unless its transaction has presented a valid token
"""

from tenure.sinks.postgresql.schema import grants_sql, set_up_sql
from tenure.sinks.postgresql.sink import AsyncPsycopgSink, PostgresSink, PsycopgSink

__all__ = ["AsyncPsycopgSink", "PostgresSink", "PsycopgSink", "grants_sql", "set_up_sql"]
