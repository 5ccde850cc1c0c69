"""On which terms a member takes part in a set of shards: its settings, checked."""

from dataclasses import dataclass

from tenure.apps.shards.roster import COUNT_MAX, WEIGHT_MAX
from tenure.errors import ConfigError
from tenure.office.desk import check_name
from tenure.timing import Seconds, to_ns


@dataclass(frozen=True, slots=True)
class Terms:
    """Made by ``Terms.of``, which refuses what cannot be."""

    count: int
    member: str | None
    weight: int
    max_shards: int | None
    drain_s: float
    return_within_s: float

    @classmethod
    def of(  # noqa: PLR0913  (each has a default but the first two)
        cls,
        name: str,
        count: int,
        *,
        member: str | None = None,
        weight: int = 1,
        max_shards: int | None = None,
        drain: Seconds = 0,
        return_within: Seconds = 0,
    ) -> "Terms":
        """Return the terms of a member of the set called ``name``. Raises ConfigError."""
        if member is not None and "/" in member:
            raise ConfigError("member", repr(member), "must be a name without a slash")
        check_name(name)
        check_name(seat_name(name, str(COUNT_MAX) if member is None else member))  # the longest that there will be
        return cls(
            _whole("shards", count, 1, COUNT_MAX),
            member,
            _whole("weight", weight, 0, WEIGHT_MAX),
            None if max_shards is None else _whole("max_shards", max_shards, 0, COUNT_MAX),
            _seconds("drain", drain),
            _seconds("return_within", return_within),
        )


def seat_name(name: str, member: str) -> str:
    """Return what the election of a member's seat is called."""
    return f"{name}/members/{member}"


def _whole(setting: str, number: object, least: int, most: int) -> int:
    if type(number) is not int or not least <= number <= most:
        raise ConfigError(setting, repr(number), f"must be a whole number from {least} to {most}")
    return number


def _seconds(setting: str, duration: Seconds) -> float:
    ns = to_ns(setting, duration)
    if ns < 0:
        raise ConfigError(setting, duration, "must not be negative")
    return ns / 1e9
