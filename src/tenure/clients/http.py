"""HTTP for engines that speak it: one request, one deadline, and what became of it. Runs on asyncio.

Rules of this file
1. A request is sent once. aiohttp by itself sends a PUT, DELETE or GET again if a kept connection turns out to be closed;
   the server may have carried out the first one, so that is switched off for all of them.
2. Whatever goes wrong is ``NotSent`` (nobody has seen the request) or ``Lost`` (somebody may have). An answer is an answer,
   whatever its status: what that means is for the client of the engine to say.
3. Redirects are answers too, and cookies are not kept.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Self

import aiohttp

from tenure.clients.tls import brief

# More than an engine has reason to say at once; a stranger behind the port may go on for ever.
_BODY_MAX_BYTES: Final = 64 * 2**20
_CONNECT_PART: Final = 0.9
# What a server says, after the handshake, to a client without the certificate that it wants. It reads no request then.
_UNWELCOME: Final = (
    "CERTIFICATE_REQUIRED",
    "BAD_CERTIFICATE",
    "UNKNOWN_CA",
    "HANDSHAKE_FAILURE",
    "CERTIFICATE_UNKNOWN",
)
_PLAIN: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER")


class NotSent(Exception):
    """Nobody has seen the request. ``why`` says in a few words what to do about it."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


class Lost(Exception):
    """The request left, and no answer came."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


class Silent(Lost):
    """The connection stood and nothing broke, but no answer came in time."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said. The names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body for people to read."""
        return self.body.decode("utf-8", "replace").strip()


class _Connector(aiohttp.TCPConnector):
    """Hangs up at once where a request was given up: a farewell under TLS waits half a minute for a server that is gone."""

    def _release(self, key: Any, protocol: Any, *, should_close: bool = False) -> None:
        if should_close or protocol.should_close:
            protocol.abort()
        super()._release(key, protocol, should_close=should_close)


class Http:
    """One pool of connections, which is used on one event loop between ``async with`` and its end."""

    def __init__(
        self, tls: ssl.SSLContext | None = None, *, proxy: str | None = None, server_name: str | None = None
    ) -> None:
        self.tls = tls
        # The name that the server's certificate is for, if that is not the one in the URL.
        self._proxy, self._server_name = proxy, server_name
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            # No limit here: every wait has a connection of its own, and a renewal must not queue behind them.
            connector=_Connector(limit=0, ssl=self.tls or True),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": "tenure"},
            middlewares=(_once,),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
            # An encrypted connection is gone one turn of the event loop after it was told to go.
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

        A connection is given up before the request is, so that it can be told which of the two took too long. With ``tls``
        only connections are used that were made with it: each shows the client certificate of its beginning to its end.
        """
        connect_within_s = connect_within_s or _CONNECT_PART * within_s
        with _told(within_s):
            async with (
                asyncio.timeout(within_s),
                self._request(method, url, connect_within_s, params, headers, body, tls) as response,
            ):
                return _answer(response, await _read(response))

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
        with _told(within_s):
            async with asyncio.timeout(within_s) as limit:
                async with self._request("GET", url, _CONNECT_PART * within_s, params, headers, None, tls) as response:
                    if response.status != 200:  # noqa: PLR2004  (the one status of a stream that has begun)
                        yield _answer(response, await _read(response))
                        return
                    limit.reschedule(None)
                    yield _lines(response, idle_s)

    def _request(  # noqa: PLR0913, PLR0917  (each is a part of the request)
        self,
        method: str,
        url: str,
        connect_within_s: float,
        params: Mapping[str, str] | None,
        headers: Mapping[str, str] | None,
        body: bytes | None,
        tls: ssl.SSLContext | None,
    ) -> "aiohttp.client._RequestContextManager":
        if self._session is None:
            raise NotSent("the client is not open")
        # Rounded up to whole seconds by default, from 5 s on; what is short is exact.
        timeout = aiohttp.ClientTimeout(total=None, connect=connect_within_s, ceil_threshold=connect_within_s)
        return self._session.request(
            method,
            url,
            params=params,
            headers=headers,
            data=body,
            allow_redirects=False,
            timeout=timeout,
            proxy=self._proxy,
            server_hostname=self._server_name,
            ssl=tls or True,
        )


@contextmanager
def _told(within_s: float) -> Iterator[None]:
    """Make NotSent or Lost of whatever goes wrong."""
    try:
        yield
    except aiohttp.ConnectionTimeoutError as error:
        raise NotSent("no connection in time") from error
    except TimeoutError:
        raise Silent(f"no answer within {round(within_s, 1) or within_s:g} s") from None
    except aiohttp.ClientConnectorError as error:
        raise NotSent(why_not(error)) from error
    except aiohttp.ClientHttpProxyError as error:
        raise NotSent(f"the proxy answered {error.status} {error.message}") from error
    except aiohttp.InvalidURL as error:
        raise NotSent("that is no URL") from error
    except aiohttp.ClientError as error:
        raise Lost(str(error) or "the connection was lost") from error


def _answer(response: aiohttp.ClientResponse, body: bytes) -> Answer:
    return Answer(response.status, {name.lower(): value for name, value in response.headers.items()}, body)


async def _lines(response: aiohttp.ClientResponse, idle_s: float) -> AsyncIterator[bytes]:
    """Give whole lines as they come."""
    rest = b""
    while True:
        try:
            async with asyncio.timeout(idle_s):
                piece = await response.content.readany()
        except TimeoutError:
            raise Lost(f"nothing was heard for {idle_s:g} s") from None
        if not piece:
            return
        *whole, rest = (rest + piece).split(b"\n")
        if len(rest) > _BODY_MAX_BYTES:
            raise Lost(f"a line has more than {_BODY_MAX_BYTES // 2**20} MiB")
        for line in whole:
            yield line


async def _once(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Turn what aiohttp would answer by sending again into an error that ends the request."""
    try:
        return await send(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        reason = error.__cause__.reason if isinstance(error.__cause__, ssl.SSLError) else None
        if any(word in (reason or "") for word in _UNWELCOME):
            raise NotSent("it asks for a client certificate that it trusts: give cert and key") from error
        raise Lost("the connection was lost before an answer came") from error


async def _read(response: aiohttp.ClientResponse) -> bytes:
    said = bytearray()
    async for piece in response.content.iter_any():
        said += piece
        if len(said) > _BODY_MAX_BYTES:
            raise Lost(f"the answer has more than {_BODY_MAX_BYTES // 2**20} MiB")
    return bytes(said)


def why_not(error: aiohttp.ClientConnectorError) -> str:
    """Say in a few words why there is no connection, and what to do about it."""
    cause = error.os_error
    if isinstance(error, aiohttp.ClientConnectorCertificateError) or isinstance(cause, ssl.SSLCertVerificationError):
        words = cause.verify_message if isinstance(cause, ssl.SSLCertVerificationError) else brief(cause)
        return f"its certificate is not trusted ({words}): check ca and the host name"
    if isinstance(cause, ssl.SSLError):
        return _handshake(cause)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "no such host"
    if isinstance(cause, ConnectionRefusedError):
        return "nobody listens on that port"
    if isinstance(cause, ConnectionResetError):
        return "it hung up during the handshake: does that port speak TLS?"
    return brief(cause)


def _handshake(error: ssl.SSLError) -> str:
    reason = error.reason or ""
    if any(word in reason for word in _PLAIN):
        return "that port does not speak TLS: use the scheme without it"
    if any(word in reason for word in _UNWELCOME):
        return "it asks for a client certificate that it trusts: give cert and key"
    return f"TLS failed ({brief(error)})"
