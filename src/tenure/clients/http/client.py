"""A pool of connections, and requests with a deadline over them.

Rules of this file
1. A request is sent once. A kept connection that turns out to be closed may have carried it there: it is lost, not sent again.
2. Whatever goes wrong is ``NotSent`` (nobody has seen the request) or ``Lost`` (somebody may have). An answer is an answer,
   whatever its status: what that means is for the client of the engine to say.
3. Redirects are answers too, and cookies are not kept.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final, Self
from urllib.parse import urlencode

from tenure.clients.http.answers import BODY_MAX_BYTES, Answer, Reading
from tenure.clients.http.connection import Connection
from tenure.clients.http.outcomes import Lost, NotSent, Silent
from tenure.clients.http.reaching import Route, peer_of, reach

_CONNECT_PART: Final = 0.9
_OK: Final = 200
# A connection that was not used for this long may have been forgotten by something on the way: the strictest of the usual
# load balancers do so after a minute.
_IDLE_MAX_S: Final = 50.0
_NO_CONNECTION: Final = "no connection in time"
_BUFFER_BYTES: Final = 1 << 14  # as much as TLS has in one piece
_ALWAYS: Final = ("User-Agent: tenure", "Accept-Encoding: identity")

Key = tuple[str, ssl.SSLContext | None]  # scheme and host, and with which certificate


class Http:
    """One pool of connections, which is used on one event loop between ``async with`` and its end."""

    def __init__(
        self, tls: ssl.SSLContext | None = None, *, proxy: str | None = None, server_name: str | None = None
    ) -> None:
        self.tls = tls
        # The name that the server's certificate is for, if that is not the one in the URL.
        self._server_name = server_name
        self._proxy = None if proxy is None else peer_of(proxy)
        self._open = False
        self._all: set[Connection] = set()
        self._idle: dict[Key, deque[Connection]] = {}  # who was used last is last
        self._buffer = memoryview(bytearray(0))
        self._tidying: asyncio.TimerHandle | None = None  # when those are left that were not used for too long

    async def __aenter__(self) -> Self:
        self._open, self._buffer = True, memoryview(bytearray(_BUFFER_BYTES))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._open = False
        if self._tidying is not None:
            self._tidying.cancel()
            self._tidying = None
        for connection in list(self._all):
            connection.close()
        # A connection is gone one turn of the event loop after it was told to go.
        await asyncio.sleep(0)

    async def ask(  # noqa: PLR0913  (each is a part of the request, by name)
        self,
        method: str,
        url: str,
        *,
        within_s: float,
        connect_within_s: float | None = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> Answer:
        """Send one request and return its whole answer, all ``within_s``. Raises NotSent or Lost.

        A connection is given up before the request is, so that it can be told which of the two took too long: what has no
        connection was not sent. With ``tls`` only connections are used that were made with it: each shows the client certificate
        of its beginning to its end.
        """
        key, request = self._request(method, url, params, headers, body, tls)
        connection, part_s = None, _CONNECT_PART * within_s
        try:
            async with asyncio.timeout(within_s):
                connection = self._kept(key) or await self._connect(key, min(connect_within_s or part_s, part_s))
                try:
                    reading = await connection.ask(request)
                finally:
                    if connection.is_asking:
                        connection.abort()
        except TimeoutError:
            if connection is None:
                raise NotSent(_NO_CONNECTION) from None
            self._drop(key)
            raise Silent(f"no answer within {round(within_s, 1) or within_s:g} s") from None
        self._keep(key, connection, reading)
        return reading.answer

    @asynccontextmanager
    async def stream(  # noqa: PLR0913  (each is a part of the request, by name)
        self,
        url: str,
        *,
        within_s: float,
        idle_s: float,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> AsyncIterator["Answer | AsyncIterator[bytes]"]:
        """Ask for an answer that goes on and on, and give its lines; an answer that is no success is given as a whole.

        Raises NotSent or Lost, also inside the block: if the connection breaks, or if nothing comes for ``idle_s``.
        """
        key, request = self._request("GET", url, params, headers, None, tls)
        connection = None
        try:
            try:
                async with asyncio.timeout(within_s):
                    connection = self._kept(key) or await self._connect(key, _CONNECT_PART * within_s)
                    reading = await connection.begin(request)
                    if reading.status != _OK:
                        await connection.whole(reading)
            except TimeoutError:
                if connection is None:
                    raise NotSent(_NO_CONNECTION) from None
                raise Silent(f"no answer within {round(within_s, 1) or within_s:g} s") from None
            yield _lines(connection, reading, idle_s) if reading.status == _OK else reading.answer
        finally:
            if connection is not None:
                connection.abort()

    def _request(  # noqa: PLR0913, PLR0917  (each is a part of the request)
        self,
        method: str,
        url: str,
        params: Mapping[str, str] | None,
        headers: Mapping[str, str] | None,
        body: bytes | None,
        tls: ssl.SSLContext | None,
    ) -> tuple[Key, bytes]:
        """Return which connections will do, and what is sent. Raises NotSent."""
        if not self._open:
            raise NotSent("the client is not open")
        scheme, _, rest = url.partition("://")
        authority, _, path = rest.partition("/")
        target = f"/{path}?{urlencode(params)}" if params else f"/{path}"
        through = self._proxy if scheme == "http" else None
        if through is not None:
            target = f"http://{authority}{target}"
        lines = [f"{method} {target} HTTP/1.1", f"Host: {authority}", *_ALWAYS]
        if headers:
            lines += [f"{name}: {value}" for name, value in headers.items()]
        if through is not None and through.login:
            lines.append(through.login)
        if body is not None or method != "GET":
            lines.append(f"Content-Length: {len(body or b'')}")
        # No end of a line but our own: else what is in a name or a token could be a request.
        text = "".join(lines)
        if " " in target or not text.isascii() or not text.isprintable():
            raise NotSent("that is no URL, or no header")
        return (f"{scheme}://{authority}", tls or self.tls), ("\r\n".join(lines) + "\r\n\r\n").encode() + (body or b"")

    # Connections

    def _kept(self, key: Key) -> Connection | None:
        """Return a connection that was kept for this, the one that was used last."""
        idle = self._idle.get(key)
        if not idle:
            return None
        connection = idle.pop()
        oldest_s = asyncio.get_running_loop().time() - _IDLE_MAX_S
        if connection.idle_since_s < oldest_s:
            self._drop(key)
            connection.close()
            return None
        while idle and idle[0].idle_since_s < oldest_s:
            idle.popleft().close()
        return connection

    def _keep(self, key: Key, connection: Connection, reading: Reading) -> None:
        if not self._open or not reading.keeps or not connection.can_go_on:
            connection.close()
            return
        loop = asyncio.get_running_loop()
        connection.idle_since_s = loop.time()
        self._idle.setdefault(key, deque()).append(connection)
        if self._tidying is None:
            self._tidying = loop.call_later(_IDLE_MAX_S, self._tidy)

    def _tidy(self) -> None:
        """Leave whatever was not used for too long, also what nobody may ever ask for again: another certificate is shown by now."""
        self._tidying = None  # Whatever goes wrong below, who is kept next has it done again.
        loop = asyncio.get_running_loop()
        oldest_s = loop.time() - _IDLE_MAX_S
        for connection in [one for idle in self._idle.values() for one in idle if one.idle_since_s <= oldest_s]:
            connection.close()
        left_s = [idle[0].idle_since_s for idle in self._idle.values() if idle]
        if left_s:
            self._tidying = loop.call_at(min(left_s) + _IDLE_MAX_S, self._tidy)

    def _drop(self, key: Key) -> None:
        """Leave those that were kept: a server that is silent on one of them may be so on all."""
        for connection in self._idle.pop(key, ()):
            connection.close()

    async def _connect(self, key: Key, within_s: float) -> Connection:
        url, tls = key
        connection = Connection(self._buffer, self._forget)
        self._all.add(connection)
        try:
            async with asyncio.timeout(within_s):
                await reach(connection, Route(peer_of(url), self._proxy, tls, self._server_name), within_s)
        except TimeoutError:
            raise NotSent(_NO_CONNECTION) from None
        finally:
            if not connection.stands:
                connection.abort()
        return connection

    def _forget(self, connection: Connection) -> None:
        self._all.discard(connection)
        for key, idle in list(self._idle.items()):
            with suppress(ValueError):
                idle.remove(connection)
            if not idle:  # With it goes a certificate that nobody shows any more.
                del self._idle[key]


async def _lines(connection: Connection, reading: Reading, idle_s: float) -> AsyncIterator[bytes]:
    """Give whole lines as they come."""
    rest = b""
    while True:
        try:
            async with asyncio.timeout(idle_s):
                piece = await connection.more(reading)
        except TimeoutError:
            raise Lost(f"nothing was heard for {idle_s:g} s") from None
        if not piece:
            return
        *whole, rest = (rest + piece).split(b"\n")
        if len(rest) > BODY_MAX_BYTES:
            raise Lost(f"a line has more than {BODY_MAX_BYTES // 2**20} MiB")
        for line in whole:
            yield line
