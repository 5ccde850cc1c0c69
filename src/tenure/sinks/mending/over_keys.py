"""What the fences of stores of keys have in common: each is a key, and one more key has the record of repairs.

The two are compared and written in one step of the store. What is compared is the content, or what the store counts writes by.
"""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict
from typing import Final, Generic, NamedTuple, TypeVar

from tenure.errors import Refused
from tenure.sinks.digits import number_in
from tenure.sinks.repairing import Fences, Repair, moved, no_fences, repairs_in

C = TypeVar("C")
M = TypeVar("M")

_TRIES_MAX: Final = 20  # Each that fails is another one's seal or repair that came between.


class Found(NamedTuple, Generic[M]):
    """What a key has, and the mark by which the store tells it from anything later. Nothing: there is no such key."""

    value: bytes
    mark: M


class Swap(NamedTuple, Generic[M]):
    """A key, what was found there, and what is to be there."""

    key: str
    found: Found[M]
    value: bytes


class KeyFences(ABC, Generic[C, M]):
    """See ``Mendable``. ``C`` is the client and ``M`` the mark."""

    def __init__(self, address: str, fences: str) -> None:
        self._address, self.fences = address, fences
        # Not below the prefix of the fences, so that leaders need no right to it, and it is not taken for a fence.
        stem = fences.rstrip(":/.-_ ")
        self.repairs = f"{stem}-repairs" if stem != fences else f"repairs-of-{fences}"

    @abstractmethod
    def opened(self, operation: str) -> AbstractAsyncContextManager[C]:
        """Open a client."""

    @abstractmethod
    async def values(self, client: C) -> Mapping[str, bytes]:
        """Return what each fence has, by its name."""

    @abstractmethod
    async def found(self, client: C, key: str, operation: str) -> Found[M]:
        """Return what a key has."""

    @abstractmethod
    async def swapped(self, client: C, fence: Swap[M], record: Swap[M]) -> bool:
        """Write both in one step; False: one of them is not any more what was found, and nothing was written."""

    def key_of(self, fence: str) -> str:
        """Return the key of a fence."""
        return f"{self.fences}{fence}"

    def look(self) -> Fences:
        return asyncio.run(self._look())

    def lower(self, repair: Repair) -> None:
        asyncio.run(self._lower(repair))

    async def _look(self) -> Fences:
        async with self.opened("read") as client:
            values = await self.values(client)
            repairs = self._read((await self.found(client, self.repairs, "read")).value)
        if not values and not repairs:
            raise no_fences(self._address)
        named = {name: number_in(value, self.key_of(name), self._address) for name, value in values.items()}
        return Fences(dict(sorted(named.items())), repairs)

    async def _lower(self, repair: Repair) -> None:
        key = self.key_of(repair.fence)
        async with self.opened("repair") as client:
            for _ in range(_TRIES_MAX):
                found = await self.found(client, key, "repair")
                highest = number_in(found.value, key, self._address) if found.value else 0
                if highest != repair.was:
                    raise moved(repair, highest)
                record = await self.found(client, self.repairs, "repair")
                page = json.dumps([asdict(one) for one in (*self._read(record.value), repair)]).encode()
                # To 0, which no token is, it is lowered in digits as well: nobody was ever there.
                fence = Swap(key, found, b"%020d" % repair.now)
                if await self.swapped(client, fence, Swap(self.repairs, record, page)):
                    return
        raise Refused(self._address, "repair", "others changed the fence with every try, and nothing was changed here")

    def _read(self, text: bytes) -> tuple[Repair, ...]:
        try:
            return repairs_in(json.loads(text or b"[]"))
        except (ValueError, RecursionError) as error:
            detail = f"{self.repairs} was edited, and what it says of repairs cannot be read: {error}"
            raise Refused(self._address, "read", detail) from error
