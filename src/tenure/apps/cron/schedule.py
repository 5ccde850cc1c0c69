"""When a job is due: a cron expression in a time zone, an interval, or one moment. Milliseconds of UTC since 1970.

Rules of this file
1. A schedule is a set of times, which does not depend on from where one counts: every leader finds the same.
2. An expression with a fixed minute and hour runs once a day, whatever clocks do. A time that comes twice, when they are put back, is the
   first one; a time that never comes, when they are put forward, is the first moment after the gap. This is what Debian's cron does.
3. An expression whose minute or hour begins with ``*``, or that has seconds, goes by time that passes: it runs in both of the hours that
   have one name, and in none that is left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tenure.errors import ConfigError
from tenure.sinks.sql.extras import needed

EVERY_MS_MIN: Final = 10
EVERY_MS_MAX: Final = 366 * 86_400_000
AT_MS_MAX: Final = 253_402_300_799_999  # the last of the year 9999
_EXPRESSION_LETTERS_MAX: Final = 200
_SECONDS_FIELDS: Final = 6
# By the names that cronsim has for them.
_FIELDS: Final = {
    "second": "0-59",
    "minute": "0-59",
    "hour": "0-23",
    "day-of-month": "1-31, L (the last), LW (the last weekday)",
    "month": "1-12, JAN-DEC",
    "day-of-week": "0-7, SUN-SAT, 5L (the last Friday), 5#2 (the second)",
}


class Schedule(Protocol):
    """A set of times."""

    @property
    def text(self) -> str:
        """The schedule as people read it. Two that have one text have the same times."""
        ...

    def after(self, mark_ms: int) -> Iterator[int]:
        """Yield the times later than ``mark_ms``, each later than the one before. There may be no end to them."""
        ...


@dataclass(frozen=True, slots=True)
class Every:
    """At every multiple of an interval, counted from 1970: ``5m`` is at :00, :05 and so on, whenever a leader began."""

    every_ms: int

    def __post_init__(self) -> None:
        if not EVERY_MS_MIN <= self.every_ms <= EVERY_MS_MAX:
            raise ConfigError("every", f"{self.every_ms} ms", f"must be from {EVERY_MS_MIN} ms to 366 days")

    @property
    def text(self) -> str:
        """See ``Schedule``."""
        seconds, ms = divmod(self.every_ms, 1000)
        return f"every {seconds}s" if not ms else f"every {self.every_ms}ms"

    def after(self, mark_ms: int) -> Iterator[int]:
        """See ``Schedule``."""
        at_ms = (mark_ms // self.every_ms + 1) * self.every_ms
        while True:
            yield at_ms
            at_ms += self.every_ms


@dataclass(frozen=True, slots=True)
class At:
    """Once."""

    at_ms: int

    def __post_init__(self) -> None:
        if not 0 <= self.at_ms <= AT_MS_MAX:
            raise ConfigError("at", f"{self.at_ms} ms", "must be from 1970 to 9999, in UTC")

    @property
    def text(self) -> str:
        """See ``Schedule``."""
        return f"at {iso(self.at_ms)}"

    def after(self, mark_ms: int) -> Iterator[int]:
        """See ``Schedule``."""
        if self.at_ms > mark_ms:
            yield self.at_ms


@dataclass(frozen=True, slots=True)
class Expression:
    """A cron expression: minute, hour, day of the month, month, day of the week; with six fields, seconds come first.

    Needs the extra ``cron``. Raises ConfigError for what is no expression, and for one that never comes.
    """

    expression: str
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        zone_of(self.timezone)
        _check(self.expression)
        if next(self.after(0), None) is None:
            raise ConfigError("cron", self.expression, "must come one day: there is no such day in 50 years")

    @property
    def text(self) -> str:
        """See ``Schedule``."""
        return f"{' '.join(self.expression.split())} {self.timezone}"

    def after(self, mark_ms: int) -> Iterator[int]:
        """See ``Schedule``."""
        from cronsim import CronSim  # noqa: PLC0415  (an extra, which was looked for when this was made)

        last_ms = mark_ms
        for moment in CronSim(self.expression, datetime.fromtimestamp(mark_ms // 1000, zone_of(self.timezone))):
            at_ms = round(moment.timestamp()) * 1000
            # cronsim knows only the name of an hour. In the second of two it would tell of the first, which has passed; and two
            # times that both fall into a gap come at once after it.
            if at_ms > last_ms:
                yield at_ms
                last_ms = at_ms


@lru_cache(64)
def zone_of(name: str) -> ZoneInfo:
    """Return a time zone by its name. Raises ConfigError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError: a folder of names, or a name that is too long
        rule = "must be a time zone that this machine knows, such as Europe/Berlin or UTC"
        raise ConfigError("timezone", name[:60], rule) from None


def iso(at_ms: int) -> str:
    """Return a time as people and programs read it: 2026-12-01T03:00:00Z, with milliseconds if it has some."""
    moment = datetime.fromtimestamp(at_ms // 1000, UTC).replace(microsecond=at_ms % 1000 * 1000, tzinfo=None)
    return f"{moment.isoformat(timespec='milliseconds' if at_ms % 1000 else 'seconds')}Z"


def _check(expression: str) -> None:
    with needed("cronsim", "tenure[cron]"):
        from cronsim import CronSim, CronSimError  # noqa: PLC0415  (an extra)
    fields = expression.split()
    if len(fields) not in (_SECONDS_FIELDS - 1, _SECONDS_FIELDS) or len(expression) > _EXPRESSION_LETTERS_MAX:
        rule = f"must have five fields (minute hour day month weekday) or six (second first), and has {len(fields)}"
        raise ConfigError("cron", expression[:60], rule)
    try:
        CronSim(expression, datetime.fromtimestamp(0, UTC))
    except CronSimError as error:
        # It says "Bad minute".
        name = str(error).rpartition(" ")[2]
        if name == "day-of-month" and _is_expression(" ".join([*fields[:-2], "*", fields[-1]])):
            raise ConfigError("cron", expression, "never comes: none of its months has such a day") from None
        place = list(_FIELDS).index(name) + len(fields) - _SECONDS_FIELDS if name in _FIELDS else 0
        rule = f"{name} {fields[place]!r} (field {place + 1}) must be made of {_FIELDS.get(name, '')}, *, lists 1,2, ranges 1-5 and steps */5"
        raise ConfigError("cron", expression, rule) from None


def _is_expression(expression: str) -> bool:
    from cronsim import CronSim, CronSimError  # noqa: PLC0415  (an extra, which was looked for by who asks)

    try:
        CronSim(expression, datetime.fromtimestamp(0, UTC))
    except CronSimError:
        return False
    return True
