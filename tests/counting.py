"""How many statements or scripts each operation of a store is, as its server itself has counted."""

from collections.abc import Awaitable, Callable
from typing import Any

from tenure.model import Bid, Grant, Holder

ONE = {"claim": 1, "renew": 1, "proclaim": 1, "read": 1, "release": 1}
_TTL_NS = 60 * 10**9

Counted = Callable[[Awaitable[Any]], Awaitable[tuple[Any, int]]]


async def counted(said: Counted, store: Any) -> dict[str, int]:
    """Go through a tenure twice, and return what ``said`` counts the second time: by then what is prepared once is."""
    holder, told = Holder.fresh(), {}
    for serial in (1, 2):
        asked = Bid("x", holder, serial, _TTL_NS)
        grant, told["claim"] = await said(store.claim(asked))
        assert isinstance(grant, Grant)
        _, told["renew"] = await said(store.renew(grant))
        _, told["proclaim"] = await said(store.proclaim(grant, "http://h"))
        _, told["read"] = await said(store.read("x"))
        _, told["release"] = await said(store.release(asked))
    return told
