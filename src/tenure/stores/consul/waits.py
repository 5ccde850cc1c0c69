"""The waits of one store: one request for each key, however many wait for it. Runs on asyncio.

An agent takes 200 connections from one address as shipped, and keeps that of a wait until the wait has ended, also if its
client has hung up long ago. So

1. Those who wait for the same key share one request. Nobody hangs up: a request that nobody waits for any more ends by
   itself, and serves whoever comes meanwhile. Else four tasks that try a held lock for 50 ms each, again and again, would
   shut out every other client of that machine.
2. A store has only so many requests open. Whoever finds no room asks now and then instead. Else a process with 200
   standbys would have no connection left to renew by.
"""

import asyncio
import random
from typing import Final

from tenure.clients.consul.client import ConsulClient
from tenure.clients.consul.messages import Pair

# Half of what an agent takes as shipped: the rest is for requests, and for other processes on this machine.
OPEN_MAX: Final = 100
# How long the others pause before they ask; longer if there are more than a hundred of them, so that all together ask no
# more than about seventy times in a second.
_PAUSE_S: Final = (1.0, 2.0)
_PAUSING_MAX: Final = 100
# How long to wait before asking for a key again that the engine keeps empty: it does not say when it will not. Where that can be
# guessed it is asked then, by all who wait, over this time.
_DELAYED_S: Final = (0.3, 0.7)
_DELAYED_SPREAD_S: Final = 0.02
_AGAIN_MAX_S: Final = 0.1

Seen = tuple[Pair | None, int]


# All who wait for a key are answered at the same moment, and all whose wait has begun together: each asks again at a time of
# its own. ``chance`` is a number from 0 to 1 that each draws for itself.


def again_after_s(chance: float) -> float:
    """Return when to wait again, after an answer that helps nobody.

    Also for an agent that answers at once, again and again: it is not to be asked at once again and again.
    """
    return chance * _AGAIN_MAX_S


def delayed_s(chance: float, left_s: float = 0.0) -> float:
    """Return when to ask again for a key that the engine keeps empty (lock-delay), for ``left_s`` as far as we know; 0: we do not.

    Not shortly before that: an answer that comes when it is over would say that it is not, and nobody would know when to ask next.
    """
    pause_s = _between(_DELAYED_S, chance)
    return left_s + chance * _DELAYED_SPREAD_S if 0 < left_s < pause_s + _DELAYED_S[0] else pause_s


def pause_s(chance: float, pausing_count: int) -> float:
    """Return when one of ``pausing_count`` asks, for which there is no room to wait."""
    return _between(_PAUSE_S, chance) * max(1.0, pausing_count / _PAUSING_MAX)


def _between(bounds_s: tuple[float, float], chance: float) -> float:
    least_s, most_s = bounds_s
    return least_s + chance * (most_s - least_s)


class Waits:
    """Every wait of one store. Used on one event loop."""

    def __init__(self, client: ConsulClient) -> None:
        self._client = client
        self._latest: dict[str, tuple[int, asyncio.Task[Seen]]] = {}  # by key: since which index, and the request
        self._open: set[asyncio.Task[Seen]] = set()
        self._pausing_count = 0

    async def changed(self, key: str, index: int) -> Seen:
        """Return a key once it was written after ``index``, or a while has passed; and the index to go on from."""
        since, request = self._latest.get(key, (0, None))
        # One that began with a later index would not tell what was written before it.
        if request is None or request.done() or since > index:
            if len(self._open) >= OPEN_MAX:
                await self._pause()
                return await self._client.changed(key, 0)
            request = asyncio.create_task(self._client.changed(key, index))
            self._latest[key] = index, request
            self._open.add(request)
            request.add_done_callback(lambda ended: self._ended(key, ended))
        return await asyncio.shield(request)

    async def _pause(self) -> None:
        self._pausing_count += 1
        try:
            await asyncio.sleep(pause_s(random.random(), self._pausing_count))
        finally:
            self._pausing_count -= 1

    def _ended(self, key: str, request: "asyncio.Task[Seen]") -> None:
        self._open.discard(request)
        if key in self._latest and self._latest[key][1] is request:
            del self._latest[key]
        if not request.cancelled():
            request.exception()  # Those who waited may be gone, and then nobody else will ask.

    async def close(self) -> None:
        """End all requests."""
        requests = list(self._open)
        for request in requests:
            request.cancel()
        await asyncio.gather(*requests, return_exceptions=True)
