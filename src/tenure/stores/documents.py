"""What stores of documents do alike where the engine compares and writes, but does not say what it found instead."""

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from tenure.errors import Unreachable
from tenure.model import Conflict, Document, Version

# How often a write begins again because what stood in its way was deleted by hand before it could be looked at.
_TRIES_MAX: Final = 4

Write = Callable[[str, bytes, Version | None], Awaitable[Version | None]]
"""Write a value under a key if it is at this version, and return the new one. None: it is at another."""


class _Keeper(Protocol):
    @property
    def address(self) -> str: ...

    async def fetch(self, key: str) -> Document | None: ...


async def swapped(
    keeper: _Keeper, write: Write, key: str, value: bytes, version: Version | None
) -> Document | Conflict:
    """Have ``write`` compare and write, and find out what is there instead if it did not."""
    for _ in range(_TRIES_MAX):
        written = await write(key, value, version)
        if written is not None:
            return Document(value, written)
        current = await keeper.fetch(key)
        if version != (None if current is None else current.version):
            return Conflict(current)
    detail = f"{key!r} came and went {_TRIES_MAX} times meanwhile: try again"
    raise Unreachable(keeper.address, "swap", detail)
