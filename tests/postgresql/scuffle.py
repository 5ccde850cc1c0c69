"""Candidates that take an office and leave it as fast as they can, while somebody ends their connections."""

import asyncio
from collections.abc import Awaitable, Callable

from tenure.errors import StoreError
from tenure.model import Bid, Grant, Holder
from tenure.stores.base import Store

TTL_NS = 20 * 10**9  # No lease ends while it lasts: whoever is in office twice at once was let in by mistake.
CANDIDATES = 6


async def scuffle(open_store: Callable[[], Store], cut: Callable[[], Awaitable[object]], rounds: int) -> list[int]:
    """Return the tokens of all tenures, as they came. Fails if two are in office at once, or if one comes after a larger one."""
    tokens: list[int] = []
    in_office: set[Holder] = set()
    over = asyncio.Event()

    async def persist(call: Callable[[], Awaitable[object]]) -> object:
        while True:
            try:
                return await call()
            except StoreError:
                await asyncio.sleep(0.01)  # not sent, or not known: asking again is safe

    async def contend(store: Store) -> None:
        holder, serial = Holder.fresh(), 0
        while not over.is_set():
            serial += 1
            bid = Bid("scuffle", holder, serial, TTL_NS)
            answer = await persist(lambda bid=bid: store.claim(bid))  # type: ignore[misc]
            if isinstance(answer, Grant):
                assert not in_office, "two were in office at once"
                in_office.add(holder)
                assert not tokens or answer.token > tokens[-1], f"{answer.token} came after {tokens[-1]}"
                tokens.append(answer.token)
                assert await persist(lambda answer=answer: store.renew(answer)) == answer  # type: ignore[misc]
                in_office.remove(holder)
            await persist(lambda bid=bid: store.release(bid))  # type: ignore[misc]

    async with asyncio.TaskGroup() as tasks:
        for _ in range(CANDIDATES):
            tasks.create_task(_in(open_store(), contend))
        for _ in range(rounds):
            seen = len(tokens)
            while len(tokens) < seen + 5:  # noqa: ASYNC110  (others do it, through a database)
                await asyncio.sleep(0.01)
            await cut()
        over.set()
    return tokens


async def _in(store: Store, contend: Callable[[Store], Awaitable[None]]) -> None:
    async with store:  # type: ignore[attr-defined]
        await contend(store)
