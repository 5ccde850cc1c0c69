"""A session for whoever only asks: nothing lives by it, so another one is as good."""

import asyncio
import os

from tenure.clients.zookeeper.faults import NotReached
from tenure.clients.zookeeper.session import Session
from tenure.clients.zookeeper.settings import Settings
from tenure.clock import Clock
from tenure.errors import ConfigError


class Asking:
    """Opens a session when one is needed, and again when that has ended, until it is closed itself."""

    def __init__(self, settings: Settings, timeout_ms: int, clock: Clock) -> None:
        self._settings, self._timeout_ms, self._clock = settings, timeout_ms, clock
        self._session: Session | None = None
        self._opening = asyncio.Lock()
        self._closed = False
        self._pid = 0  # of the process that asked first; none has this number

    async def session(self) -> Session:
        """Return a session that is not over, as far as is known. Raises NotReached."""
        self._pid = self._pid or os.getpid()
        if self._is_forked:
            rule = f"was opened in process {self._pid}, of which this one is a fork: open it again after the fork"
            raise ConfigError("client", self._settings.address, rule)
        async with self._opening:
            if self._session is None or self._session.over is not None:
                self._session = await self._open()
            return self._session

    async def _open(self) -> Session:
        session = Session(self._settings, self._timeout_ms, self._clock, patience_s=self._settings.timeout_s)
        if not self._closed:
            await session.open()
        if self._closed:  # Perhaps while it was being opened: nobody would close it any more.
            await session.close()
            raise NotReached("it is closed")
        return session

    @property
    def _is_forked(self) -> bool:
        """Whether the connection is shared with another process: who hung up here would make it deaf there."""
        return self._pid not in (0, os.getpid())

    async def close(self) -> None:
        if self._is_forked:
            return
        self._closed = True
        if self._session is not None:
            await self._session.close()
