"""Waits for the deletion of keys, all over one watch stream of the connection that calls go over.

A stream that breaks is opened again, on another member if need be, and every wait is armed anew from its own revision:
nobody is woken by that, and nothing is missed. Not from the revision in a "created" reply: what was deleted between the
break and that reply lies below it.

While only a watch is open, a member that froze or vanished would never be noticed. So a connection that has been silent
for a while is asked for a linearizable read. That shows more than a ping: that the member has a quorum, and that the
cluster was not restored; it keeps our token alive; and no server refuses it for coming too often.
"""

import asyncio
import random
from collections import deque
from collections.abc import Collection
from contextlib import suppress

from tenure.clients.etcd import codec
from tenure.clients.etcd.failures import UNAUTHENTICATED, leaves_member, wants_fresh_token, wants_other_member
from tenure.clients.etcd.http2 import Headers
from tenure.clients.etcd.link import Link
from tenure.clients.etcd.messages import Range, WatchAnswer
from tenure.clients.etcd.stream import Lost, NotSent, Said, Stream
from tenure.clients.etcd.transport import Connection
from tenure.clients.upkeep import keep_up
from tenure.errors import Refused, StoreError

_PATH = "/etcdserverpb.Watch/Watch"
# A member that is cut off from its quorum ends a stream that carries this, instead of keeping it open in silence.
_HAS_LEADER = ("hasleader", "true")
_RETRY_MIN_S, _RETRY_MAX_S = 0.05, 1.0
_STALE_TOKEN = Said(UNAUTHENTICATED, "etcdserver: invalid auth token")


class _Wait:
    """One caller who waits for one key."""

    __slots__ = ("denied", "key", "start_revision", "watch_id", "woken")

    def __init__(self, key: bytes, start_revision: int) -> None:
        self.key, self.start_revision = key, start_revision
        self.woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.watch_id: int | None = None
        self.denied = False  # once since it was armed: then the token was old; twice: then it is the user who may not

    def wake(self, error: StoreError | None = None) -> None:
        if self.woken.done():
            return
        if error is None:
            self.woken.set_result(None)
        else:
            self.woken.set_exception(error)


class Watches:
    """The watch stream of a client."""

    def __init__(self, link: Link, idle_s: float) -> None:
        self._link = link
        self._idle_s = idle_s
        self._waits: dict[_Wait, None] = {}
        self._creating: deque[_Wait] = deque()  # etcd answers in this order; a refusal does not say which it refuses
        self._armed: dict[int, _Wait] = {}
        self._opened: tuple[Connection, Stream] | None = None
        self._task: asyncio.Task[None] | None = None
        self._failure_count = 0

    async def deleted(self, key: bytes, after_revision: int) -> None:
        """Return when ``key`` was deleted after that revision, or when that can no longer be told."""
        self._link.check("watch")
        wait = _Wait(key, after_revision + 1)
        self._waits[wait] = None
        if self._opened is not None:
            self._arm([wait])
        elif self._task is None or self._task.done():
            self._task = keep_up(self._keep_open, "the watch stream of etcd")
        try:
            await wait.woken
        finally:
            del self._waits[wait]
            self._disarm(wait)

    async def close(self) -> None:
        """End the stream; whoever waits is told so."""
        self._fail_all(Refused(self._link.address, "watch", "the client is closed"))
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _fail_all(self, error: StoreError) -> None:
        for wait in self._waits:
            wait.wake(error)

    def _arm(self, waits: Collection[_Wait]) -> None:
        self._creating.extend(waits)
        self._send(*(codec.encode_watch(wait.key, wait.start_revision) for wait in waits))

    def _disarm(self, wait: _Wait) -> None:
        if wait.watch_id is not None:
            del self._armed[wait.watch_id]
            self._send(codec.encode_watch_cancel(wait.watch_id))

    def _send(self, *messages: bytes) -> None:
        if self._opened is not None:
            connection, stream = self._opened
            connection.send(stream, *messages)

    async def _keep_open(self) -> None:
        while True:
            try:
                await self._one_stream()
            except Refused as error:  # No other member would say anything else: a wrong password, another cluster.
                self._fail_all(error)
                return
            except StoreError:
                self._failure_count += 1
            longest_s = min(_RETRY_MIN_S * 2 ** min(self._failure_count, 10), _RETRY_MAX_S)
            await asyncio.sleep(longest_s * random.uniform(0.5, 1.0) if self._failure_count else 0)

    async def _one_stream(self) -> None:
        connection, token = await self._link.attempt("watch", _as_they_are)
        try:
            stream = await connection.open(_PATH, (*token, _HAS_LEADER), self._heard)
        except NotSent as error:
            self._link.leave(connection, str(error))
            self._failure_count += 1
            return
        self._opened = connection, stream
        try:
            self._arm(self._waits)
            while not stream.ended.done():
                silent_s = connection.loop.time() - connection.heard_at_s
                if self._waits and silent_s >= self._idle_s:
                    await self._prove_alive()
                else:
                    await asyncio.wait((stream.ended,), timeout=self._idle_s - (silent_s if self._waits else 0))
            stream.ended.result()
        except Said as said:
            if wants_fresh_token(said):
                self._link.forget_token(token)
            elif leaves_member(said) or wants_other_member(said):
                self._link.leave(connection, said.text)
        except (Lost, NotSent):
            pass
        finally:
            self._failure_count += 1  # However politely it ended: opening it anew at once may go on for ever.
            self._opened = None
            connection.reset(stream)
            self._creating.clear()
            self._armed.clear()
            for wait in self._waits:
                wait.watch_id = None

    async def _prove_alive(self) -> None:
        ask = codec.encode_range(Range(next(iter(self._waits)).key, limit=1, keys_only=True))
        with suppress(StoreError):  # A member that does not answer is left by the call itself.
            await self._link.call("KV/Range", ask, codec.decode_range, "watch", self._link.revision)
        self._link.check("watch")

    def _heard(self, data: bytes) -> None:
        header, answer = codec.decode_watch(data)
        self._link.heed(header)
        if answer.created:
            self._failure_count = 0
            wait = self._creating.popleft() if self._creating else None
        else:
            wait = self._armed.get(answer.watch_id)
        if answer.cancelled:
            if wait is not None:
                self._heard_cancelled(wait, answer)
        elif answer.created and wait is not None:
            wait.watch_id, wait.denied = answer.watch_id, False
            self._armed[answer.watch_id] = wait
            if wait not in self._waits:
                self._disarm(wait)  # It was given up before etcd had heard of it.
        elif answer.deleted_keys and wait is not None:
            wait.wake()

    def _heard_cancelled(self, wait: _Wait, answer: WatchAnswer) -> None:
        """Etcd ends one watch and leaves the stream open: nothing would ever come for it again."""
        if wait.watch_id is not None:
            del self._armed[wait.watch_id]
            wait.watch_id = None
        if answer.compact_revision:
            wait.wake()  # What happened to the key is forgotten. Whoever waits must look for itself.
        elif self._link.has_user and not wait.denied and self._opened is not None:
            wait.denied = True
            # The token belongs to the stream, so all are armed anew on another, with a fresh one.
            self._opened[1].finish(_STALE_TOKEN)
        else:
            wait.wake(Refused(self._link.address, "watch", answer.reason))


async def _as_they_are(connection: Connection, token: Headers) -> tuple[Connection, Headers]:
    return connection, token
