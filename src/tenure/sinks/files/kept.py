"""What a folder keeps open between calls, so that a write need not open, read and close it all again.

Why what was read once may be believed again
1. Who has a file open keeps its number from being given to another file. So a name that leads to the number that is kept open leads to
   the very file that was read. Times and sizes alone would not do: they have the coarseness of the system's clock, and numbers are
   given out again at once. Those are compared as well, for whoever edits a record in its place.
2. A record is replaced by a rename, and never written to. So the file that was read says what it said.
3. Each call looks whether the folder that is open is still the one that the path leads to, and under the lock once more.
"""

import itertools
import os
import secrets
import weakref
from contextlib import suppress
from typing import Final

from tenure.sinks.files import lock
from tenure.sinks.files.places import OWN
from tenure.sinks.files.record import RECORD_MAX_BYTES, Record, read

RECORD: Final = "fences.json"
_SERIAL_BITS: Final = 64
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class Kept:
    """A folder and the one with its fences, both open; and the record, as it was last read. Closed when nobody refers to it."""

    def __init__(self, path: str) -> None:
        self.root = os.open(path, _FOLDER)
        weakref.finalize(self, os.close, self.root)
        self.own = lock.noted(lambda: _open_own(self.root))
        weakref.finalize(self, lock.close, self.own)
        self._numbers = _number(os.fstat(self.root)), _number(os.fstat(self.own))
        self._read: _Read | None = None
        # Drawn once, and counted from there: a forked child has another one of these.
        self._serials = itertools.count(secrets.randbits(_SERIAL_BITS))

    def serial(self) -> str:
        """Return sixteen digits that no other write has."""
        return f"{next(self._serials) % 2**_SERIAL_BITS:016x}"

    def is_current(self, path: str) -> bool:
        """Whether the path still leads here, and to the folder with the fences."""
        return self.is_at(path) and self.has_fences

    def is_at(self, path: str) -> bool:
        """Whether the path still leads here."""
        try:
            return _number(os.stat(path)) == self._numbers[0]  # noqa: PTH116
        except FileNotFoundError:
            return False

    @property
    def has_fences(self) -> bool:
        """Whether what is open and may be locked is still the folder with the fences."""
        try:
            return _number(os.lstat(OWN, dir_fd=self.root)) == self._numbers[1]
        except FileNotFoundError:
            return False

    def record(self) -> Record:
        """Return what the folder remembers: as it is under the lock, and as it was a moment ago without. Raises Rubbish."""
        # The reference keeps the file open, and its number taken, until it was compared: another thread may read a newer one.
        known = self._read
        try:
            if known is not None and known.is_of(os.lstat(RECORD, dir_fd=self.own)):
                return known.record
            file = os.open(RECORD, _READ, dir_fd=self.own)
        except FileNotFoundError:
            return Record()
        self._read = fresh = _Read(file)
        return fresh.record


class _Read:
    """A record, and the file that it was read from, open."""

    __slots__ = ("__weakref__", "_found", "record")

    def __init__(self, file: int) -> None:
        weakref.finalize(self, os.close, file)
        self._found = _version(os.fstat(file))  # Before it is read: who edits it meanwhile is noticed the next time.
        text = b""
        while part := os.read(file, RECORD_MAX_BYTES + 1 - len(text)):
            text += part
        self.record = read(text)

    def is_of(self, found: os.stat_result) -> bool:
        return _version(found) == self._found


def _number(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _version(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _open_own(root: int) -> int:
    flags = _FOLDER | os.O_NOFOLLOW
    try:
        return os.open(OWN, flags, dir_fd=root)
    except FileNotFoundError:
        with suppress(FileExistsError):
            os.mkdir(OWN, dir_fd=root)
        os.fsync(root)
        return os.open(OWN, flags, dir_fd=root)
