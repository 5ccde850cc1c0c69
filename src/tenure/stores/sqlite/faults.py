"""What an error of SQLite means to who asked: whether something may have been written, and what to do about it.

Before COMMIT nothing is in the log, so every failure there is definite. A failed COMMIT is argued case by case:

- BUSY, PROTOCOL: the transaction is still open, and is rolled back. Definite.
- FULL: raised by the write of a frame to the log and by nothing later. Frames are written in order and the last one is
  the commit record, so the record is missing or cut short, and its checksum keeps every reader and any recovery from
  believing it. (Where writes are not power-safe SQLite repeats the record up to the end of a sector, and the repetition
  may fail after a whole one; ``connect`` asks for psow=1, which leaves that out.) Definite.
- IOERR and whatever else: the record may be in the log in full and only its sync, or the index of the log, has failed.
  Nobody sees it now, and the next writer overwrites it; but if every process dies first, the recovery of the log finds
  it and it holds. Not known.

Unknown does no harm: nobody was told of the token, and the same bid may be claimed again.
"""

import sqlite3

from tenure.errors import OutcomeUnknown, Refused, StoreError, Unreachable
from tenure.stores.sqlite.file import BUSY_MAX_S, is_busy

_WORDS = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk failed",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; restore it, or move it away and start with a new one",
    sqlite3.SQLITE_NOTADB: "the file is damaged; restore it, or move it away and start with a new one",
    sqlite3.SQLITE_READONLY: "the file or its folder has become read-only",
    sqlite3.SQLITE_CANTOPEN: "the file or its log cannot be opened",
    sqlite3.SQLITE_NOMEM: "there is no memory left",
}


def fault_of(error: sqlite3.Error, store: str, operation: str, *, committing: bool = False) -> StoreError:
    """Return what ``error`` means; ``committing`` says that it came from a COMMIT that had something to write."""
    if is_busy(error):
        # It waited and gave up before it began, which is as good as never having been sent.
        return Unreachable(store, operation, f"others kept the file locked for {BUSY_MAX_S:g} s")
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    detail = (
        f"{_WORDS.get(code & 0xFF, 'SQLite failed')} ({getattr(error, 'sqlite_errorname', 'SQLITE_ERROR')}: {error})"
    )
    if committing and code & 0xFF != sqlite3.SQLITE_FULL:
        return OutcomeUnknown(store, operation, detail)
    return Refused(store, operation, detail)


def needs_new_connection(error: sqlite3.Error) -> bool:
    """Say whether a connection should be given up after ``error``: what it remembers of the file may be wrong."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return not is_busy(error) and code & 0xFF != sqlite3.SQLITE_FULL
