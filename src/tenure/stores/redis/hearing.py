"""One subscription of one store: who leaves an office says so, and whoever waits for it hears it. Runs on asyncio.

Messages of Redis are sent once, to whoever listens at that moment. So nothing depends on them: they only make sooner what the
lookout would find by itself.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from tenure.clients.redis.client import RedisClient
from tenure.clients.redis.resp import Fault, Reply
from tenure.clients.upkeep import keep_up
from tenure.errors import StoreError

if TYPE_CHECKING:
    from tenure.clients.redis.link import Link

_AGAIN_S: Final = (0.05, 2.0)  # how soon to connect anew, at first and at most
_MESSAGE_PARTS: Final = 3


class Hearing:
    """Messages on the channels that are wanted. ``heard`` is told each, and ``ready`` that a channel is listened to."""

    def __init__(self, client: RedisClient, heard: Callable[[bytes], None], ready: Callable[[], None]) -> None:
        self._client, self._heard, self._ready = client, heard, ready
        self._wanted: dict[str, int] = {}
        self._link: Link | None = None
        self._endpoint = ""  # where the link goes
        self._task: asyncio.Task[None] | None = None
        self.refused = ""  # why there is no subscription, if the server does not let us

    def want(self, channel: str) -> None:
        """Listen to ``channel`` until ``unwant`` was called as often."""
        self._wanted[channel] = self._wanted.get(channel, 0) + 1
        if self._task is None:
            self._task = keep_up(self._run, "listening to Redis")
        elif self._wanted[channel] == 1 and self._link is not None:
            self._link.send("SUBSCRIBE", channel)

    def unwant(self, channel: str) -> None:
        self._wanted[channel] -= 1
        if not self._wanted[channel]:
            del self._wanted[channel]
            if self._link is not None:
                self._link.send("UNSUBSCRIBE", channel)

    def follow(self) -> None:
        """Go where the store is, if it speaks to another server by now."""
        about = self._client.about
        if self._link is not None and about is not None and about.endpoint != self._endpoint:
            self._link.end("the store has gone elsewhere")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        shortest_s, longest_s = _AGAIN_S
        again_s = shortest_s
        while True:
            with suppress(StoreError):
                link = await self._client.subscribe(self._hear)
                try:
                    self._link = link
                    self._endpoint = self._client.about.endpoint if self._client.about is not None else ""
                    if self._wanted:
                        link.send("SUBSCRIBE", *self._wanted)
                    await link.ended
                    again_s = shortest_s
                finally:
                    self._link = None
                    link.end("no longer needed")
            await asyncio.sleep(again_s)
            again_s = min(again_s * 2, longest_s)

    def _hear(self, reply: Reply) -> None:
        if isinstance(reply, Fault):
            self.refused = reply.text  # Then the lookout is all there is.
            return
        if not isinstance(reply, list) or len(reply) != _MESSAGE_PARTS:
            return
        kind, _, what = reply
        if kind == b"message" and isinstance(what, bytes):
            self._heard(what)
        elif kind == b"subscribe":
            self.refused = ""
            self._ready()
