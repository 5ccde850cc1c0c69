"""What an app needs that has a command done in a tenure and hears what it said: its variables, its input, the end of its output."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

from tenure.office.tenure import Tenure

NO_INPUT: Final = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
_CHUNK: Final = 65_536
_DRAINED_MAX: Final = 16  # chunks; more is written only by something that goes on beside the command


def variables_of(term: Tenure) -> dict[str, str]:
    """Return what a command finds in its environment of the tenure it is run in: enough to write through a fenced sink."""
    return {
        "TENURE_ELECTION": term.election,
        "TENURE_HOLDER": str(term.holder),
        "TENURE_TOKEN": str(term.token),
        "TENURE_FENCE": term.fence,
    }


class Tail:
    """What a command prints on some of its descriptors, of which the end is kept. Made on a running event loop."""

    def __init__(self, descriptors: Iterable[int], bytes_max: int) -> None:
        self._reads, self._writes = os.pipe()
        os.set_blocking(self._reads, False)
        self._kept, self._bytes_max = b"", bytes_max
        self.files = [(os.POSIX_SPAWN_DUP2, self._writes, descriptor) for descriptor in descriptors]
        asyncio.get_running_loop().add_reader(self._reads, self._read)

    def _read(self) -> bool:
        try:
            chunk = os.read(self._reads, _CHUNK)
        except BlockingIOError:
            return False
        self._kept = (self._kept + chunk)[-self._bytes_max :]
        return bool(chunk)

    def close(self) -> str:
        """Return the last of what was printed. What is left of the command's own children may still hold the other end."""
        asyncio.get_running_loop().remove_reader(self._reads)
        os.close(self._writes)
        for _ in range(_DRAINED_MAX):
            if not self._read():
                break
        os.close(self._reads)
        return self._kept.decode(errors="replace")


@asynccontextmanager
async def given(text: bytes) -> AsyncIterator[tuple[Any, ...]]:
    """Have ``text`` written to a pipe while the block runs, whether it is read or not; yields what makes it a command's input."""
    reads, writes = os.pipe()
    try:
        pipe = os.fdopen(writes, "wb", 0)
        transport, _ = await asyncio.get_running_loop().connect_write_pipe(asyncio.BaseProtocol, pipe)
        transport.write(text)
        transport.close()  # once it is written
        try:
            yield (os.POSIX_SPAWN_DUP2, reads, 0)
        finally:
            if transport.get_write_buffer_size():  # The rest was never read.
                transport.abort()
    finally:
        os.close(reads)
