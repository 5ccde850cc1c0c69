"""Who is let through: the Host that a request was meant for, the token, the rate, the size of a body, the time to send it.

Each is a question that is answered without the engine, and before anything else of the request is looked at.
"""

import asyncio
import hmac
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Final

from tenure.serve.answers import Fault, Receive, Scope, busy

BODY_BYTES_MAX: Final = 16 * 1024  # Ten times what the longest name and address need.
BODY_WITHIN_S: Final = 10.0
HEAD_BYTES_MAX: Final = 16 * 1024
_HEADERS_MAX: Final = 100
RATE_PER_S: Final = 200.0
# Who guesses tokens is told to stop. A right one passes all the same: were it refused, who guesses would take the office of who
# has the token, if both ask from one address. What keeps a token from being guessed is its length.
_WRONG_PER_S: Final = 5.0
_BURST_S: Final = 2.0
_CLIENTS_KEPT: Final = 4096
_LOOPBACK_NAMES: Final = frozenset({"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"})

Headers = Mapping[bytes, bytes]


def headers_of(scope: Scope) -> dict[bytes, bytes]:
    """Return the headers by name. Of one that is there twice the first counts, whatever it is. Raises Fault if they are too long.

    The server bounds a head that comes in parts; one that came as a whole is bounded here. And who says in two ways how long its body is
    may have had a proxy believe the other one: what follows could be anybody's.
    """
    headers = dict(reversed(scope["headers"]))
    size = (
        len(scope["raw_path"]) + len(scope["query_string"]) + sum(map(len, headers)) + sum(map(len, headers.values()))
    )
    if len(scope["headers"]) > _HEADERS_MAX or size > HEAD_BYTES_MAX:
        raise Fault(431, "head-too-large", f"the head has more than {HEAD_BYTES_MAX} bytes or {_HEADERS_MAX} lines")
    if b"content-length" in headers and b"transfer-encoding" in headers:
        raise Fault(400, "bad-length", "the body has a length and comes in chunks", headers={"Connection": "close"})
    return headers


class Hosts:
    """Against DNS rebinding: a page of somebody else's, whose name was made to point here, asks under that name.

    A browser that shows such a page sends its name as Host. So names are let through that nobody else can point here: those of the loopback,
    and those that were allowed. An address is no name, and a request without a Host comes from no browser.
    """

    def __init__(self, allowed: Iterable[str], *, checked: bool = True) -> None:
        """``checked`` is False for a unix socket, which no browser can reach."""
        self._allowed = _LOOPBACK_NAMES | {name.lower().rstrip(".") for name in allowed}
        self._checked = checked
        self._known: set[bytes] = set()  # What has passed, as it was sent: probes ask thousands of times.

    def check(self, host: bytes | None) -> None:
        """Return if a request for this Host may pass; raises Fault."""
        if not self._checked or host is None or host in self._known:
            return
        name = _name_of(host.decode("latin-1"))
        if not (name in self._allowed or name.endswith(".localhost") or _is_address(name)):
            fix = "Ask by address, or start the sidecar with --allow-host and this name."
            raise Fault(403, "host-not-allowed", f"the Host {name[:80]!r} is not one of this sidecar", fix=fix)
        if len(self._known) < _CLIENTS_KEPT:
            self._known.add(host)


def _name_of(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower().rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


class Rate:
    """So many requests a second for each client, and some at once if it has been quiet."""

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._spent: OrderedDict[str, float] = OrderedDict()  # until when each has spent what it may

    def spend(self, client: str) -> None:
        """Count one request. Raises Fault if that is one too many."""
        now_s = time.monotonic()
        until_s = max(now_s, self._spent.pop(client, 0.0)) + 1 / self._per_s
        wait_s = until_s - now_s - _BURST_S
        self._spent[client] = until_s if wait_s <= 0 else until_s - 1 / self._per_s
        while len(self._spent) > _CLIENTS_KEPT:
            self._spent.popitem(last=False)
        if wait_s > 0:
            detail = f"more than {self._per_s:g} requests a second came from here"
            raise busy("too-many-requests", detail, status=429, retry_after_s=int(wait_s) + 1)


class Bearer:
    """Who may write: whoever sends one of our tokens."""

    def __init__(self, tokens: Iterable[bytes], *, read_only: bool = False) -> None:
        self._tokens = () if read_only else tuple(tokens)
        self._read_only = read_only
        self._wrong = Rate(_WRONG_PER_S)

    def check(self, authorization: bytes | None, client: str) -> None:
        """Return if a request with this header may write; raises Fault."""
        if not self._tokens:
            detail = "this sidecar is read-only" + (
                "" if self._read_only else ", because it was started without a token"
            )
            fix = "Start it without --read-only." if self._read_only else "Start it with --token-file FILE."
            raise Fault(403, "read-only", detail, fix=fix)
        challenge = {"WWW-Authenticate": 'Bearer realm="tenure"'}
        if authorization is None:
            fix = "Send it: Authorization: Bearer …"
            raise Fault(401, "token-missing", "this needs the token of the sidecar", fix=fix, headers=challenge)
        scheme, _, sent = authorization.partition(b" ")
        # All of them are compared, in constant time: neither how much is right nor which one it is can be timed.
        right = [hmac.compare_digest(sent.strip(), token) for token in self._tokens]
        if scheme.lower() != b"bearer" or not any(right):
            self._wrong.spend(client)
            raise Fault(401, "token-wrong", "this is not the token of the sidecar", headers=challenge)


async def read_body(headers: Headers, receive: Receive) -> bytes:
    """Return the body of a request. Raises Fault if it is too large, of another type, or takes too long."""
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and int(length[:20]) > BODY_BYTES_MAX:
        raise _too_large()
    try:
        async with asyncio.timeout(BODY_WITHIN_S):
            content = await _received(receive)
    except TimeoutError:
        raise Fault(408, "too-slow", f"the body did not come within {BODY_WITHIN_S:g} s") from None
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if content and kind != b"application/json":
        raise Fault(415, "not-json", "the body must be JSON", fix="Send it with Content-Type: application/json.")
    return content


async def _received(receive: Receive) -> bytes:
    content = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Fault(400, "gone", "the client has gone")
        content += message.get("body", b"")
        if len(content) > BODY_BYTES_MAX:
            raise _too_large()
        if not message.get("more_body", False):
            return bytes(content)


def _too_large() -> Fault:
    return Fault(413, "too-large", f"the body has more than {BODY_BYTES_MAX} bytes")
