"""A folder whose files change only under a token that its fence admits. Blocks; nothing here knows an event loop.

Why a crash leaves both the fence and the file, or neither
1. All fences of a folder stand in one record, ``.tenure/fences.json``, which is replaced by a rename. Whoever changes
   anything holds a lock (``flock``, which ends with its process) from the comparison until the folder is synced.
2. The content is written to a temporary file and synced before the lock is asked for, so the lock is never held
   while much is written. Until it is renamed, nothing has happened.
3. A write whose token the fence stands at, which is every write after the seal, is that one rename: the old file or the
   new one. The fence does not change.
4. A write whose token is higher changes two things. The record that raises the fence also says what is to be renamed, so its
   own rename is the instant at which both count. Whoever next holds the lock finishes what a record says is pending before
   looking at anything else, and only then compares. A killed writer leaves neither, if it had not come to that rename, or both.
5. An older token cannot land: it is compared with a record that was read under the lock, and a record with a higher token
   is synced before the lock is given back.

Until somebody takes the lock again, a reader who looks at the files alone may see the old content of a write that counts.

Rules of this file
1. What is kept open between calls (``kept.py``) is taken from a forked child (``lock.py``).
2. An error before the rename that counts is ``Refused``: nothing has changed. After it, ``OutcomeUnknown``.
"""

import errno
import hashlib
import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from threading import Lock
from typing import Final, NamedTuple, Self

from tenure.errors import ConfigError, OutcomeUnknown, Refused, Unreachable
from tenure.model import Token
from tenure.model import token as checked
from tenure.sinks.files import lock, places
from tenure.sinks.files.kept import RECORD, Kept
from tenure.sinks.files.places import OWN, Place, Way
from tenure.sinks.files.record import RECORD_MAX_BYTES, Pending, Record, Rubbish, written

Change = Callable[[bytes | None], bytes]
Content = bytes | Change | None
"""New content; a function that makes it from what is there (None: no file); or None, which deletes the file."""

WAIT_S: Final = 5.0
_LOOK_AGAIN_S: Final = 0.002
_RECORD_NEW: Final = "fences.new"
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FENCE_MAX: Final = 2048
_MARKS_MAX: Final = 256


class Folder:
    """A folder with its fences. Any number of threads and processes of one machine may use it."""

    def __init__(self, path: str, name: str, wait_s: float) -> None:
        self.path, self.name, self._wait_s = path, name, wait_s
        self._turn = lock.Turn[Kept]()

    def close(self) -> None:
        """Let go of what is kept open. The next call opens it again."""
        self._turn.kept = None

    def seal(self, fence: str, number: int, *, known_only: bool) -> None:
        """Raise the fence. Raises StaleToken, or UnverifiedToken where only known tokens are wanted."""
        token = _check(fence, number)
        with self._opened("seal") as desk, self._locked(desk):
            self._raise(desk, token, fence, known_only=known_only)

    def highest(self, fence: str) -> int:
        """Return where the fence stands."""
        return self.record("read").highest.get(fence, 0)

    def stands_at(self, fence: str, token: Token) -> bool:
        """Whether the fence stands at exactly this token, and no write is under way that may yet be taken back."""
        record = self.record("read")
        return record.pending is None and record.highest.get(fence, 0) == token

    @property
    def has_fences(self) -> bool:
        """Whether anything was ever fenced here. To look at: nothing is made by looking."""
        return os.path.exists(os.path.join(self.path, OWN, RECORD))  # noqa: PTH110, PTH118  (all of this file is paths in texts)

    def record(self, operation: str) -> Record:
        """Return all that the folder remembers, without the lock: the record is always whole."""
        with self._opened(operation) as desk:
            return desk.record()

    def change(self, record_of: Callable[[Record], Record], operation: str) -> None:
        """Replace the record by what ``record_of`` makes of it."""
        with self._opened(operation) as desk, self._locked(desk):
            desk.put_record(record_of(desk.settled()))

    def write(
        self, fence: str, number: int, path: str | os.PathLike[str], content: Content, *, known_only: bool
    ) -> None:
        """Write or delete one file, if the fence admits the token."""
        token, parts = _check(fence, number), places.parts_of(os.fspath(path))
        with self._opened("write") as desk:
            # Named by its token: whoever raises the fence may remove those of lower ones, which can never land.
            draft = _Draft(fence, token, parts, f"{_mark_of(fence)}-{token:020d}-{desk.serial()}", content)
            try:
                if isinstance(content, bytes):
                    desk.put(draft.temp, content)
                with self._locked(desk):
                    self._land(desk, draft, known_only=known_only)
            finally:
                # After it counts, it is where it belongs, or the record says that it still has to go there.
                if not desk.landed:
                    desk.remove(draft.temp)

    def _raise(self, desk: "_Desk", token: Token, fence: str, *, known_only: bool) -> None:
        before = desk.settled()
        after = before.admit(fence, token, known_only=known_only)
        if after is not before:
            desk.put_record(after)
            desk.sweep(_mark_of(fence), token)
        else:
            desk.sync()  # Whoever raised it may have been killed before it came to that.

    def _land(self, desk: "_Desk", draft: "_Draft", *, known_only: bool) -> None:
        before = desk.settled()
        after = before.admit(draft.fence, draft.token, known_only=known_only)
        with Way(desk.root, draft.parts) as there:
            found = there.found()
            if callable(draft.content):
                desk.put(draft.temp, draft.content(_content_of(there, found)))
            if draft.content is not None and found is not None:
                desk.keep_mode(draft.temp, found)
            step = Pending("/".join(draft.parts), None if draft.content is None else draft.temp)
            if after is before:
                desk.take(step, there)
                desk.landed = True
                os.fsync(there.folder)
                return
            desk.sync()  # The name of the temporary file must not be forgotten after the record has named it.
            desk.put_record(replace(after, pending=step))
            try:
                desk.take(step, there)
            except OSError:
                desk.put_record(before)  # Nobody has acted on the other one: the lock is ours.
                desk.landed = False
                raise
            os.fsync(there.folder)
            desk.put_record(after)
        desk.sweep(_mark_of(draft.fence), draft.token)

    def _opened(self, operation: str) -> "_Desk":
        return _Desk(self.path, self.name, self._turn, operation)

    def _locked(self, desk: "_Desk") -> "_Locked":
        return _Locked(self._turn.lock, desk, self._wait_s)  # A forked child has another one.


class _Draft(NamedTuple):
    """A write that is to be."""

    fence: str
    token: Token
    parts: tuple[str, ...]
    temp: str
    content: Content


# Classes, and not generators with a decorator: these run around every write, right after a sync, when nothing is in the caches.
class _Desk:
    """The open folder during one call, and whether that call has passed the point at which it counts.

    An OSError that leaves it is what the caller is to know: Refused, or OutcomeUnknown.
    """

    def __init__(self, path: str, name: str, turn: lock.Turn[Kept], operation: str) -> None:
        self._path, self.name, self.operation, self.landed = path, name, operation, False
        try:
            kept = turn.kept
            if kept is None or not kept.is_current(path):
                turn.kept = kept = Kept(path)
        except OSError as error:
            raise Refused(name, operation, _words(error)) from error
        self._kept, self.root, self.own = kept, kept.root, kept.own

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        del self._kept  # An error that somebody keeps refers to this, and must not keep the folder open.
        if isinstance(error, OSError):
            raise (OutcomeUnknown if self.landed else Refused)(self.name, self.operation, _words(error)) from error

    def serial(self) -> str:
        """Return digits that no other write has."""
        return self._kept.serial()

    def check_own(self) -> None:
        """Raise Refused if the folder that is open is not the one with the fences any more."""
        if not self._kept.has_fences:
            raise Refused(self.name, self.operation, f"{OWN} was removed meanwhile, and the fences with it")
        if not self._kept.is_at(self._path):  # Whoever reads by the path would never see what is written now.
            raise Refused(self.name, self.operation, "the path was made to lead to another folder meanwhile: try again")

    def record(self) -> Record:
        try:
            return self._kept.record()
        except Rubbish as error:
            detail = f"{OWN}/{RECORD} was edited: {error}. Mend it, and nothing is written until then"
            raise Refused(self.name, self.operation, detail) from error

    def settled(self) -> Record:
        """Return the record after what was pending is finished. Only under the lock."""
        record = self.record()
        if record.pending is None:
            return record
        settled = replace(record, pending=None)
        try:
            with Way(self.root, places.parts_of(record.pending.path)) as there:
                with suppress(FileNotFoundError):  # Its writer had come so far.
                    self.take(record.pending, there)
                os.fsync(there.folder)
            self.put_record(settled)
        except (ConfigError, OSError) as error:
            why = _words(error) if isinstance(error, OSError) else error.rule
            detail = f"a write to {record.pending.path!a} is to be finished first, and cannot be: {why}"
            raise Refused(self.name, self.operation, detail) from error
        finally:
            self.landed = False  # That was the write of somebody who is gone.
        return settled

    def take(self, step: Pending, there: Place) -> None:
        """Take the one step that makes a write visible."""
        if step.temp is not None:
            os.rename(step.temp, there.name, src_dir_fd=self.own, dst_dir_fd=there.folder)
            return
        with suppress(FileNotFoundError):  # To delete what is not there changes nothing.
            os.unlink(there.name, dir_fd=there.folder)

    def put(self, name: str, content: bytes) -> None:
        file = os.open(name, _CREATE, 0o666, dir_fd=self.own)
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(file, rest) :]
            os.fsync(file)
        finally:
            os.close(file)

    def put_record(self, record: Record) -> None:
        text = written(record)
        if len(text) > RECORD_MAX_BYTES:  # Nobody would read it again.
            size = f"{len(record.highest)} fences and {len(record.repairs)} repairs"
            raise ConfigError("folder", size, "has too many: use several folders")
        self.remove(_RECORD_NEW)  # of somebody who was killed
        self.put(_RECORD_NEW, text)
        os.rename(_RECORD_NEW, RECORD, src_dir_fd=self.own, dst_dir_fd=self.own)
        self.landed = True
        self.sync()

    def keep_mode(self, temp: str, found: os.stat_result) -> None:
        mode = stat.S_IMODE(found.st_mode)
        if stat.S_IMODE(os.lstat(temp, dir_fd=self.own).st_mode) != mode:
            os.chmod(temp, mode, dir_fd=self.own)

    def sync(self) -> None:
        os.fsync(self.own)

    def remove(self, name: str) -> None:
        with suppress(OSError):
            os.unlink(name, dir_fd=self.own)

    def sweep(self, mark: str, token: Token) -> None:
        """Remove what writers under lower tokens have left. They may be alive: the comparison refuses them anyway."""
        for name in os.listdir(self.own):  # noqa: PTH208  (a folder that is open has no path)
            if name.startswith(f"{mark}-") and name < f"{mark}-{token:020d}":
                self.remove(name)


class _Locked:
    """The lock of the folder, held for a block. Raises Unreachable if somebody else has kept it for so long."""

    __slots__ = ("_desk", "_turn", "_wait_s")

    def __init__(self, turn: Lock, desk: _Desk, wait_s: float) -> None:
        self._turn, self._desk, self._wait_s = turn, desk, wait_s

    def __enter__(self) -> None:
        desk, until = self._desk, time.monotonic() + self._wait_s
        if not self._turn.acquire(timeout=self._wait_s):
            raise self._busy()
        locked = False
        try:
            while not lock.try_lock(desk.own):
                if time.monotonic() >= until:
                    raise self._busy()
                time.sleep(_LOOK_AGAIN_S)
            desk.check_own()
            locked = True
        finally:
            if not locked:
                self.__exit__()

    def __exit__(self, *_: object) -> None:
        try:
            lock.unlock(self._desk.own)
        finally:
            self._turn.release()

    def _busy(self) -> Unreachable:
        desk = self._desk
        return Unreachable(desk.name, desk.operation, f"somebody has kept {OWN} locked for {self._wait_s:g} s")


def _check(fence: str, number: int) -> Token:
    if not fence or "\0" in fence:
        raise ConfigError("fence", repr(fence), "must have a name, without a NUL in it")
    if len(fence) > _FENCE_MAX:
        raise ConfigError("fence", f"{fence[:40]!a}…", f"must have a name of at most {_FENCE_MAX} characters")
    return checked(number)


@lru_cache(_MARKS_MAX)
def _mark_of(fence: str) -> str:
    """Return a name of fixed length, since a fence may have one that no file can have."""
    return hashlib.sha256(fence.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _content_of(there: Place, found: os.stat_result | None) -> bytes | None:
    if found is None:
        return None
    with os.fdopen(os.open(there.name, _READ, dir_fd=there.folder), "rb") as opened:
        return opened.read()


def _words(error: OSError) -> str:
    if error.errno == errno.EXDEV:
        return "the path lies on another file system than the folder, so it cannot be replaced in one step"
    return error.strerror or str(error)
