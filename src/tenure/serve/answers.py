"""What the sidecar answers with: JSON, and refusals that say what is wrong and what to do about it.

    {"error": "unknown-election", "detail": "…", "fix": "…"}

``error`` is for programs and never changes; ``detail`` and ``fix`` are for people and hold no secret.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final

from tenure.errors import ConfigError, StoreError, TenureError, redact

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

RETRY_AFTER_S: Final = 1
# Of every answer: none of them is true for long, and none is what a browser should guess the type of.
_ALWAYS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_ALWAYS_RAW: Final = [(name.lower().encode(), value.encode()) for name, value in _ALWAYS.items()]


class Fault(TenureError):
    """A request that is refused. Raised wherever that is found out, answered in one place."""

    def __init__(
        self,
        status: int,
        error: str,
        detail: str,
        *,
        fix: str = "",
        headers: Mapping[str, str] | None = None,
        **more: object,
    ) -> None:
        self.status, self.error, self.detail, self.fix = status, error, redact(detail), fix
        self.headers, self.more = dict(headers or {}), more
        super().__init__(status, error)

    def __str__(self) -> str:
        return f"{self.status} {self.error}: {self.detail}"

    @property
    def body(self) -> dict[str, object]:
        """What is answered."""
        told: dict[str, object] = {"error": self.error, "detail": self.detail, **self.more}
        return told | ({"fix": self.fix} if self.fix else {})


def fault_of(error: TenureError) -> Fault:
    """Return how an error of ours is answered."""
    match error:
        case Fault():
            return error
        case ConfigError():
            return Fault(422, "invalid", f"{error.setting} {error.rule}", field=error.setting)
        case StoreError():
            fix = "Ask again: the store is not there, or did not answer in time."
            return busy("store-unavailable", str(error), fix=fix)
        case _:
            return Fault(409, "not-possible", str(error))


def busy(error: str, detail: str, *, fix: str = "", retry_after_s: int = RETRY_AFTER_S, status: int = 503) -> Fault:
    """Return the refusal of what may be possible a little later."""
    return Fault(status, error, detail, fix=fix, headers={"Retry-After": str(retry_after_s)})


def leaving() -> Fault:
    """Return the refusal of a sidecar that is being stopped."""
    return busy("leaving", "this sidecar is being stopped", fix="Ask another one.")


def encoded(told: object) -> bytes:
    """Return JSON in one line."""
    return json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace") + b"\n"


def _raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in headers.items()]


async def answer(  # noqa: PLR0913  (each by its name)
    send: Send,
    status: int,
    body: bytes,
    kind: bytes = b"application/json",
    *,
    headers: Mapping[str, str] | None = None,
    head: bool = False,
) -> None:
    """Send a whole answer; ``head``: only what comes before its body."""
    lines = [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
    lines += _raw({**_ALWAYS, **headers}) if headers else _ALWAYS_RAW
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": b"" if head else body})


async def refuse(send: Send, fault: Fault, *, head: bool = False) -> None:
    """Answer with a refusal."""
    await answer(send, fault.status, encoded(fault.body), headers=fault.headers, head=head)
