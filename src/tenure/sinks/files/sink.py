"""Files as a sink: what users call, and how ``verify=`` is asked without a lock being held."""

import os
from collections.abc import Callable
from functools import partial

from anyio import to_thread

from tenure.errors import ConfigError
from tenure.model import Token
from tenure.sinks.base import Bound, Verify
from tenure.sinks.files.folder import WAIT_S, Change, Content, Folder
from tenure.sinks.judging import JudgingSink

Path = str | os.PathLike[str]


class BlockingFiles:
    """A folder as one tenure may use it, for threads: every call waits for the disk."""

    __slots__ = ("_fence", "_sink", "_token")

    def __init__(self, sink: "FileSink", term: Bound) -> None:
        self._sink, self._fence, self._token = sink, term.fence, term.token

    def write_bytes(self, path: Path, content: bytes) -> None:
        """Replace the file, or make it. Its folder must be there; the mode of a file that is replaced stays."""
        self._write(path, _as_bytes(content))

    def write_text(self, path: Path, content: str) -> None:
        """Replace the file by a text in UTF-8, or make it."""
        self._write(path, content.encode())

    def update(self, path: Path, change: Change) -> None:
        """Replace the file by what ``change`` makes of its content, or of None if there is no file.

        Nobody else writes to the folder meanwhile, and nobody can seal it, so ``change`` has to be quick.
        """
        self._write(path, change)

    def delete(self, path: Path) -> None:
        """Delete the file. Deleting what is not there changes nothing."""
        self._write(path, None)

    def _write(self, path: Path, content: Content) -> None:
        sink = self._sink
        write = partial(sink.folder.write, self._fence, self._token, path, content)
        sink.admitted_now(self._fence, self._token, lambda known_only: write(known_only=known_only))


class BoundFiles:
    """A folder as one tenure may use it. Fails with StaleToken once that tenure has been succeeded.

    The disk is waited for in a worker thread. Cancellation waits until the call has ended, so that it took place or
    not when the caller goes on, and never later; which of both, the caller finds out by looking.
    """

    __slots__ = ("_sink", "_term")

    def __init__(self, sink: "FileSink", term: Bound) -> None:
        self._sink, self._term = sink, term

    async def write_bytes(self, path: Path, content: bytes) -> None:
        """Replace the file, or make it. Its folder must be there; the mode of a file that is replaced stays."""
        await self._write(path, _as_bytes(content))

    async def write_text(self, path: Path, content: str) -> None:
        """Replace the file by a text in UTF-8, or make it."""
        await self._write(path, content.encode())

    async def update(self, path: Path, change: Change) -> None:
        """Replace the file by what ``change`` makes of its content, in the worker thread (see ``BlockingFiles``)."""
        await self._write(path, change)

    async def delete(self, path: Path) -> None:
        """Delete the file. Deleting what is not there changes nothing."""
        await self._write(path, None)

    async def _write(self, path: Path, content: Content) -> None:
        sink, term = self._sink, self._term
        write = partial(sink.folder.write, term.fence, term.token, path, content)
        await sink.admitted(term.fence, Token(term.token), partial(_in_thread, write, abandon=False))


class FileSink(JudgingSink):
    """A folder whose files refuse writes of a leader that was succeeded: one fence for all that lies below it.

    For local disks of one machine: the lock is ``flock``, which on a network file system may hold for one machine only.
    Paths are relative to the folder; those that lead out of it, links included, are refused. The fences are kept in
    ``.tenure`` below it. With ``verify``, a token higher than any seen is confirmed by it first, without the lock.

    Fences only what is written through it. Does not promise to seal past a writer that was frozen in the instant in which
    it held the lock: after ``wait_s`` that is Unreachable, and nobody is let in meanwhile, neither old nor new.
    """

    def __init__(self, folder: Path, *, verify: Verify | None = None, wait_s: float = WAIT_S) -> None:
        path = os.fspath(folder)
        if not path or "\0" in path:
            raise ConfigError("folder", repr(path), "must be a folder that exists")
        super().__init__(verify)
        self.folder = Folder(path, f"file sink {path}", wait_s)

    def __repr__(self) -> str:
        return f"<{self.folder.name}>"

    def close(self) -> None:
        """Let go of the folder, which is kept open between calls, so that its disk can be unmounted. It may be used again."""
        self.folder.close()

    def bind(self, term: Bound) -> BoundFiles:
        """Return the folder as ``term`` may use it. It fails once that tenure has been succeeded."""
        return BoundFiles(self, term)

    def blocking(self, term: Bound) -> BlockingFiles:
        """Return the same for a thread, which waits for the disk itself. An ``async`` verify confirms nothing there."""
        return BlockingFiles(self, term)

    async def seal(self, fence: str, token: Token) -> None:
        """Raise the fence to ``token`` (see ``Sink``). Waits for the write that is under way, if there is one."""
        # Abandoned if it is cancelled: a late seal harms nobody, and a leader that is over must not wait for a lock.
        seal = partial(self.folder.seal, fence, token)
        await self.admitted(fence, token, partial(_in_thread, seal, abandon=True))


def _as_bytes(content: bytes) -> bytes:
    """Return a copy of what is only like bytes: its owner may change it meanwhile."""
    return content if type(content) is bytes else bytes(memoryview(content))


async def _in_thread(call: Callable[..., None], known_only: bool, *, abandon: bool) -> None:
    await to_thread.run_sync(partial(call, known_only=known_only), abandon_on_cancel=abandon)
