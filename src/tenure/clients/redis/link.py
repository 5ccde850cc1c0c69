"""One connection to one server: commands go out at once, and replies are matched to them in order. Runs on asyncio.

Whoever stops waiting for a reply does not disturb the others: the reply comes in its turn and is dropped. That is why no
pool is needed, and why it is always known what was sent.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, cast

from tenure.clients.receiving import Receiver
from tenure.clients.redis.resp import Argument, NotRedis, Replies, Reply, encode

# More than this under way means that a server does not answer, and each would only wait longer.
_UNDER_WAY_MAX: Final = 10_000


class Lost(Exception):
    """The connection ended before the reply came. Its text says why."""


class Link(Receiver):
    """A connection. With ``on_message`` it is a subscription: every reply goes there, in whatever number they come."""

    def __init__(self, on_message: Callable[[Reply], None] | None = None) -> None:
        super().__init__()
        self.lost = ""  # why it ended; empty: it has not
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._replies = Replies()
        self._waiting: deque[asyncio.Future[Reply]] = deque()
        self._on_message = on_message
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes | memoryview) -> None:
        try:
            replies = self._replies.feed(data)
        except NotRedis as error:
            self.end(f"it does not speak as Redis does: {error}")
            return
        for reply in replies:
            if self._waiting:
                waiting = self._waiting.popleft()
                if not waiting.done():
                    waiting.set_result(reply)
            elif self._on_message is not None:
                self._on_message(reply)
            else:
                self.end("it answered what nobody had asked")
                return

    def connection_lost(self, exc: Exception | None) -> None:
        self.end(f"the connection was lost{f': {exc}' if exc else ''}")

    def send(self, *arguments: Argument) -> None:
        """Send a command whose replies, if there are any, are messages."""
        assert self._transport is not None, "not connected"
        if not self.lost:
            self._transport.write(encode(arguments))

    def ask(self, *arguments: Argument) -> "asyncio.Future[Reply]":
        """Send a command now, and return what its reply will be. Raises Lost, and sends nothing, on a link that has ended."""
        if self.lost:
            raise Lost(self.lost)
        if len(self._waiting) >= _UNDER_WAY_MAX:
            raise Lost(f"{_UNDER_WAY_MAX} requests wait for an answer already")
        self.send(*arguments)
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        return future

    def end(self, why: str) -> None:
        """Give the connection up. Whoever waits is told why."""
        if self.lost:
            return
        self.lost = why
        if self._transport is not None:
            self._transport.abort()
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(Lost(why))
                waiting.exception()  # Its caller may be gone, and then nobody else will ask.
        self._waiting.clear()
        if not self.ended.done():
            self.ended.set_result(None)
