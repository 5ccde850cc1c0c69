"""Rates and durations as a plan says them. Pure."""

from typing import Final

_YEAR_D: Final = 365.25
# Once in nearly three thousand years. Whoever reads more out of a tail that was fitted to a day deceives themselves.
RAREST_PER_DAY: Final = 1e-6
_HOUR_PER_DAY: Final = 24.0


def rate_in_words(per_day: float) -> str:
    """Return how often something happens: 3.2 a day, 1 in 12 d, 1 in 3.4 y."""
    if per_day <= 0:
        return "never"
    if per_day >= _HOUR_PER_DAY:
        return f"{_two(per_day / _HOUR_PER_DAY)} an hour"
    if per_day >= 1:
        return f"{_two(per_day)} a day"
    days = 1 / per_day
    if days < 2 * _YEAR_D:
        return f"1 in {_two(days)} d"
    if per_day < RAREST_PER_DAY * 0.99:
        return f"under 1 in {_two(1 / RAREST_PER_DAY / _YEAR_D)} y"
    return f"1 in {_two(days / _YEAR_D)} y"


def seconds_in_words(s: float) -> str:
    """Return a duration: 340 us, 12 ms, 2.5 s, 3 h, 12 d."""
    for unit_s, unit in ((172_800.0, "d"), (7200.0, "h"), (120.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if s >= unit_s * 0.9995 or unit == "us":
            size = {"d": 86_400.0, "h": 3600.0, "min": 60.0}.get(unit, unit_s)
            return f"{s / size:.3g} {unit}"
    return f"{s:g} s"


def _two(number: float) -> str:
    """Two digits, but never 1e+03."""
    return f"{number:.0f}" if number >= 9.95 else f"{number:.2g}"  # noqa: PLR2004  (rounded, the first of two digits)
