"""A session for whoever only asks: nothing lives by it, so another one is as good.

Another one does not tell what is older than what the one before it told. A server gives a new session by a transaction of the
ensemble, and knows by then all that came before: one that lags behind catches up first, and one that is cut off, or was
succeeded, gives none. So the last transaction that was seen is not held against the next server, as it is within one session:
after the data of all servers was replaced by an older copy, none could be reached any more. Not so with
``localSessionsEnabled``, where a server gives sessions by itself; whoever asks there rests on ``sync`` alone.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from tenure.clients.zookeeper.faults import NotReached, SessionOver
from tenure.clients.zookeeper.link import LinkLost
from tenure.clients.zookeeper.session import Session
from tenure.clients.zookeeper.settings import Settings
from tenure.clock import Clock
from tenure.errors import ConfigError

T = TypeVar("T")


class Asking:
    """Opens a session when one is needed, and again when that has ended, until it is closed itself."""

    def __init__(self, settings: Settings, timeout_ms: int, clock: Clock) -> None:
        self._settings, self._timeout_ms, self._clock = settings, timeout_ms, clock
        self._session: Session | None = None
        self._opening = asyncio.Lock()
        self._attempt_count = 0  # how often it was begun to open one
        self._last_failed, self._why_failed = 0, ""  # which of these attempts was the last to fail, and why
        self._closed = False
        self._pid = 0  # of the process that asked first; none has this number

    async def ask(self, question: Callable[[Session], Awaitable[T]]) -> T:
        """Ask, and once more if session or connection ended and it is certain that nothing was changed.

        In a silence that outlasts the session, nobody hears of its end. What is asked then goes out on the old connection, and
        so does what is asked right after it: the first that is heard is that this one is broken. Only who has waited for as
        long as a server may take to answer is told so, and does not wait for another one.
        """
        asked_at = self._clock.now()
        try:
            return await question(await self.session())
        except SessionOver:  # which has carried out nothing
            pass
        except LinkLost as lost:
            if lost.in_doubt or self._clock.now() - asked_at >= self._settings.timeout_s * 1e9:
                raise
        return await question(await self.session())

    async def session(self) -> Session:
        """Return a session on which something can be sent, as far as is known. Raises NotReached."""
        self._pid = self._pid or os.getpid()
        if self._is_forked:
            rule = f"was opened in process {self._pid}, of which this one is a fork: open it again after the fork"
            raise ConfigError("client", self._settings.address, rule)
        with suppress(SessionOver):
            session = await self._current()
            await session.linked()
            return session
        return await self._current()

    async def _current(self) -> Session:
        """Return a session that is not over, as far as is known. Of an attempt that fails, only who came before it is told.

        Who comes while one is made waits for its end, and then one of them makes another, whose failure they share. Else
        each of many would try every server in its turn, and the last one hear after minutes that all of them are mute. The
        failure of the first is not theirs: a server that it found mute may have been back before they came.
        If who makes it is cancelled, the next one begins anew.
        """
        made_count = self._attempt_count
        async with self._opening:
            if self._session is None or self._session.over is not None:
                if self._last_failed > made_count:
                    raise NotReached(self._why_failed)
                self._attempt_count += 1
                try:
                    self._session = await self._open()
                except NotReached as failed:
                    self._last_failed, self._why_failed = self._attempt_count, failed.why
                    raise
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
