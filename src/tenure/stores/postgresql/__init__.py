"""PostgreSQL as an engine: a row for each election, one guarded statement for each operation, woken by NOTIFY.

``settings`` reads the URL; ``schema`` has the tables, as they are made and as they are printed; ``statements`` is the contract as SQL;
``session`` one connection, direct or through a pooler; ``faults`` what its errors mean; ``listening`` the connection that
hears of releases; ``engine`` puts them together, and ``examine`` is for ``tenure doctor``. What all SQL stores share is
``tenure.stores.sql``.
"""

from tenure.stores.postgresql.settings import settings_of
from tenure.stores.postgresql.store import PostgresStore

__all__ = ["PostgresStore", "from_url"]


def from_url(url: str, **options: str) -> PostgresStore:
    """Return a store for ``postgresql://user:password@h1,h2/database``; ``settings_of`` knows the options."""
    return PostgresStore(settings_of(url, **options))
