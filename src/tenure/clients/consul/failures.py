"""Which of three outcomes an answer of Consul is, and one line that says what to do about it.

| status | Consul's text | outcome, and why |
|---|---|---|
| 400, 404, 405, 413 | whatever is wrong with the request | Refused: looked at before anything is done |
| 401, 403 | Permission denied, ACL not found | ``NotAllowed``: likewise |
| 409 | of a transaction: which operation failed | ``Conflict``: all or nothing, so nothing |
| 429, and 503 with "rate limit" | rate limit reached, too many connections | Unreachable: turned away at the door |
| 500 | No cluster leader, No known Consul servers, not the leader, No path to datacenter | Unreachable: nobody had it to write down |
| 500 | Missing node registration, with no ``dc=`` | Unreachable: the agent is leaving the cluster, or has just come |
| 500 | the same with ``dc=``, cross datacenter lock | ``NoSessionThere``: looked at before anything is done |
| 500 | Invalid Session TTL | ``TtlRefused``: likewise |
| any other | leadership lost, EOF, a proxy that gave up | OutcomeUnknown: it may have been written down |
"""

import re
from collections.abc import Mapping
from typing import Final

from tenure.clients.http import Answer
from tenure.errors import OutcomeUnknown, Refused, StoreError, TenureError, Unreachable

OK, NOT_FOUND, CONFLICT = 200, 404, 409
_UNWELCOME: Final = (401, 403)
_TOO_MANY: Final = (429, 503)
_TO_BLAME: Final = range(400, 500)
NO_LEADER: Final = "more than half of the servers must run and reach each other: see their logs"
_NOBODY: Final = ("No cluster leader", "No known Consul servers", "not the leader")
_NO_PATH: Final = "No path to datacenter"
_NO_NODE: Final = "Missing node registration"
_ABROAD: Final = "cross datacenter lock must be created at server agent"
_DENIED: Final = ("Permission denied", "ACL not found")
_LIMITS: Final = re.compile(r"Invalid Session TTL '\d+', must be between \[(?P<least>[^=\]]+)=")
_ADVICE: Final = (
    ("ACL not found", "the server does not know our token: it was deleted or is mistyped"),
    ("token does not exist", "the server does not know our token: it was deleted or is mistyped"),
    ("anonymous", "give a token, by CONSUL_HTTP_TOKEN, token_file= or the URL"),
    ("Permission denied", "have the token's policy grant it"),
    ("HTTP request to an HTTPS server", "that port speaks TLS: use consuls://"),
    ("Enterprise", "leave ns= and partition= out of the URL"),
    (_NO_PATH, "the servers know of no such datacentre: check dc="),
    (_NO_NODE, "the agent is leaving the cluster, or has just come and is not known yet"),
    ("too large", "the engine takes less as one request"),
)
_NO_SESSION: Final = "the agent's node is not in that datacentre, or is leaving it, so it can have no session there: name agents of that datacentre in the URL"
_RIGHT: Final = re.compile(r"'(\w+):(\w+)'")
_GO_UNITS_NS: Final = {"h": 3600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "µs": 10**3, "ns": 1}
_GO_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s|us|µs|ns)")


class Conflict(TenureError):
    """The engine has refused a transaction and changed nothing. ``errors`` says why, by the number of the operation."""

    def __init__(self, errors: Mapping[int, str]) -> None:
        self.errors = errors
        super().__init__(errors)

    def says(self, words: str) -> bool:
        """Say whether any operation was refused with these words."""
        return any(words in what for what in self.errors.values())


class NotAllowed(Refused):
    """Definite: our token has no right to it, or is none."""


class TtlRefused(Refused):
    """Definite: the engine gives no session of that length. ``least_ns`` is what it gives."""

    def __init__(self, store: str, operation: str, detail: str = "", least_ns: int = 0) -> None:
        super().__init__(store, operation, detail)
        self.least_ns = least_ns


class NoSessionThere(Refused):
    """Definite: by ``dc=`` one can look at another datacentre, and write there, but have no session in it."""


def wants_fresh_token(answer: Answer) -> bool:
    """Say whether the request was turned away for who we are: another token may be in the file by now.

    A transaction says so with the status of a conflict.
    """
    return answer.status in _UNWELCOME or (answer.status == CONFLICT and any(words in answer.text for words in _DENIED))


def failure(answer: Answer, address: str, operation: str, *, abroad: bool = False) -> StoreError:
    """Return the error for an answer that is none of those that were asked for; ``abroad``: it was asked with ``dc=``."""
    text = _plain(answer.text.removeprefix("rpc error making call: "))
    if text.startswith("<"):
        text = f"it answered {answer.status} with a web page: is that a Consul?"
    limits = _LIMITS.search(text)
    if limits is not None:
        rule = (
            f"Consul gives no session shorter than {limits['least']}: use a longer ttl, or lower session_ttl_min there"
        )
        return TtlRefused(address, operation, rule, span_ns(limits["least"]))
    if _ABROAD in text or (abroad and _NO_NODE in text):
        return NoSessionThere(address, operation, f"{text}; {_NO_SESSION}")
    if any(words in text for words in _NOBODY):
        return Unreachable(address, operation, f"Consul has no leader: {NO_LEADER}")
    if answer.status in _TOO_MANY and (answer.status == _TOO_MANY[0] or "rate limit" in text):
        rule = "it takes no more from here now: see limits in its settings, of which http_max_conns_per_client is 200"
        return Unreachable(address, operation, f"{text or answer.status} ({rule})")
    return _kind(answer.status, text)(address, operation, f"{text or f'status {answer.status}'}{advice_on(text)}")


def _plain(text: str) -> str:
    """Say 'key:write' as "key write": what stands behind "session:" would be taken for a secret, and hidden."""
    return _RIGHT.sub(r"\1 \2", text)


def _kind(status: int, text: str) -> type[StoreError]:
    if _NO_PATH in text or _NO_NODE in text:
        return Unreachable
    if status in _UNWELCOME:
        return NotAllowed
    return Refused if status in _TO_BLAME else OutcomeUnknown


def refusal(conflict: Conflict, address: str, operation: str) -> NotAllowed | None:
    """Return the error for a transaction that we may not carry out; None: it is refused for what it found."""
    for what in conflict.errors.values():
        if any(words in what for words in _DENIED):
            return NotAllowed(address, operation, f"{_plain(what)}{advice_on(what)}")
    return None


def advice_on(text: str) -> str:
    """Return what to do about it, as the end of a sentence."""
    return next((f"; {advice}" for words, advice in _ADVICE if words in text), "")


def span_ns(text: str) -> int:
    """Return a duration as Go writes it, such as ``1m30s``."""
    return sum(int(float(number) * _GO_UNITS_NS[unit]) for number, unit in _GO_DURATION.findall(text))
