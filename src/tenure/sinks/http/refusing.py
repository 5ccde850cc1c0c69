"""What a service says when it refuses, and what a client makes of it. Both sides of one table; no IO."""

import json
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Protocol

from tenure.errors import OutcomeUnknown, Refused, StaleToken, TenureError, Unreachable, UnverifiedToken
from tenure.model import TOKEN_MAX
from tenure.sinks.http.header import HIGHEST, NAME, REFUSED

# Word → status and title. The status is what a stranger understands; the word is exact.
_WORDS: Final = {
    "missing": (428, f"A {NAME} header is required here"),
    "malformed": (400, f"The {NAME} header cannot be read"),
    "unsigned": (403, f"The {NAME} header carries no signature that is known here"),
    "expired": (403, f"The signature of the {NAME} header has expired"),
    "early": (403, f"The signature of the {NAME} header does not count yet, or for too long: compare the clocks"),
    "other-audience": (403, f"The {NAME} header was signed for another service"),
    "other-fence": (403, "The token belongs to another fence than this path"),
    "stale": (409, "The token is stale: a later leader was here"),
    "unverified": (403, "The token is higher than any seen, and nobody confirmed it"),
    "websocket": (403, "A connection that lasts cannot be fenced"),
    "unavailable": (503, "The highest token cannot be looked up now"),
    "busy": (503, "The mark is raised, but older requests are still under way"),
}
_NUMBER: Final = re.compile("0|[1-9][0-9]{0,18}")


class Headers(Protocol):
    """The headers of an answer, whoever received it: a mapping that does not care for capitals."""

    def get(self, name: str, /) -> str | None:
        """Return a header's value, or None."""
        ...


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request was not let through."""

    word: str
    detail: str = ""
    token: int | None = None
    highest: int | None = None

    @property
    def status(self) -> int:
        """The HTTP status."""
        return _WORDS[self.word][0]

    @property
    def status_line(self) -> str:
        """The status as WSGI has it."""
        return f"{self.status} {HTTPStatus(self.status).phrase}"

    @property
    def headers(self) -> list[tuple[str, str]]:
        """What the answer's headers say, but for the length of its body."""
        found = [("Content-Type", "application/problem+json"), ("Cache-Control", "no-store"), (REFUSED, self.word)]
        return found if self.highest is None else [*found, (HIGHEST, str(self.highest))]

    @property
    def body(self) -> bytes:
        """A problem as RFC 9457 has it. Tokens are texts: many readers of JSON round what is above 2⁵³."""
        _, title = _WORDS[self.word]
        page = {"type": f"urn:tenure:{self.word}", "title": title, "status": self.status, "detail": self.detail}
        numbers = {"token": self.token, "highest": self.highest}
        page |= {name: str(number) for name, number in numbers.items() if number is not None}
        return json.dumps({name: value for name, value in page.items() if value != ""}).encode()


def refusal_of(error: StaleToken | UnverifiedToken) -> Refusal:
    """Return how a service says that a mark or a sink has refused a token."""
    word = "stale" if isinstance(error, StaleToken) else "unverified"
    return Refusal(word, str(error), error.token, error.highest)


def error_in(status: int, headers: Headers, *, service: str, operation: str, token: int) -> TenureError | None:
    """Return what a service's answer means for who wrote; None if it has not refused by a fence.

    ``headers`` may be those of httpx, aiohttp or requests.
    """
    word = headers.get(REFUSED)
    if word is None:
        return None
    shown = headers.get(HIGHEST) or ""
    highest = int(shown) if _NUMBER.fullmatch(shown) else TOKEN_MAX + 1
    if word == "stale" and token < highest <= TOKEN_MAX:
        return StaleToken(token, highest)
    if word == "unverified" and highest <= TOKEN_MAX:
        return UnverifiedToken(token, highest)
    _, title = _WORDS.get(word, (status, f"it said {word[:40]}"))
    kinds = {"unavailable": Unreachable, "busy": OutcomeUnknown}
    return kinds.get(word, Refused)(service, operation, title)
