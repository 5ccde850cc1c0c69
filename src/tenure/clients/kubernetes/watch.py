"""One watch on a collection, which goes on through whatever breaks it.

Rules of this file
1. A watch goes on from the version that was heard of last, bookmarks included, so that nothing between is missed.
2. If the API server no longer knows what happened since then (410 Gone), it says so by ``anew``: whoever relies on events
   must look for itself, and events come again from now on.
3. Silence is no news: API servers send a bookmark every minute. A connection on which nothing comes for longer is given up.
4. A watch that does not last is begun again ever more slowly, and one that fails time after time is told of once: who waits
   goes by the clock meanwhile, and hears of a release up to a ttl late.
"""

import asyncio
import json
import logging
import random
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Final

from tenure.clients.kubernetes.client import KubernetesClient, Object
from tenure.clients.kubernetes.failures import GONE, Gone
from tenure.clients.upkeep import keep_up
from tenure.errors import OutcomeUnknown, StoreError

_LOG: Final = logging.getLogger("tenure")
# An API server ends a watch after this time, so that clients spread over new ones.
_LASTS_S: Final = (240, 300)
_IDLE_S: Final = 100.0
_PAUSE_S: Final = 0.1
_FAILURES_MAX: Final = 5  # in a row: then the pause is 3.2 s, and grows no more
# After so many in a row it is no mere restart of a server on the way.
_FAILURES_TOLD: Final = 3
_LASTED_S: Final = 5.0

Hear = Callable[[str, Object], None]


class Watch:
    """Listens for as long as its task runs. ``hear`` is told of each event, ``anew`` that some may have been missed.

    ``idle_s`` is the longest silence that a connection is given.
    """

    def __init__(
        self,
        client: KubernetesClient,
        path: str,
        hear: Hear,
        anew: Callable[[], None],
        *,
        idle_s: float = _IDLE_S,
    ) -> None:
        self._client, self._path, self._hear, self._anew, self._idle_s = client, path, hear, anew, idle_s
        self._version = ""
        self._since_s: float | None = None  # when events began to come; None: they do not
        self._task: asyncio.Task[None] | None = None
        self._begun: asyncio.Future[None] | None = None

    async def begin(self) -> None:
        """Return once events come. Raises StoreError if they do not the first time; from then on it looks after itself."""
        if self._task is None or self._task.done():
            self._begun = asyncio.get_running_loop().create_future()
            # Who asked may be gone by then, and nobody else would look at why it failed.
            self._begun.add_done_callback(lambda begun: begun.cancelled() or begun.exception())
            self._task = self._kept_up(self._begun)
        assert self._begun is not None
        await asyncio.shield(self._begun)

    def restart(self) -> None:
        """Forget where it was. Versions have gone back, and an API server says nothing of those that it has not reached yet."""
        if self._task is not None and self._begun is not None and self._begun.done() and self._version:
            self._version = ""
            self._task.cancel()
            self._task = self._kept_up(self._begun)

    async def end(self) -> None:
        """Stop listening."""
        if self._task is not None and self._begun is not None:
            self._task.cancel()
            self._begun.cancel()
            await asyncio.wait([self._task])

    def _kept_up(self, begun: "asyncio.Future[None]") -> "asyncio.Task[None]":
        return keep_up(partial(self._run, begun), f"the watch of {self._path}")

    async def _run(self, begun: "asyncio.Future[None]") -> None:
        clock, failure_count, told = asyncio.get_running_loop().time, 0, False
        while True:
            self._since_s, failed = None, None
            try:
                await self._listen(begun)
            except Gone:
                self._version = ""
            except StoreError as error:
                if not begun.done():
                    begun.set_exception(error)
                    return
                failed = error
            if self._since_s is not None and clock() - self._since_s > _LASTED_S:
                failure_count, told = 0, False
            # Also a watch that ended by itself: one that ends at once every time must not become a loop.
            failure_count = min(failure_count + 1, _FAILURES_MAX)
            if failed is not None and failure_count >= _FAILURES_TOLD and not told:
                told = True
                _LOG.warning("who waits is not woken but goes by the clock, since the watch fails: %s", failed)
            longest_s = _PAUSE_S * 2**failure_count
            await asyncio.sleep(random.uniform(longest_s / 2, longest_s))

    async def _listen(self, begun: "asyncio.Future[None]") -> None:
        """Listen to one watch until it ends."""
        if not self._version:
            # One object is enough: what is asked for is the version of the whole.
            listed = await self._client.get(self._path, operation="watch", params={"limit": "1"})
            self._version = _version_of(listed)
            self._anew()
        lasts_s = str(random.randint(*_LASTS_S))
        async with self._client.stream(
            self._path,
            operation="watch",
            idle_s=self._idle_s,
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=self._version,
            timeoutSeconds=lasts_s,
        ) as lines:
            self._since_s = asyncio.get_running_loop().time()
            if not begun.done():
                begun.set_result(None)
            await self._read(lines)

    async def _read(self, lines: AsyncIterator[bytes]) -> None:
        async for line in lines:
            try:
                event: Any = json.loads(line)
                what, thing = event["type"], event["object"]
                version, code, message = _version_of(thing), thing.get("code"), thing.get("message", "")
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue  # from something that is no API server
            if what == "ERROR":
                kind = Gone if code == GONE else OutcomeUnknown
                raise kind(self._client.address, "watch", str(message))
            self._version = version or self._version
            if version and what != "BOOKMARK":
                self._hear(what, thing)


def _version_of(thing: Object) -> str:
    metadata = thing.get("metadata")
    return str(metadata.get("resourceVersion", "")) if isinstance(metadata, dict) else ""
