"""Leases are renewed over one stream of the connection that calls go over.

A renewal that is asked for while another of the same lease waits to be written shares its message. It never shares one
that is written already: the answer to that would say that the lease lasts from an earlier moment (rule 1 of the design).
"""

import asyncio
from collections import deque

from tenure.clients.etcd import codec
from tenure.clients.etcd.http2 import Headers
from tenure.clients.etcd.link import Link
from tenure.clients.etcd.messages import Renewal
from tenure.clients.etcd.stream import Lost, Stream
from tenure.clients.etcd.transport import Connection

_PATH = "/etcdserverpb.Lease/LeaseKeepAlive"


class _Renewal:
    """One message that is to be written, and how many wait for its answer."""

    __slots__ = ("task", "waiting_count")

    def __init__(self, task: "asyncio.Task[Renewal]") -> None:
        self.task = task
        self.waiting_count = 0


class Keepalive:
    """The keepalive stream of a client. Opened when it is first needed, and again after the connection was left."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._unwritten: dict[int, _Renewal] = {}
        self._unanswered: dict[
            int, deque[asyncio.Future[Renewal]]
        ] = {}  # etcd answers the messages of a stream in order
        self._opened: tuple[Connection, Stream] | None = None

    async def renew(self, lease: int) -> Renewal:
        """Return what the lease has now."""
        renewal = self._unwritten.get(lease)
        if renewal is None:
            renewal = self._unwritten[lease] = _Renewal(asyncio.get_running_loop().create_task(self._write(lease)))
        renewal.waiting_count += 1
        try:
            return await asyncio.shield(renewal.task)
        finally:
            renewal.waiting_count -= 1
            if not renewal.waiting_count:
                renewal.task.cancel()
                self._drop(lease, renewal)

    def _drop(self, lease: int, renewal: _Renewal) -> None:
        if self._unwritten.get(lease) is renewal:
            del self._unwritten[lease]

    async def _write(self, lease: int) -> Renewal:
        async def exchange(connection: Connection, token: Headers) -> Renewal:
            stream = await self._stream(connection, token)
            self._unwritten.pop(lease, None)  # From here on nobody may join.
            answer: asyncio.Future[Renewal] = connection.loop.create_future()
            self._unanswered.setdefault(lease, deque()).append(answer)
            connection.send(stream, codec.encode_lease(lease))
            await asyncio.wait((answer, stream.ended), return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            stream.ended.result()
            raise Lost("the stream of renewals was ended")

        return await self._link.attempt("renew a lease", exchange)

    async def _stream(self, connection: Connection, token: Headers) -> Stream:
        if (opened := self._opened_on(connection)) is not None:
            return opened
        stream = await connection.open(_PATH, token, self._heard)
        if (opened := self._opened_on(connection)) is not None:  # By another renewal, while this one waited for room.
            connection.reset(stream)
            return opened
        self._unanswered = {}
        self._opened = connection, stream
        return stream

    def _opened_on(self, connection: Connection) -> Stream | None:
        if self._opened is None or self._opened[0] is not connection or self._opened[1].ended.done():
            return None
        return self._opened[1]

    def _heard(self, data: bytes) -> None:
        header, (lease, ttl_s) = codec.decode_lease(data)
        self._link.heed(header)
        answers = self._unanswered.get(lease)
        if not answers:
            return
        answer = answers.popleft()
        if not answers:
            del self._unanswered[lease]
        if not answer.done():
            answer.set_result(Renewal(ttl_s, header.term))
