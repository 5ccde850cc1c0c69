"""How a server is reached: the connection, the session that is asked for on it, and who we are. Runs on asyncio."""

import asyncio
import struct
from collections.abc import Callable
from types import TracebackType
from typing import Final

from tenure.clients.zookeeper.link import Link, LinkLost
from tenure.clients.zookeeper.settings import Login, Settings
from tenure.clients.zookeeper.wire import Fault, Welcome, auth, read_welcome, sasl
from tenure.clock import Clock

# ZooKeeper has this realm in its source, in place of a host's name (SecurityUtils).
_DIGEST_REALM: Final = "zk-sasl-md5"


async def reach(
    endpoint: str, settings: Settings, clock: Clock, hello: bytes, on_event: Callable[[int, str], None]
) -> tuple[Link, Welcome]:
    """Return a connection to ``endpoint`` on which ``hello`` was answered. Raises what ``why_not`` can explain."""
    loop = asyncio.get_running_loop()
    host, _, port = endpoint.rpartition(":")
    host = host.strip("[]")
    try:
        transport, link = await loop.create_connection(
            lambda: Link(clock, on_event),
            host,
            int(port),
            ssl=settings.tls,
            server_hostname=host if settings.tls is not None else None,
        )
    except (ConnectionResetError, ConnectionAbortedError, BrokenPipeError) as error:
        # A ZooKeeper that does not speak TLS takes its first bytes for the length of a message, and hangs up.
        why = "it hung up at once" + (": if that port does not speak TLS, use zookeeper://" if settings.tls else "")
        raise ConnectionError(why) from error
    reached = False
    try:
        link.greet(hello)
        try:
            welcome = read_welcome(await link.welcome)
        except struct.error as error:
            raise ValueError(str(error)) from error
        if welcome.timeout_ms > 0 and settings.login is not None:
            await _log_in(link, host, settings.login)
        reached = True
    finally:
        if not reached:
            transport.abort()
    return link, welcome


async def _log_in(link: Link, host: str, login: Login) -> None:
    if login.mechanism:
        await _log_in_by_sasl(link, host, login)
        return
    _raise_if(await link.send_auth(auth("digest", f"{login.user}:{login.password}".encode())))


async def _log_in_by_sasl(link: Link, host: str, login: Login) -> None:
    from puresasl.client import SASLClient  # type: ignore[import-untyped]  # noqa: PLC0415  (only who uses SASL needs it)

    realm = _DIGEST_REALM if login.mechanism == "DIGEST-MD5" else host
    named = {"username": login.user, "password": login.password} if login.user else {}
    with _Foreign():
        client = SASLClient(realm, service="zookeeper", mechanism=login.mechanism, **named)
    challenge: bytes | None = None
    while not client.complete:
        with _Foreign():
            response = client.process(challenge)
        if client.complete and not response:
            break
        answer = await link.send(sasl(response or b""))
        _raise_if(answer)
        assert isinstance(answer, bytes)
        challenge = answer
    with _Foreign():
        client.dispose()


class _Foreign:
    """Makes a PermissionError of whatever is raised inside, where no word of ours is spoken.

    SASL libraries let through what those below them raise: Kerberos has errors of its own, and an expired ticket is one.
    Whatever it is, it must not end the task that keeps a session connected.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            raise PermissionError(0, f"SASL failed: {error}") from error


def _raise_if(answer: object) -> None:
    if isinstance(answer, Fault | LinkLost):
        raise answer
