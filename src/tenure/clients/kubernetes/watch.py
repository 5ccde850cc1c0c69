"""One watch on a collection, which goes on through whatever breaks it.

Rules of this file
1. A watch goes on from the version that was heard of last, bookmarks included, so that nothing between is missed.
2. If the API server no longer knows what happened since then (410 Gone), it says so by ``anew``: whoever relies on events
   must look for itself, and events come again from now on.
3. Silence is no news: API servers send a bookmark every minute. A connection on which nothing comes for longer is given up.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from tenure.clients.kubernetes.client import KubernetesClient, Object
from tenure.clients.kubernetes.failures import GONE, Gone
from tenure.errors import OutcomeUnknown, StoreError

# An API server ends a watch after this time, so that clients spread over new ones.
_LASTS_S: Final = (240, 300)
_IDLE_S: Final = 100.0
_PAUSE_S: Final = 0.1
_FAILURES_MAX: Final = 5  # in a row: then the pause is 3.2 s, and grows no more

Hear = Callable[[str, Object], None]


class Watch:
    """Listens for as long as its task runs. ``hear`` is told of each event, ``anew`` that some may have been missed."""

    def __init__(self, client: KubernetesClient, path: str, hear: Hear, anew: Callable[[], None]) -> None:
        self._client, self._path, self._hear, self._anew = client, path, hear, anew
        self._version = ""
        self._task: asyncio.Task[None] | None = None
        self._begun: asyncio.Future[None] | None = None

    async def begin(self) -> None:
        """Return once events come. Raises StoreError if they do not the first time; from then on it looks after itself."""
        if self._task is None or self._task.done():
            self._begun = asyncio.get_running_loop().create_future()
            # Who asked may be gone by then, and nobody else would look at why it failed.
            self._begun.add_done_callback(lambda begun: begun.cancelled() or begun.exception())
            self._task = asyncio.create_task(self._run(self._begun))
        assert self._begun is not None
        await asyncio.shield(self._begun)

    async def end(self) -> None:
        """Stop listening."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self, begun: "asyncio.Future[None]") -> None:
        failure_count = 0
        while True:
            try:
                await self._listen(begun)
                failure_count = 0
            except Gone:
                self._version = ""
            except StoreError as error:
                if not begun.done():
                    begun.set_exception(error)
                    return
                failure_count = min(failure_count + 1, _FAILURES_MAX)
            except asyncio.CancelledError:
                begun.cancel()
                raise
            # Also after a watch that ended by itself: one that ends at once every time must not become a loop.
            longest_s = _PAUSE_S * 2**failure_count
            await asyncio.sleep(random.uniform(longest_s / 2, longest_s))

    async def _listen(self, begun: "asyncio.Future[None]") -> None:
        """Listen to one watch until it ends."""
        if not self._version:
            # One object is enough: what is asked for is the version of the whole.
            listed = await self._client.get(self._path, operation="watch", params={"limit": "1"})
            self._version = str(listed.get("metadata", {}).get("resourceVersion", ""))
            self._anew()
        lasts_s = str(random.randint(*_LASTS_S))
        async with self._client.stream(
            self._path,
            operation="watch",
            idle_s=_IDLE_S,
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=self._version,
            timeoutSeconds=lasts_s,
        ) as lines:
            if not begun.done():
                begun.set_result(None)
            await self._read(lines)

    async def _read(self, lines: AsyncIterator[bytes]) -> None:
        async for line in lines:
            try:
                event: Any = json.loads(line)
                what, thing = event["type"], event["object"]
                metadata = thing.get("metadata", {})
            except (ValueError, KeyError, TypeError, AttributeError):
                continue
            if what == "ERROR":
                kind = Gone if thing.get("code") == GONE else OutcomeUnknown
                raise kind(self._client.address, "watch", str(thing.get("message", "")))
            self._version = str(metadata.get("resourceVersion", self._version))
            if what != "BOOKMARK":
                self._hear(what, thing)
