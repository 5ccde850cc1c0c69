"""The examination of a SQLite file. There is no network and no second machine, so there is little that can be wrong."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from tenure.stores.base import Store
from tenure.stores.examining import Finding, good
from tenure.stores.judging import promises
from tenure.stores.measuring import part, trial_name, try_election
from tenure.stores.sqlite.faults import fault_of
from tenure.stores.sqlite.file import connect, log_of, patiently, size_of


async def examine(store: Store, path: Path, ttl_ns: int) -> list[Finding]:
    """Examine the file of a store that is open."""
    election = trial_name()
    size_kib = (size_of(path) + size_of(log_of(path))) / 1024
    return [
        good("file", f"{size_kib:.0f} KiB with its log, on a local filesystem, whole"),
        good("version", f"SQLite {sqlite3.sqlite_version}"),
        good("members", "the processes of this machine, and no others: if it fails, nobody is in office"),
        good("clock", "the boot clock of this machine, which all of them share"),
        good("encryption", "not needed: nothing goes over a network"),
        *await try_election(store, election, ttl_ns),
        *await part("office", asyncio.to_thread(_clear_away, path, store.address, election)),
        *promises(store.traits),
    ]


def _clear_away(path: Path, address: str, election: str) -> list[Finding]:
    """Delete the row of an election that was held for a trial: a free office keeps its row, and ``status`` shows it."""
    try:
        with closing(connect(path.resolve())) as connection:
            patiently(lambda: connection.execute("DELETE FROM office WHERE election = ?", (election,)))
    except sqlite3.Error as error:
        raise fault_of(error, address, "clear away") from error
    return []
