"""SQLite as an engine: elections in one file, among the processes of one machine, with nothing to install.

``host`` looks at the machine and ``file`` at the file; ``engine`` is the contract as SQL; ``desk`` and ``session`` give it
a connection and transactions. All of these are plain code that may block. ``worker`` and ``lookout`` are the two threads
on which it does, and ``store`` is what an event loop sees.
"""

from tenure.stores.opening import path_of
from tenure.stores.sqlite.host import Host
from tenure.stores.sqlite.store import SQLiteStore

__all__ = ["Host", "SQLiteStore", "from_url"]


def from_url(url: str) -> SQLiteStore:
    """Return a store for ``sqlite:///path``."""
    path = path_of(url)
    return SQLiteStore(":memory:" if path == "/:memory:" else path)  # which it refuses, with the reason
