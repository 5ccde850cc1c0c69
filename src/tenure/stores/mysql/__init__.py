"""MySQL and MariaDB as an engine: a row for each election, every write guarded by what was read, woken by looking.

``settings`` reads the URL; ``schema`` has the tables, as they are made and as they are printed; ``statements`` is the contract as SQL;
``session`` one connection, and ``faults`` what its errors mean; ``engine`` puts them together, and ``examine`` is for
``tenure doctor``. What all SQL stores share is ``tenure.stores.sql``.
"""

from tenure.stores.mysql.settings import settings_of
from tenure.stores.mysql.store import MySqlStore

__all__ = ["MySqlStore", "from_url"]


def from_url(url: str, **options: str) -> MySqlStore:
    """Return a store for ``mysql://user:password@h1,h2/database``; ``settings_of`` knows the options."""
    return MySqlStore(settings_of(url, **options))
