"""Where the members of a cluster are, and how a connection to one of them is made, or why it is not."""

import asyncio
import socket
import ssl
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import count
from typing import NamedTuple

from tenure.clients.etcd.stream import NotSent
from tenure.clients.etcd.transport import Connection, NotGreeted
from tenure.clients.tls import brief, its_certificate
from tenure.clients.unreached import NO_HOST, by_what_they_did, nobody_listens
from tenure.errors import ConfigError

_PORT = 2379
_TLS_ALERT = b"\x15\x03"


class Endpoint(NamedTuple):
    """A member's address. Written ``host``, ``host:port`` or ``[::1]:port``."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def of(cls, text: str) -> "Endpoint":
        """Read an address; the port is etcd's own unless one is given."""
        if text.startswith("["):
            host, bracket, rest = text[1:].partition("]")
            well_formed = bracket == "]" and (not rest or rest.startswith(":"))
            port = rest[1:]
        else:
            host, colon, port = text.partition(":")
            well_formed = bool(port) or not colon
        if (
            not host
            or not well_formed
            or (port and not (port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16))
        ):
            raise ConfigError("endpoint", text, "must be host, host:port or [IPv6]:port, with a port from 1 to 65535")
        return cls(host, int(port or _PORT))


async def connect_to(endpoint: Endpoint, tls: ssl.SSLContext | None) -> Connection:
    """Connect, or raise ``NotSent`` with what to do about it."""
    try:
        return await _connect(endpoint, tls)
    except NotGreeted as error:
        raise NotSent(_in_place_of_etcd(error.said, tls)) from error
    except ssl.SSLCertVerificationError as error:
        raise NotSent(its_certificate(error, "name its authority by ca")) from error
    except ssl.SSLError as error:
        raise NotSent(tls_failure(error)) from error
    except socket.gaierror as error:
        raise NotSent(f"{NO_HOST} ({error.strerror})") from error
    except (OSError, RuntimeError) as error:  # RuntimeError: no thread was left to look up the name.
        if nobody_listens(error):
            why = "nobody listens on that port: is the server running, and is that its client port?"
            raise NotSent(why) from error
        raise NotSent(_in_place_of_etcd(b"", tls) if isinstance(error, ConnectionError) else brief(error)) from error


async def _connect(endpoint: Endpoint, tls: ssl.SSLContext | None) -> Connection:
    connection = Connection(str(endpoint), "https" if tls else "http")
    with ExitStack() as unless_greeted:
        unless_greeted.callback(connection.abort, "given up")
        await connection.loop.create_connection(lambda: connection, endpoint.host, endpoint.port, ssl=tls)
        await connection.greeted
        unless_greeted.pop_all()
    return connection


def _in_place_of_etcd(said: bytes, tls: ssl.SSLContext | None) -> str:
    """Say what answered, as far as its first bytes tell. No word at all means, most likely, TLS on one side only."""
    if said.startswith(b"HTTP/1"):
        return "that port speaks HTTP/1 and no gRPC: is it an etcd 3.4 or newer, and its client port?"
    if said and not said.startswith(_TLS_ALERT):
        return "that port speaks no gRPC: is it an etcd?"
    other = "does not speak TLS, use etcd://" if tls else "speaks TLS, use etcds://"
    return f"it hung up without a word: if that port {other}"


class Search:
    """A search for a member that answers: one after the other is tried, and none that is silent keeps the next one waiting.

    Nor is a silent one given up for that: a member far away, or one whose name takes long to be found, would never be
    reached if whoever is in a hurry began anew each time. But it is tried once more beside that, less and less often: the
    engine's machine may have come back, and what was sent to it before then may be repeated late.
    """

    def __init__(self, endpoints: Sequence[Endpoint], tls: ssl.SSLContext | None) -> None:
        self._endpoints, self._tls = tuple(endpoints), tls
        self._trying: dict[asyncio.Task[Connection], Endpoint] = {}  # in the order of their beginning
        self._did: dict[Endpoint, str] = {}  # what came of each that was tried; empty: nothing so far

    async def first(self, next_after_s: float, within_s: float) -> tuple[Endpoint, Connection]:
        """Connect to the first that answers; the next one is tried after so long, or once the one before has failed.

        Raises ``NotSent`` with what each of them did.
        """
        try:
            async with asyncio.timeout(within_s):
                for round_number in count():
                    for endpoint in self._endpoints:
                        self._did.setdefault(endpoint, "")
                        self._trying[asyncio.create_task(connect_to(endpoint, self._tls))] = endpoint
                        found = await self._look(next_after_s * 2**round_number)
                        if found is not None:
                            return found
                    if not self._trying:
                        break
        except TimeoutError:
            pass
        finally:
            await self._leave_others()
        raise NotSent(self.told(f"no answer within {within_s:g} s"))

    async def _look(self, within_s: float) -> tuple[Endpoint, Connection] | None:
        ended, _ = await asyncio.wait(self._trying, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        for task in [task for task in self._trying if task in ended]:
            try:
                connection = task.result()
            except NotSent as error:
                self._did[self._trying.pop(task)] = str(error)
            else:
                return self._trying.pop(task), connection
        return None

    async def _leave_others(self) -> None:
        for task in self._trying:
            task.cancel()
            task.add_done_callback(_hang_up)
        if self._trying:
            await asyncio.wait(self._trying)

    def told(self, silence: str) -> str:
        """Say what each of those that were tried did; ``silence`` is said of those who did nothing."""
        return by_what_they_did((endpoint, did or silence) for endpoint, did in self._did.items())


def _hang_up(task: "asyncio.Task[Connection]") -> None:
    """Leave a member that answered when another one had been found already."""
    if not task.cancelled() and task.exception() is None:
        task.result().abort("another one was quicker")


def tls_failure(error: ssl.SSLError) -> str:
    """Say what to do about a handshake that failed."""
    reason = error.reason or ""
    if "WRONG_VERSION_NUMBER" in reason or "RECORD_LAYER" in reason:
        return "that port does not speak TLS: use etcd://"
    if "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason or "BAD_CERTIFICATE" in reason:
        return "it asks for a client certificate that it trusts: give cert and key"
    return f"TLS failed ({brief(error)})"
