"""What can be asked for, as one table: it routes, says who may ask, and is what the OpenAPI document is made from.

Paths are matched as they were sent. An election's name may have slashes in it, plain or as ``%2F``:

    /v1/elections/billing/close/history       the history of billing/close
    /v1/elections/billing%2Fhistory           the election billing/history, whose last part would be taken for a word of ours

"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from tenure.serve.answers import Fault, Receive, Scope, Send, encoded
from tenure.serve.fields import Field

if TYPE_CHECKING:
    from tenure.serve.sidecar import Sidecar

STREAM: Final = "text/event-stream"
_MANY: Final = "+}"


class Access(Enum):
    """Who may ask, and how often."""

    PROBE = "probe"  # anybody, as often as they like: it costs a comparison
    OPEN = "open"  # anybody, at a rate
    TOKEN = "token"  # who has the token, at a rate


@dataclass(frozen=True, slots=True)
class Call:
    """One request that was let through."""

    sidecar: "Sidecar"
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Mapping[str, Any]
    scope: Scope
    receive: Receive
    send: Send


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: bytes = b"application/json"


Handler = Callable[[Call], Awaitable[Reply | None]]  # None: it has answered by itself


@dataclass(frozen=True, slots=True)
class Route:
    """One thing that can be asked for. ``path`` has ``{x}`` for one part and ``{x+}`` for a name with slashes."""

    method: str
    path: str
    name: str
    about: str
    handler: Handler
    access: Access = Access.OPEN
    query: Sequence[Field] = ()
    body: Sequence[Field] | None = None  # None: it takes none
    answers: Mapping[int, str] = field(default_factory=lambda: {200: "Done."})
    kind: str = "application/json"

    @property
    def methods(self) -> Sequence[str]:
        """What it may be asked by.

        No stream by HEAD: what has no body has no end here either. Its events would be read as the answer to the next request
        of the connection, and its end would be that of a candidacy.
        """
        return ("GET", "HEAD") if self.method == "GET" and self.kind != STREAM else (self.method,)

    @property
    def parts(self) -> list[str]:
        """The parts of its path."""
        return self.path.split("/")[1:]


class Table:
    """All routes; those with more fixed words come first."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes = tuple(routes)
        ordered = sorted(routes, key=lambda route: -sum("{" not in part for part in route.parts))
        self._rows = [(route.parts, route) for route in ordered]

    def find(self, method: str, raw_path: str) -> tuple[Route, dict[str, str]]:
        """Return the route of a request, and what its path says. Raises Fault."""
        sent = raw_path.split("/")[1:]
        allowed: list[str] = []
        for parts, route in self._rows:
            found = _matched(parts, sent)
            if found is None:
                continue
            if method in route.methods:
                return route, {name: _decoded(value) for name, value in found.items()}
            allowed += route.methods
        if allowed:
            allow = ", ".join(sorted(set(allowed)))
            raise Fault(405, "method-not-allowed", f"this takes {allow}", headers={"Allow": allow})
        raise Fault(404, "no-such-path", "there is nothing here", fix="See /openapi.json for what there is.")


def told(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """Return an answer in JSON."""
    return Reply(status, encoded(content), headers or {})


def _matched(parts: list[str], sent: list[str]) -> dict[str, str] | None:
    """Return what stands where the pattern has a name; None: it is another path."""
    many = next((at for at, part in enumerate(parts) if part.endswith(_MANY)), None)
    if len(sent) < len(parts) or (many is None and len(sent) != len(parts)):
        return None
    if many is not None:
        end = len(sent) - (len(parts) - many - 1)
        sent = [*sent[:many], "/".join(sent[many:end]), *sent[end:]]
    found: dict[str, str] = {}
    for part, value in zip(parts, sent, strict=True):
        if part.startswith("{"):
            if not value:
                return None
            found[part.strip("{+}")] = value
        elif part != value:
            return None
    return found


def _decoded(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise Fault(400, "bad-path", "the path is not UTF-8") from None
