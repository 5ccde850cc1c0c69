"""How a connection to a server is made, directly or through a proxy, or why it is not."""

import asyncio
import ipaddress
import socket
import ssl
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from tenure.clients.http.connection import NO_CERTIFICATE, UNWELCOME, Connection
from tenure.clients.http.encryption import Tls
from tenure.clients.http.outcomes import Lost, NotSent
from tenure.clients.tls import brief, its_certificate

_OK: Final = 200
_PORTS: Final = {"http": 80, "https": 443}
_PLAIN: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER", "PACKET_LENGTH_TOO_LONG")
_NO_HOST: Final = "no such host: check its name"  # in a URL, a kubeconfig, or the environment
_WORDS: Final[tuple[tuple[type[OSError], str], ...]] = (
    (TimeoutError, "no connection in time"),
    (socket.gaierror, _NO_HOST),
    (ConnectionRefusedError, "nobody listens on that port: is the server running, and is that its port?"),
    (ConnectionResetError, "it hung up during the handshake: does that port speak TLS?"),
)


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is connected to: a server, or a proxy."""

    scheme: str
    host: str
    port: int
    login: str = field(default="", repr=False)  # the header by which a proxy knows who asks

    @property
    def authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def peer_of(url: str) -> Peer:
    """Return whom a URL names. Raises NotSent if it names nobody."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise NotSent("that is no URL") from None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise NotSent("that is no URL")
    login = ""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        login = f"Proxy-Authorization: Basic {b64encode(pair.encode()).decode('ascii')}"
    return Peer(parts.scheme, parts.hostname, port or _PORTS[parts.scheme], login)


@dataclass(frozen=True, slots=True)
class Route:
    """How a server is reached."""

    server: Peer
    proxy: Peer | None
    tls: ssl.SSLContext | None  # None: whom the operating system trusts
    server_name: str | None  # that its certificate is for; None: its host


async def reach(connection: Connection, route: Route, within_s: float) -> None:
    """Connect to a server; ``within_s`` is how long whoever calls waits for that. Raises NotSent with what to do about it."""
    try:
        await _call(connection, route.proxy or route.server, within_s)
        await _agree(connection, route)
    except (OSError, RuntimeError) as error:  # RuntimeError: no thread was left to look up the name.
        raise NotSent(why_not(error)) from error
    except Lost as error:
        raise NotSent(error.why) from error
    connection.stands = True


async def _call(connection: Connection, peer: Peer, within_s: float) -> None:
    """Connect to one of a host's addresses: one that leads nowhere leaves time for the others."""
    loop = connection.loop
    addresses = await _addresses(loop, peer)
    for at, address in enumerate(addresses):
        try:
            async with asyncio.timeout(within_s / len(addresses)):
                transport, _ = await loop.create_connection(lambda: connection, address, peer.port)
        except OSError:
            if at == len(addresses) - 1:
                raise
        else:
            if connection.closed:
                raise NotSent("the client was closed meanwhile")
            # A peer that is gone without a word is noticed some day, also on a connection that only listens.
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            return


async def _addresses(loop: asyncio.AbstractEventLoop, peer: Peer) -> list[str]:
    with suppress(ValueError):
        return [str(ipaddress.ip_address(peer.host))]
    try:
        found = await loop.getaddrinfo(peer.host, peer.port, type=socket.SOCK_STREAM)
    except UnicodeError:  # A part of the name is empty, or has more than 63 characters.
        raise NotSent(_NO_HOST) from None
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def _agree(connection: Connection, route: Route) -> None:
    """Get through the proxy, and agree with the server on how to encrypt."""
    server, proxy = route.server, route.proxy
    encrypted = "https" in (server.scheme, "" if proxy is None else proxy.scheme)
    tls = route.tls or (ssl.create_default_context() if encrypted else None)
    if tls is None:
        return  # Everything is said in the open, also to a proxy.
    if proxy is not None:
        if proxy.scheme == "https":
            await connection.secure(_layer(tls, proxy.host))
        if server.scheme == "https":
            await _tunnel(connection, server, proxy)
    if server.scheme == "https":
        await connection.secure(_layer(tls, route.server_name or server.host))


def _layer(tls: ssl.SSLContext, name: str) -> Tls:
    try:
        return Tls(tls, name)
    except ValueError:
        raise NotSent(f"no certificate can be for the name {name!r}") from None


async def _tunnel(connection: Connection, server: Peer, proxy: Peer) -> None:
    login = f"{proxy.login}\r\n" if proxy.login else ""
    head = f"CONNECT {server.authority} HTTP/1.1\r\nHost: {server.authority}\r\n{login}\r\n"
    try:
        answer = await connection.tunnel(head.encode("ascii"))
    except ConnectionError as error:
        raise NotSent("the proxy hung up") from error
    if answer.status != _OK:
        raise NotSent(f"the proxy answered {answer.status} {answer.reason}".rstrip())


def why_not(error: OSError | RuntimeError) -> str:
    """Say in a few words why there is no connection, and what to do about it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return its_certificate(error, "check ca")
    if isinstance(error, ssl.SSLError):
        return _handshake(error)
    return next((words for kind, words in _WORDS if isinstance(error, kind)), None) or brief(error)


def _handshake(error: ssl.SSLError) -> str:
    reason = error.reason or ""
    if any(word in reason for word in _PLAIN):
        return "that port does not speak TLS: use the scheme without it"
    if any(word in reason for word in UNWELCOME):
        return NO_CERTIFICATE
    return f"TLS failed ({brief(error)})"
