"""The connection that hears of releases. It decides nothing: whoever hears nothing looks now and then. Runs on asyncio.

A pooler in transaction mode takes a LISTEN and delivers nothing. So it is tried out: what we send ourselves must arrive.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tenure.clients.upkeep import keep_up
from tenure.errors import StoreError
from tenure.stores.postgresql.faults import FAULTS
from tenure.stores.sql.lookout import Lookout

if TYPE_CHECKING:
    import asyncpg

_ARRIVES_S: Final = 1.0
_AGAIN_S: Final = 5.0  # after it failed, and between two looks at whether it lives
_PROBE: Final = "\x01probe:"  # No election can be mistaken for it: each probe has a number of its own.


class Listening:
    """Listens on one channel for one lookout, from the first wait to the end of the store."""

    def __init__(
        self,
        channel: str,
        connect: Callable[[], Awaitable["asyncpg.Connection[Any]"]],
        notify: Callable[[str], Awaitable[None]],
    ) -> None:
        self._channel, self._connect, self._notify = channel, connect, notify
        self._task: asyncio.Task[None] | None = None
        self._tried = asyncio.Event()
        self._probes: set[str] = set()
        self._arrived = asyncio.Event()
        self.works: bool | None = None  # None: not tried yet

    async def begin(self, lookout: Lookout) -> None:
        """Listen, and return once it is known whether that works."""
        if self._task is None:
            self._task = keep_up(partial(self._keep, lookout), "listening to PostgreSQL")
        await self._tried.wait()

    async def end(self) -> None:
        """Listen no more. Whoever waits for the first attempt is let go."""
        self._tried.set()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _keep(self, lookout: Lookout) -> None:
        while True:
            connection, again_s = None, 0.0
            try:
                async with asyncio.timeout(_AGAIN_S):
                    connection = await self._connect()
                    await self._try_out(connection, lookout)
                self._tried.set()
                if self.works:
                    lookout.hear_of_all()  # Something may have happened while nobody listened.
                    await self._until_it_dies(connection)
                else:
                    again_s = 10 * _AGAIN_S  # There is a pooler between. It may be taken away one day.
            except (StoreError, *FAULTS):
                again_s = _AGAIN_S
            finally:
                # Also after what nobody has foreseen: who waits to hear whether it works goes on without it.
                self.works = bool(self.works)
                self._tried.set()
                if connection is not None:
                    connection.terminate()
            await asyncio.sleep(again_s)

    async def _try_out(self, connection: "asyncpg.Connection[Any]", lookout: Lookout) -> None:
        def hear(_: object, __: int, ___: str, payload: object) -> None:
            if str(payload).startswith(_PROBE):
                if payload in self._probes:
                    self._arrived.set()
            else:
                lookout.hear(str(payload))

        await connection.add_listener(self._channel, hear)
        probe = f"{_PROBE}{secrets.token_hex(8)}"
        self._probes = {probe}
        self._arrived.clear()
        await self._notify(probe)
        with suppress(TimeoutError):
            async with asyncio.timeout(_ARRIVES_S):
                await self._arrived.wait()
        self.works = self._arrived.is_set()

    async def _until_it_dies(self, connection: "asyncpg.Connection[Any]") -> None:
        """Ask now and then whether it lives: a connection that was cut off says nothing by itself."""
        while not connection.is_closed():
            await asyncio.sleep(_AGAIN_S)
            async with asyncio.timeout(_AGAIN_S):
                await connection.execute("SELECT 1")
