"""The words of stories: how ``testing/script`` writes and reads times, numbers and effects.

Writing then reading is the identity for every time and number. Nothing here knows lines, files or candidates.
"""

import re
from decimal import Decimal

from tenure.core.candidate import Candidate
from tenure.core.effects import (
    Claim,
    Effect,
    Publish,
    Release,
    Renew,
    Seal,
    StartBody,
    StopBody,
    Watch,
)
from tenure.errors import ConfigError
from tenure.facts.kinds import Elected, Left, Overstayed
from tenure.model import token

_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
_TIME = re.compile(r"(?P<number>[0-9]{1,10}(?:\.[0-9]{1,9})?)(?P<unit>ns|us|ms|s)|0")
_SHARE = re.compile(r"0|0?\.[0-9]{1,17}")
_COUNT = re.compile(r"[0-9]{1,19}")


def require(holds: bool, name: str, value: object, rule: str) -> None:
    """Raise ConfigError of these fields unless ``holds``."""
    if not holds:
        raise ConfigError(name, value, rule)


def read_time(name: str, word: str) -> int:
    """Return ``40ms``, ``2.5s`` or ``0`` as nanoseconds."""
    found = _TIME.fullmatch(word)
    if found is None:
        raise ConfigError(name, word or "nothing", "must be a time with its unit, such as 40ms, 2.5s or 0")
    ns = Decimal(found["number"] or 0) * _UNITS[found["unit"] or "ns"]
    require(ns == int(ns) and ns < 2**63, name, word, "must be whole nanoseconds, and less than 292 years")
    return int(ns)


def read_share(name: str, word: str) -> float:
    """Return a number from 0 up to but not including 1."""
    require(_SHARE.fullmatch(word) is not None, name, word or "nothing", "must be a number of at least 0 and below 1")
    return float(word)


def read_count(name: str, word: str) -> int:
    """Return a whole number from 1 on."""
    holds = _COUNT.fullmatch(word) is not None and int(word) > 0
    require(holds, name, word or "nothing", "must be a whole number from 1 on")
    return int(word)


def read_token(name: str, word: str) -> int:
    """Return a number that a token may be."""
    return token(read_count(name, word))


def read_outcome(name: str, word: str) -> int:
    """Return 1 for ``definite`` and 0 for ``unknown``."""
    require(word in {"definite", "unknown"}, name, word, "must be definite or unknown")
    return word == "definite"


def write_time(ns: int) -> str:
    """Return ``ns`` in the largest unit of which it is at least one."""
    unit = next((unit for unit in ("s", "ms", "us") if ns >= _UNITS[unit]), "ns")
    return f"{(Decimal(ns) / _UNITS[unit]).normalize():f}{unit}" if ns else "0"


def write_standing(candidate: Candidate) -> str:
    """Return where a candidate stands, until when its office may be believed in, and its timer."""
    until = "" if candidate.valid_until is None else f" until={write_time(candidate.valid_until)}"
    wake = "" if candidate.wake_at is None else f" wake={write_time(candidate.wake_at)}"
    return f"[{candidate.state}{until}{wake}]"


def write_effect(effect: Effect) -> str:  # noqa: PLR0911  (one line per effect)
    """Return an effect as a story writes it."""
    match effect:
        case Claim(attempt, bid):
            return f"claim {attempt} bid={bid.serial}"
        case Renew(attempt, grant):
            return f"renew {attempt} bid={grant.bid.serial} token={grant.token}"
        case Watch(attempt, wait):
            behind = f" behind={wait.incumbent.token}" if wait.incumbent else ""
            return f"watch {attempt} bid={wait.bid.serial}{behind}"
        case Seal(attempt, number):
            return f"seal {attempt} token={number}"
        case StartBody(number):
            return f"start-body {number}"
        case StopBody(number, reason):
            return f"stop-body {number} {reason}"
        case Release(bid):
            return f"release bid={bid.serial}"
        case Publish(what):
            return f"publish {_write_fact(what)}"


def _write_fact(what: Elected | Overstayed | Left) -> str:
    match what:
        case Elected(number, valid_until):
            return f"elected {number} until={write_time(valid_until)}"
        case Overstayed(number, late_by_ns):
            return f"overstayed {number} late={write_time(late_by_ns)}"
        case Left(number, reason):
            return f"left {number} {reason}"
