"""Leases are renewed over one stream of the connection that calls go over.

A renewal that is asked for while another of the same lease waits to be written shares its message. It never shares one
that is written already: the answer to that would say that the lease lasts from an earlier moment (rule 1 of the design).

A renewal has two halves. ``begin`` hands the message to the connection and returns at once, so that it goes out in one piece
with whatever else is sent in this turn of the loop, and needs no task beside it. ``renew`` waits for the answer.
"""

import asyncio
from collections import deque
from functools import lru_cache
from typing import NamedTuple

from tenure.clients.etcd import codec
from tenure.clients.etcd.http2 import Headers
from tenure.clients.etcd.link import Link
from tenure.clients.etcd.messages import Renewal
from tenure.clients.etcd.stream import Lost, NotSent
from tenure.clients.etcd.transport import Connection

_PATH = "/etcdserverpb.Lease/LeaseKeepAlive"
# The same few leases are renewed for as long as they live.
_message = lru_cache(maxsize=64)(codec.encode_lease)


class Begun(NamedTuple):
    """A renewal that was asked for, and by when it must be answered. It may not have been written yet."""

    until_s: float
    connection: Connection | None = None
    answer: "asyncio.Future[Renewal] | None" = None


class _Message(NamedTuple):
    """One message, in which piece it goes out, and who waits for its answer."""

    write_number: int
    answers: "list[asyncio.Future[Renewal]]"


class _Opened:
    """A stream of renewals, and what was not answered yet on it."""

    def __init__(self, link: Link, connection: Connection, token: Headers) -> None:
        self._link, self.connection = link, connection
        self._unanswered: dict[int, deque[_Message]] = {}  # by lease: etcd answers the messages of a stream in order
        self.stream = connection.begin(_PATH, token, self._heard)
        self.stream.ended.add_done_callback(self._ended)

    def send(self, lease: int) -> "asyncio.Future[Renewal]":
        """Write a message, or share one that is not written yet. The answer is this caller's own: others have theirs."""
        answer: asyncio.Future[Renewal] = self.connection.loop.create_future()
        messages = self._unanswered.setdefault(lease, deque())
        if messages and messages[-1].write_number == self.connection.write_number:
            messages[-1].answers.append(answer)
        else:
            messages.append(_Message(self.connection.write_number, [answer]))
            self.connection.send(self.stream, _message(lease))
        return answer

    def _heard(self, data: bytes) -> None:
        header, (lease, ttl_s) = codec.decode_lease(data)
        self._link.heed(header)
        messages = self._unanswered.get(lease)
        if not messages:
            return
        renewal = Renewal(ttl_s, header.term)
        for answer in messages.popleft().answers:
            if not answer.done():
                answer.set_result(renewal)
        if not messages:
            del self._unanswered[lease]

    def _ended(self, ended: "asyncio.Future[None]") -> None:
        error = ended.exception() or Lost("the stream of renewals was ended")
        for messages in self._unanswered.values():
            for answer in (answer for message in messages for answer in message.answers):
                if not answer.done():
                    answer.set_exception(error)
                    answer.exception()  # Somebody may have stopped waiting: an error that nobody asks for is no news.


class Keepalive:
    """The keepalive stream of a client. Opened when it is first needed, and again after the connection was left."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._opened: _Opened | None = None

    def begin(self, lease: int) -> Begun:
        """Send a renewal now, if there is a connection for it; if not, ``renew`` will."""
        until_s = asyncio.get_running_loop().time() + self._link.call_timeout_s
        if (ready := self._link.ready()) is None:
            return Begun(until_s)
        connection, token = ready
        opened = self._opened_on(connection)
        if opened is None:
            if not connection.has_room:
                return Begun(until_s)
            try:
                opened = self._opened = _Opened(self._link, connection, token)
            except NotSent:  # It takes no more streams at all. Whoever asks next leaves it.
                return Begun(until_s)
        return Begun(until_s, connection, opened.send(lease))

    async def renew(self, lease: int, begun: Begun) -> Renewal:
        """Return what the lease has, by the answer to what was begun or to what is sent in its place."""
        answer = begun.answer
        if answer is not None and answer.done() and answer.exception() is None:
            return answer.result()

        async def exchange(connection: Connection, token: Headers) -> Renewal:
            nonlocal answer
            awaited, answer = answer, None  # If it fails, and may be asked for again, it is asked for anew.
            if awaited is None or connection is not begun.connection:
                awaited = (await self._open(connection, token)).send(lease)
            return await awaited

        # What has to be sent now has a whole deadline from now. Were it the rest of the one before, a member that is far away would
        # be left each time, for not having answered a request of a moment ago, and the next try would have to find it again.
        sent = begun.connection is not None and not begun.connection.closed
        return await self._link.attempt("renew a lease", exchange, begun.until_s if sent else None)

    async def _open(self, connection: Connection, token: Headers) -> _Opened:
        while (opened := self._opened_on(connection)) is None:
            if connection.has_room:
                self._opened = _Opened(self._link, connection, token)
            else:
                await connection.room()
        return opened

    def _opened_on(self, connection: Connection) -> _Opened | None:
        opened = self._opened
        if opened is None or opened.connection is not connection or opened.stream.ended.done():
            return None
        return opened
