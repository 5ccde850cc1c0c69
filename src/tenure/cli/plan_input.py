"""What people give to ``tenure plan``: rates, round trips between regions, and logs of pauses."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TextIO

from tenure.apps.durations import duration_s
from tenure.errors import ConfigError
from tenure.plan.delays import SeenPauses, SeenRoundTrips
from tenure.plan.profiles import DEFAULT, Profile, profile_of
from tenure.plan.whole import Disturbed
from tenure.plan.words import seconds_in_words

if TYPE_CHECKING:
    from tenure.plan.pauselog import Log

_DAY_S: Final = 86_400.0
_RATE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*/\s*(.+)")
_PER_S: Final = {
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "m": 60.0,
    "min": 60.0,
    "minute": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
}
_PERIODS_S: Final = _PER_S | {
    "d": _DAY_S,
    "day": _DAY_S,
    "week": 7 * _DAY_S,
    "month": 30 * _DAY_S,
    "year": 365.25 * _DAY_S,
}
_FILE_BYTES_MAX: Final = 256 * 1024 * 1024
_LINE_MAX: Final = 100_000  # characters: no program writes longer ones, and what has no ends of lines is no log


class Collected(NamedTuple):
    """A log of pauses or of outages, by which option it was given, and over what time it was collected."""

    setting: str
    file: Path | None
    over_s: float | None  # None: as its instants say


def target_of(text: str) -> float:
    """Return how many false failovers a day are wanted at most: 1/30d, 2/week."""
    found = _RATE.fullmatch(text.strip())
    rule = "must be a number and a time, such as 1/30d, 2/week or 1/year"
    if found is None:
        raise ConfigError("--target", text[:40], rule)
    count, period = float(found[1]), found[2].strip()
    try:
        period_s = _PERIODS_S.get(period) or duration_s("--target", period)
    except ConfigError:
        raise ConfigError("--target", text[:40], rule) from None
    if not count > 0 or not period_s > 0:
        raise ConfigError("--target", text[:40], "must be more than 0: no timeout makes them impossible")
    return count / period_s * _DAY_S


def ops_of(text: str) -> float:
    """Return how many operations a second there are: 5000/s, 30/min, 5000."""
    found = _RATE.fullmatch(text.strip())
    try:
        return float(text) if found is None else float(found[1]) / _PER_S[found[2].strip()]
    except (ValueError, KeyError):
        raise ConfigError("--ops", text[:40], "must be a rate such as 5000/s, 300/min or 10/h") from None


def cost_of(text: str) -> float:
    """Return what one operation takes: 400us, 1.5ms. Most are too short for the durations that other options have."""
    number, is_short, _ = text.strip().partition("us")
    try:
        return float(number) * 1e-6 if is_short and text.strip().endswith("us") else duration_s("--op-cost", text)
    except ValueError:
        raise ConfigError("--op-cost", text[:40], "must be a duration such as 400us, 1.5ms or 0.2s") from None


def pair_of(text: str) -> tuple[str, str, float]:
    """Return two regions and the round trip between them: eu-us=80ms, or us-east-1:eu-west-1=80ms."""
    names, is_said, trip = text.partition("=")
    parts = [part.strip() for part in (names.split(":") if ":" in names else names.split("-"))]
    if not is_said or len(parts) != 2 or not all(parts):  # noqa: PLR2004  (two regions)
        rule = "must be two regions and a round trip: eu-us=80ms, or us-east-1:eu-west-1=80ms where names have hyphens"
        raise ConfigError("--rtt", text[:60], rule)
    trip_s = duration_s("--rtt", trip)
    if not trip_s > 0:
        raise ConfigError("--rtt", text[:60], "must be more than 0")
    return parts[0], parts[1], trip_s


def disturbed_by(
    *, profile: str | None, pauses: Collected, outages: Collected, rtts: Path | None, unit: str
) -> Disturbed:
    """Return what disturbs a leader: by logs, and by a profile for what there is no log of."""
    place = profile_of(DEFAULT if profile is None else profile)
    if unit != "s":
        from tenure.plan.pauselog import check_unit  # noqa: PLC0415  (only a log pays for it)

        check_unit(unit)
    for log in (pauses, outages):
        if log.file is None and log.over_s is not None:
            rule = f"says over what time {log.setting} were collected: give both"
            raise ConfigError(f"{log.setting}-over", f"{log.over_s:g} s", rule)
    if pauses.file is None and outages.file is None and rtts is None:
        return Disturbed.by_profile(place.name)
    seen: SeenPauses | None = None
    if pauses.file is not None:
        read = _read(pauses.file, pauses.setting, unit)
        if read.kind is not None and read.kind.value == "round trips":
            if rtts is not None:
                raise ConfigError(pauses.setting, pauses.file, "is a log of round trips, as --rtts is")
            rtts = pauses.file
        else:
            seen = _seen(read, pauses)
    cut = None if outages.file is None else _seen(_read(outages.file, outages.setting, unit), outages)
    trips = None if rtts is None else SeenRoundTrips(_read(rtts, "--rtts", unit).durations_s)
    return Disturbed(
        place if seen is None else seen,
        place.trips if trips is None else trips,
        "; ".join(_told(place, seen, cut, trips)),
        is_assumed=False,
        outages=cut,
        rarest_per_day=max((one.rarest_per_day for one in (seen, cut) if one is not None), default=None),
    )


def _told(
    place: Profile, pauses: SeenPauses | None, outages: SeenPauses | None, trips: SeenRoundTrips | None
) -> Iterator[str]:
    for what, seen in (("pauses", pauses), ("outages", outages)):
        if seen is not None:
            longest = seconds_in_words(seen.pauses_s[-1])
            yield f"{len(seen.pauses_s)} {what} in {seconds_in_words(seen.over_s)}, the longest {longest}"
    if trips is not None:
        yield f"{len(trips.trips_s)} round trips, every second within {seconds_in_words(trips.typical_s)}"
    if pauses is None:
        yield f"pauses by profile {place.name}"
    if trips is None:
        yield f"round trips by profile {place.name}"


def _seen(log: "Log", collected: Collected) -> SeenPauses:
    span_s = log.span_s if collected.over_s is None else collected.over_s
    if log.kind is not None and log.kind.value == "round trips":
        raise ConfigError(collected.setting, collected.file, "is a log of round trips: give it by --rtts")
    if span_s is None:
        rule = f"has no instants in it: say over what time it was collected, e.g. {collected.setting}-over 24h"
        raise ConfigError(collected.setting, collected.file, rule)
    return SeenPauses(log.durations_s, span_s, collected.setting)


def _read(file: Path, setting: str, unit: str) -> "Log":
    from tenure.plan.pauselog import read  # noqa: PLC0415  (only a log pays for it)

    try:
        if str(file) == "-":
            return read(_lines(sys.stdin, setting, file), setting, unit)
        with file.open(encoding="utf-8") as opened:
            if file.is_file() and file.stat().st_size > _FILE_BYTES_MAX:
                raise ConfigError(setting, file, f"must have at most {_FILE_BYTES_MAX // 2**20} MiB")
            return read(_lines(opened, setting, file), setting, unit)
    except UnicodeDecodeError as error:
        raise ConfigError(setting, file, f"is no text: {error.reason} at byte {error.start}") from None
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL in it.
        raise ConfigError(setting, file, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _lines(opened: TextIO, setting: str, file: Path) -> Iterator[str]:
    """Yield the lines of a file, of a pipe or of a device. The last two have no size to look at, and need not end."""
    size = 0
    while line := opened.readline(_LINE_MAX + 1):
        size += len(line)
        if len(line) > _LINE_MAX:
            raise ConfigError(setting, file, f"must be a log: it has a line of more than {_LINE_MAX} characters")
        if size > _FILE_BYTES_MAX:
            raise ConfigError(setting, file, f"must have at most {_FILE_BYTES_MAX // 2**20} MiB")
        yield line
