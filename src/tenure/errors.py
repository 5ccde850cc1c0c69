"""Every error that tenure raises, as one tree of classes with fields.

Rules of this file
1. An error carries fields; its text is made from them and is one line.
2. A secret cannot be printed: everything that goes in passes ``redact``, so ``str``, ``repr``, ``args`` and a
   pickled copy of an error hold no password, whatever the caller put into the URL.
3. "Not my turn" is not an error, and cancellation is never wrapped.

Imports nothing of tenure.
"""

import re
from enum import StrEnum

_HIDDEN = "***"
_TEXT_MAX = 2000  # An engine's error may carry a whole page; and no pattern below takes long on this much.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\s]+")
# A password may hold "/", ":", "?", "@" and, though no URL may, a space: it goes on to the last "@" that may end it. A
# colon with a port behind it starts no password.
_SCHEME = r"(?P<before>(?<![\w+.-])(?:[A-Za-z][A-Za-z0-9+.-]{0,20}:)?//"
_PASSWORD = re.compile(_SCHEME + r"[^\s/?#:@]{0,200}:)(?!\d+(?:[/\s,?#]|$))(?:\S*|[^@]*)@")
_USERINFO = re.compile(_SCHEME + r")(?![^\s/?#:@]{0,200}:\*\*\*@)\S*@")
_BARE_USERINFO = re.compile(
    r"(?P<before>(?<![\w.-])[\w.-]{1,64}:)[^\s@/]+@(?=[\w\[(])"
)  # user:password@host, as MySQL has it
_KEY = (
    r"(?:password|passwd|pwd|passphrase|pass|secret|token|api[_-]?key|access[_-]?key|account[_-]?key|private[_-]?key"
    r"|credentials?|auth|bearer|jwt|cookie|session|signature|sig)"
)
_QUOTED = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
_HEADER = re.compile(
    r"(?P<before>\b(?:proxy-)?(?:authorization|cookie|set-cookie)[\"']?\s*[:=]\s*)(?P<value>.+)", re.IGNORECASE
)
_PAIR = re.compile(
    rf"(?P<before>(?<![\w.-])[\w.-]{{0,40}}{_KEY}[\w.-]{{0,40}}[\"']?\s*[=:]\s*)(?:b?(?:{_QUOTED})|\{{[^}}]*\}}|[^\s&]+)",
    re.IGNORECASE,
)
_WORD = re.compile(
    rf"(?P<before>--[\w-]{{0,20}}{_KEY}\s+|\b(?:bearer|basic|negotiate|AUTH|IDENTIFIED BY)\s+)(?:{_QUOTED}|\S{{6,}})",
    re.IGNORECASE,
)
_JWT = re.compile(r"(?P<before>)\beyJ[\w-]{5,}\.[\w-]+(?:\.[\w-]*)?")
_PATTERNS = (_PASSWORD, _USERINFO, _BARE_USERINFO, _HEADER, _PAIR, _WORD, _JWT)


def redact(text: str) -> str:
    """Return ``text`` in one line of bounded length, with whatever looks like a secret replaced by ``***``.

    Hides passwords in URLs (and a name without one: some engines take a token there), values of keys such as
    ``password`` or ``token``, authorisation headers and JSON web tokens. It hides too much rather than too little, and
    does not promise to know a secret that carries no such mark.
    """
    if len(text) > _TEXT_MAX:
        text = text[:_TEXT_MAX] + "…"
    text = _CONTROL.sub(" ", text).strip()
    for pattern in _PATTERNS:
        hidden = f"\\g<before>{_HIDDEN}" + ("@" if pattern in (_PASSWORD, _USERINFO, _BARE_USERINFO) else "")
        text = pattern.sub(hidden, text)
    return text


class Reason(StrEnum):
    """Why a tenure ended."""

    LAPSED = "lapsed"  # by the clock: no renewal came in time, and no failure was heard of either
    DEPOSED = "deposed"  # by the store's word, or by a sink that has seen a larger token
    RESIGNED = "resigned"  # by choice, or because the body had finished
    STORE_GONE = "store-gone"  # by the clock, after renewals had failed
    STALLED = "stalled"  # the body declared a progress deadline and missed it


class TenureError(Exception):
    """The root: ``except TenureError`` catches whatever tenure raises."""


class ConfigError(TenureError):
    """A setting that cannot work. ``setting`` names it, ``value`` is what was given, ``rule`` says what must hold."""

    def __init__(self, setting: str, value: object, rule: str) -> None:
        self.setting, self.value, self.rule = redact(setting), redact(str(value)), redact(rule)
        super().__init__(self.setting, self.value, self.rule)

    def __str__(self) -> str:
        return f"{self.setting} = {self.value}: {self.rule}"


class ClockError(TenureError):
    """The clock showed less than it had shown before, so no lease can be judged by it any more."""

    def __init__(self, shown_ns: int, before_ns: int) -> None:
        self.shown_ns, self.before_ns = shown_ns, before_ns
        super().__init__(shown_ns, before_ns)

    def __str__(self) -> str:
        return f"the clock went back from {self.before_ns} ns to {self.shown_ns} ns"


class StoreError(TenureError):
    """A store could not do what it was asked. Raised only as one of its subclasses."""

    what = "failed"

    def __init__(self, store: str, operation: str, detail: str = "") -> None:
        self.store, self.operation, self.detail = redact(store), redact(operation), redact(detail)
        super().__init__(self.store, self.operation, self.detail)

    def __str__(self) -> str:
        return f"{self.store}: {self.operation} {self.what}" + (f": {self.detail}" if self.detail else "")


class Unreachable(StoreError):
    """Definite: the request never left, so nothing has changed."""

    what = "was not sent"


class Refused(StoreError):
    """Definite: the engine said no (rights, quota, a bad request), so nothing has changed."""

    what = "was refused"


class OutcomeUnknown(StoreError):
    """The request left and no answer came: it may have been carried out, or may still be."""

    what = "has no known outcome"


class Contended(StoreError):
    """Definite: others wrote first, every time within the limit, so nothing was written."""

    what = "gave way to others"


class TenureOver(TenureError):
    """The tenure has ended and will not be resumed."""

    def __init__(self, token: int, reason: Reason) -> None:
        self.token, self.reason = token, reason
        super().__init__(token, reason)

    def __str__(self) -> str:
        return f"tenure {self.token} is over: {self.reason.value}"


class StaleToken(TenureError):
    """A sink refused a write because it has seen a larger token. Nothing was written."""

    def __init__(self, token: int, highest: int) -> None:
        self.token, self.highest = token, highest
        super().__init__(token, highest)

    def __str__(self) -> str:
        return f"token {self.token} is stale: the highest seen is {self.highest}"


class UnverifiedToken(TenureError):
    """A sink refused a token higher than any it has seen, because nobody confirmed it. Nothing was written."""

    def __init__(self, token: int, highest: int) -> None:
        self.token, self.highest = token, highest
        super().__init__(token, highest)

    def __str__(self) -> str:
        return f"token {self.token} is not verified: the highest seen is {self.highest}"


class Overstay(TenureError):
    """A body was still running when its tenure's validity had ended."""

    def __init__(self, token: int, late_by_ns: int) -> None:
        self.token, self.late_by_ns = token, late_by_ns
        super().__init__(token, late_by_ns)

    def __str__(self) -> str:
        return f"the body of tenure {self.token} ran on {self.late_by_ns / 1e9:.3f} s after its validity had ended"
