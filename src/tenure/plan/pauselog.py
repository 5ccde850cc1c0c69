"""Logs of pauses and of round trips, as programs write them: lines to durations. Pure.

Known are: one duration a line (``12ms``, ``0.4 s``, ``350us``; a bare number has the unit that is said, seconds otherwise), with or without an
instant before it; the unified log of a JVM (``-Xlog:gc``, ``-Xlog:safepoint``) and that of JDK 8; the trace of Go's collector
(``GODEBUG=gctrace=1``); and ``ping``. Empty lines and those that begin with ``#`` mean nothing. Any other line is an error: a pause that
was not understood is a pause that is not planned for.
"""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from tenure.errors import ConfigError

_UNITS_S: Final = {"": 1.0, "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}
_NUMBER: Final = r"(?P<number>[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+)"
_UNIT: Final = r"(?P<unit>ns|us|µs|μs|ms|s|m)?"
_ISO: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:]{5,8}(?:[.,][0-9]+)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
_PLAIN: Final = re.compile(rf"(?:(?P<at>{_ISO}|[0-9]{{9,11}}(?:\.[0-9]+)?)[\s,;]+)?{_NUMBER}\s*{_UNIT}")
# The patterns below are compiled when the first line is not plain, which takes longer than the rest of a plan.
# [2026-11-17T12:00:00.123+0000][info][gc] GC(12) Pause Young (Normal) (G1 Evacuation Pause) 24M->4M(256M) 3.456ms
_JVM: Final = rf"\[(?:(?P<at>{_ISO})|(?P<up>[0-9.]+)s)\]"
_JVM_PAUSE: Final = r"\bPause .*?(?P<number>[0-9.]+)(?P<unit>ms|s)$"
_JVM_SAFEPOINT: Final = r"\bSafepoint .*\bTotal: +(?P<number>[0-9]+) (?P<unit>ns)"
_JDK8: Final = rf"(?:(?P<at>{_ISO}): )?(?:(?P<up>[0-9.]+): )?(?=\[|Total time|Application time|.*\bsecs\]|Heap\b)"
_JDK8_PAUSE: Final = r"(?:(?:threads were stopped|real=?)[: ]+|, )(?P<number>[0-9.]+) (?P<unit>s)ec(?:ond)?s"
# gc 1 @0.012s 2%: 0.026+0.39+0.10 ms clock, 0.21+0.88/0.52/0+0.85 ms cpu, …: it stops the world before and after.
_GO: Final = r"gc [0-9]+ @(?P<up>[0-9.]+)s [0-9]+%: (?P<first>[0-9.]+)\+[0-9./]+\+(?P<last>[0-9.]+) ms clock"
_PING: Final = r"(?:\[(?P<at>[0-9.]+)\] )?.*icmp_seq[= ](?P<seq>[0-9]+).*\btime[=<](?P<number>[0-9.]+) ?(?P<unit>ms|s)"
_PING_LOST: Final = r"(?:\[(?P<at>[0-9.]+)\] )?(?:no answer yet for|Request timeout for|From .*Unreachable).*"
_PING_ELSE: Final = r"PING .*|--- .* statistics ---|[0-9]+ packets transmitted.*|(?:rtt|round-trip) min/.*"
_PAUSE_MAX_S: Final = 1e6
UNITS: Final = ("ns", "us", "ms", "s", "m")  # of bare numbers
_RULE: Final = "must be a duration such as 12ms or 0.4s, with or without an instant before it, or a line of a JVM's log, of Go's gctrace or of ping"


class Kind(StrEnum):
    """What the durations of a log are of."""

    PAUSES = "pauses"
    TRIPS = "round trips"


class _Read(NamedTuple):
    kind: Kind | None  # None: a plain line, which may be of either
    at_s: float | None
    durations_s: tuple[float, ...]


_RUBBISH: Final = _Read(None, None, ())


@dataclass(frozen=True, slots=True)
class Log:
    """What was read."""

    kind: Kind | None  # None: the lines were plain, and may be of either
    durations_s: list[float]  # sorted; infinite: there was no answer
    span_s: float | None  # from the first instant to the last; None: there are fewer than two


def check_unit(unit: str) -> None:
    """Refuse a unit that bare numbers cannot have."""
    if unit not in UNITS:
        raise ConfigError("--unit", unit[:40], f"must be one of {', '.join(UNITS)}")


def read(lines: Iterable[str], setting: str, unit: str = "s") -> Log:
    """Return what a log says. Raises ConfigError, which names the line, for anything that is not understood."""
    check_unit(unit)
    durations_s: list[float] = []
    instants_s: list[float] = []
    kinds: dict[Kind, int] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip().removeprefix("\ufeff")
        if not text or text.startswith("#"):
            continue
        found = _read(text, unit)
        _check(found, text, f"{setting}, line {number}")
        durations_s += found.durations_s
        if found.kind is not None:
            kinds.setdefault(found.kind, number)
        if found.at_s is not None:
            instants_s.append(found.at_s)
    if len(kinds) > 1:
        where = " and ".join(f"{kind.value} (line {number})" for kind, number in kinds.items())
        raise ConfigError(setting, where, "must be of one kind: pauses and round trips are two logs")
    if not durations_s:
        raise ConfigError(setting, "nothing", "must have at least one duration in it")
    durations_s.sort()
    span_s = max(instants_s) - min(instants_s) if instants_s else 0.0
    return Log(next(iter(kinds), None), durations_s, span_s or None)


def _check(found: _Read, text: str, where: str) -> None:
    if found is _RUBBISH:
        raise ConfigError(where, text[:60], _RULE)
    for duration_s in found.durations_s:
        if not 0 <= duration_s <= _PAUSE_MAX_S and duration_s != math.inf:  # which "not a number" does not pass either
            raise ConfigError(where, text[:60], f"must be from 0 to {_PAUSE_MAX_S:g} s")


def _read(text: str, unit: str) -> _Read:
    return _plain(text, unit) or _of_go(text) or _of_ping(text) or _of_jvm(text) or _RUBBISH


def _plain(text: str, unit: str) -> _Read | None:
    found = _PLAIN.fullmatch(text)
    if found is None:
        return None
    duration_s = float(found["number"]) * _UNITS_S[found["unit"] or unit]
    # What never comes is said by programs, not by numbers: one with four hundred digits is rubbish.
    return _Read(None, _instant(found["at"]), (math.nan if duration_s == math.inf else duration_s,))


def _of_go(text: str) -> _Read | None:
    found = re.match(_GO, text)
    if found is None:
        return None
    return _Read(Kind.PAUSES, _float(found["up"]), tuple(_numbers(found["first"], found["last"], unit_s=1e-3)))


def _of_ping(text: str) -> _Read | None:
    if found := re.fullmatch(_PING, text):
        trips = tuple(_numbers(found["number"], unit_s=_UNITS_S[found["unit"]]))
        return _Read(Kind.TRIPS, _instant(found["at"]), trips)
    if found := re.fullmatch(_PING_LOST, text):
        return _Read(Kind.TRIPS, _instant(found["at"]), (math.inf,))
    return _Read(Kind.TRIPS, None, ()) if re.fullmatch(_PING_ELSE, text) else None


def _of_jvm(text: str) -> _Read | None:
    """A line of a JVM's log. Most are not about pauses: what runs concurrently, sizes of heaps, what was collected."""
    head = re.match(_JVM, text)
    if head is not None:
        pause = re.search(_JVM_PAUSE, text) or re.search(_JVM_SAFEPOINT, text)
    else:
        head = re.match(_JDK8, text)
        pause = None if head is None else re.search(_JDK8_PAUSE, text)
    if head is None:
        return None
    at_s = _instant(head["at"]) if head["at"] else _float(head["up"])
    durations = () if pause is None else tuple(_numbers(pause["number"], unit_s=_UNITS_S[pause["unit"]]))
    return _Read(Kind.PAUSES, at_s, durations)


def _numbers(*texts: str, unit_s: float) -> Iterator[float]:
    for text in texts:
        number = _float(text)
        yield math.nan if number is None else number * unit_s


def _float(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None  # More than one point in it.


def _instant(text: str | None) -> float | None:
    if text is None:
        return None
    if "-" not in text:
        return _float(text)
    try:
        return datetime.fromisoformat(text.replace(",", ".")).timestamp()
    except ValueError:
        return None
