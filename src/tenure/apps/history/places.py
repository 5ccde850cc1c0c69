"""Where the log of an election is kept: as a document of its store, or as a file of this machine's user.

A document is compared and swapped, so that two leaders who write at once lose nothing. A file is written by the processes of one
user on one machine, one at a time, and replaced as a whole: whoever reads it finds the old one or the new one.
"""

import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from tenure.apps.history.records import Log, Record, dumped, loaded, merged
from tenure.errors import ConfigError, Unreachable
from tenure.office.names import NAME_BYTES_MAX
from tenure.office.opened import wait_there
from tenure.office.thread import Office
from tenure.office.updating import Known, flow_of, proceed
from tenure.stores.base import CanKeepDocuments, Store

_FOLDER: Final = "tenure/history/"  # beside tenure/config/, and like it no place for documents of users
_FOLDER_OF_LONG: Final = "tenure/history-of-long/"
# How long a write may take, retries included. What has failed by then is tried again later, together with what came meanwhile.
_WITHIN_S: Final = 2.0
_LOCK_WITHIN_S: Final = 2.0  # Who holds it writes a file of a few kilobytes.
_FILES_MAX: Final = 1000
_FILE_BYTES_MAX: Final = 1024 * 1024  # Many times what a log can have.


class Place(Protocol):
    """Where records go. Called on a thread that may wait."""

    def add(self, election: str, records: Sequence[Record]) -> None:
        """Have the log of an election say this as well. Harmless a second time. Raises StoreError or ConfigError."""
        ...


def key_of(election: str) -> str:
    """Return the key of the document that has the log of an election."""
    key = f"{_FOLDER}{election}"
    if len(key.encode()) <= NAME_BYTES_MAX:
        return key
    return f"{_FOLDER_OF_LONG}{hashlib.sha256(election.encode()).hexdigest()}"


class InStore:
    """Logs as documents of a store."""

    def __init__(self, office: Office, store: Store) -> None:
        self._office, self._store = office, store
        self._known = Known()

    def add(self, election: str, records: Sequence[Record]) -> None:
        def added(old: bytes | None) -> bytes:
            return dumped(merged(loaded(election, old), records))

        flow = flow_of(self._store, key_of(election), added, _WITHIN_S, self._known)
        asked, _ = proceed(flow, None)
        while asked is not None:
            asked, _ = proceed(flow, wait_there(self._office, asked))


class OnDisk:
    """Logs as files of this machine, for stores that keep no documents."""

    def __init__(
        self,
        identity: str,
        folder: Path | None = None,
        *,
        files_max: int = _FILES_MAX,
        lock_within_s: float = _LOCK_WITHIN_S,
    ) -> None:
        self._identity, self._files_max, self._lock_within_s = identity, files_max, lock_within_s
        self._folder = _state_folder() if folder is None else folder

    @property
    def address(self) -> str:
        """Where they are, for people."""
        return str(self._folder)

    def read(self, election: str) -> Log:
        """Return the log of an election."""
        return loaded(election, self._content(self._path(election)))

    def add(self, election: str, records: Sequence[Record]) -> None:
        path = self._path(election)
        with self._told_as_unreachable():
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _locked(self._folder / "lock", self._lock_within_s):
                old = self._content(path)
                new = dumped(merged(loaded(election, old), records))
                if new != old:
                    if old is None:
                        self._make_room()
                    _replace(path, new)

    def _path(self, election: str) -> Path:
        # A name of an election may be longer than that of a file, and differ from another by case alone.
        named = f"{self._identity}\0{election}".encode()
        return self._folder / f"{hashlib.sha256(named).hexdigest()[:40]}.json"

    def _content(self, path: Path) -> bytes | None:
        with self._told_as_unreachable():
            try:
                with path.open("rb") as opened:
                    return opened.read(_FILE_BYTES_MAX)
            except (FileNotFoundError, NotADirectoryError):
                return None

    def _make_room(self) -> None:
        """Delete who was written longest ago, if there are as many as there may be."""
        files = list(self._folder.glob("*.json"))
        if len(files) >= self._files_max:
            min(files, key=lambda file: file.stat().st_mtime).unlink(missing_ok=True)

    @contextmanager
    def _told_as_unreachable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise Unreachable(f"file://{self._folder}", "history", error.strerror or str(error)) from None


def place_of(office: Office, store: Store, on_disk: Callable[[str], OnDisk] = OnDisk) -> InStore | OnDisk:
    """Return where the logs of elections on a store are."""
    return InStore(office, store) if isinstance(store, CanKeepDocuments) else on_disk(store.identity)


def _state_folder() -> Path:
    import platformdirs  # noqa: PLC0415  (stores that keep documents need none)

    try:
        path: Path = platformdirs.user_state_path("tenure", appauthor=False)
    except RuntimeError:
        path = Path()
    if not path.is_absolute():
        raise ConfigError(
            "history", "none", "cannot be kept: the store keeps no documents, and you have no home folder"
        )
    return path / "history"


@contextmanager
def _locked(path: Path, within_s: float) -> Iterator[None]:
    """Be the only one here. Never waits for long: who holds it may have been stopped."""
    file, until_s = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), time.monotonic() + within_s
    try:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until_s:
                    raise
                time.sleep(0.005)
        yield
    finally:
        os.close(file)  # which gives the lock back


def _replace(path: Path, content: bytes) -> None:
    """Write a file as a whole. Not synced: after a power cut a record may be missing, and none is torn.

    Called by one at a time, so what somebody who was killed has left beside it is written over.
    """
    beside = path.with_suffix(".new")
    try:
        beside.write_bytes(content)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)  # On a disk that is full even half of a file is missed.
        raise
