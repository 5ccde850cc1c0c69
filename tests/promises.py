"""The contract of stores on one running engine: promises mostly wait, so many are checked at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tenure.testing import CONTRACT, RESTARTING, ContractBroken, Rig, check_promise


async def broken_promises(rig: Rig, at_once: int) -> list[str]:
    """Check every promise, so many at a time, and last, alone, those that restart the engine. Return what was broken."""

    @asynccontextmanager
    async def make() -> AsyncIterator[Rig]:
        yield rig

    few = asyncio.Semaphore(at_once)

    async def check(name: str) -> str:
        try:
            async with few:
                await check_promise(name, make)
        except ContractBroken as broken:
            return str(broken)
        return ""

    told = await asyncio.gather(*(check(name) for name in CONTRACT if name not in RESTARTING))
    return [broken for broken in [*told, *[await check(name) for name in sorted(RESTARTING)]] if broken]
