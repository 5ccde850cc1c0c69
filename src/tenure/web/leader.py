"""In front of an application that only the leader may answer: a standby says where the leader is, or that there is none.

    421 Misdirected Request, Tenure-Leader: http://10.0.0.5:8080    another leads, and can be reached there
    307 Temporary Redirect, Location: …                             the same, by choice, for clients that follow redirects
    503 Service Unavailable, Tenure-Refused: no-leader, Retry-After: 1   nobody does, or nobody has said where; or it is not ready

None of these was handed to the application, so whoever gets one may send the same request again, whatever it does.
"""

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final
from urllib.parse import quote

import anyio

from tenure.election import Election
from tenure.errors import ConfigError, StoreError
from tenure.model import Incumbent
from tenure.office.tenure import Tenure
from tenure.sinks.http.header import REFUSED
from tenure.sinks.http.stamp import origin_of
from tenure.web.asgi import App, Receive, Scope, Send

LEADER: Final = "Tenure-Leader"
NO_LEADER: Final = "no-leader"
_TRY_AGAIN_LATER: Final = 1013
_IN_PATH: Final = "/:@!$&'()*+,;="  # what may stand there for itself (RFC 3986)
_AS_SENT: Final = "".join(map(chr, range(0x21, 0x7F)))  # It is escaped already: nothing that ends a header passes.

Needs = Callable[[str, str], bool]


def _everything(_: str, __: str) -> bool:
    return True


class LeaderASGI:
    """Lets requests through while this process leads; others learn where the leader is. Runs on asyncio and on trio.

    ``election``       the candidate of this process, which knows the store; the leader must ``advertise`` an http or https URL
    ``needs_leader``   which requests this is about, by method and path; the rest always pass. By default all
    ``redirect``       answer 307 in place of 421

    The application finds the tenure in ``scope["tenure"]``. Does not promise that nobody else leads when it answers: it calls
    ``term.check()`` last before a read, and writes by a sink. Looks into the store at most four times a heartbeat.
    """

    def __init__(
        self, app: App, election: Election, *, needs_leader: Needs = _everything, redirect: bool = False
    ) -> None:
        self._app, self._election, self._needs, self._redirect = app, election, needs_leader, redirect
        self._term: Tenure | None = None
        self._looking = anyio.Lock()
        self._found: Incumbent | None = None
        self._looked_at = -math.inf

    @contextmanager
    def serving(self, term: Tenure) -> Iterator[None]:
        """Let requests through, inside the body and while ``term`` is valid: ``with gate.serving(term): …``."""
        self._term = term
        try:
            yield
        finally:
            self._term = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        # A handshake is a GET.
        if kind not in {"http", "websocket"} or not self._needs(scope.get("method", "GET"), scope["path"]):
            await self._app(scope, receive, send)
            return
        term = self._term
        if term is not None and term.reason is None:  # valid, and not told to stop
            await self._app({**scope, "tenure": term}, receive, send)
            return
        if kind == "websocket":
            await send({"type": "websocket.close", "code": _TRY_AGAIN_LATER, "reason": "Another node leads"})
            return
        address = _address_of(await self._incumbent(), self._election)
        if address is None:
            await _answer(send, 503, "Nobody leads that could answer", {REFUSED: NO_LEADER, "Retry-After": "1"})
        elif self._redirect:
            location = f"{address}{_target(scope)}"
            await _answer(send, 307, "Another node leads", {LEADER: address, "Location": location})
        else:
            await _answer(send, 421, "Another node leads", {LEADER: address})

    async def _incumbent(self) -> Incumbent | None:
        async with self._looking:  # One look for all that came meanwhile.
            if anyio.current_time() >= self._looked_at + self._election.look_every_s:
                self._found = None
                # A store that cannot be asked is as good as nobody.
                with anyio.move_on_after(self._election.timing.attempt_timeout_ns / 1e9), suppress(StoreError):
                    self._found = await self._election.incumbent()
                self._looked_at = anyio.current_time()
        return self._found


def _address_of(incumbent: Incumbent | None, election: Election) -> str | None:
    """Return where to send whoever asks here; None if there is no such place, or if it is here and not ready yet."""
    if incumbent is None or incumbent.holder == election.holder:
        return None
    address = incumbent.advertised.rstrip("/")
    try:
        origin_of(address)
    except ConfigError:
        return None
    # It was written by somebody else, and is about to be a header that everybody may read.
    return address if address.isascii() and "@" not in address and " " not in address else None


def _target(scope: Scope) -> str:
    """Return path and query as they stood in the request, or where a server keeps only the decoded path, as they may have."""
    raw = scope.get("raw_path")
    path = quote(scope["path"], safe=_IN_PATH) if raw is None else quote(raw.partition(b"?")[0], safe=_AS_SENT)
    query = quote(scope.get("query_string", b""), safe=_AS_SENT)
    # The slash that a path has to begin with keeps what follows out of the name of the host.
    return f"/{path.removeprefix('/')}{'?' if query else ''}{query}"


async def _answer(send: Send, status: int, title: str, headers: dict[str, str]) -> None:
    body = json.dumps({"title": title, "status": status, "leader": headers.get(LEADER)}).encode()
    shown = {"Content-Type": "application/problem+json", "Cache-Control": "no-store", **headers}
    shown["Content-Length"] = str(len(body))
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in shown.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
