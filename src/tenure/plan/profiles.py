"""Networks and hosts by name, for who has no log yet. Round numbers to begin with, not measurements: bring your own.

A stall is anything that keeps a process from renewing: a collection of garbage, a host that swaps, a virtual machine that is moved, a
switch that learns its ports anew. Their rates and lengths differ by orders of magnitude between places that carry the same name,
and no profile can know yours.
"""

from dataclasses import dataclass
from typing import Final

from tenure.errors import ConfigError
from tenure.plan.delays import Tail, Ways


@dataclass(frozen=True, slots=True)
class Profile:
    """What is assumed of a place."""

    name: str
    what: str
    stalls: Tail
    trips: Ways

    def per_day(self, longer_than_s: float) -> float:
        """Return how many stalls a day are longer than that."""
        return self.stalls.beyond(longer_than_s)


# From 0.1 s on: what is shorter ends no tenure with any lease that an engine gives. The shape says how heavy the tail is: with 0.3
# a stall that is longer by a factor of 10 is about 600 times as rare, far out.
PROFILES: Final = {
    profile.name: profile
    for profile in (
        Profile("lan", "machines of your own, one room", Tail(0.1, 2.0, 0.15, 0.2), Ways(0.0003, 0.002, 1e-5)),
        Profile("cloud", "virtual machines, one region", Tail(0.1, 10.0, 0.25, 0.25), Ways(0.001, 0.010, 1e-4)),
        Profile("wan", "sites of one continent", Tail(0.1, 20.0, 0.4, 0.3), Ways(0.030, 0.120, 1e-3)),
        Profile("cross-region", "50 to 200 ms apart", Tail(0.1, 20.0, 0.5, 0.3), Ways(0.100, 0.200, 2e-3)),
    )
}
DEFAULT: Final = "cloud"
# Between three regions of the profile cross-region, where nobody has said other ones.
ASSUMED_TRIPS: Final = (("near", "home", 0.05), ("home", "far", 0.12), ("near", "far", 0.2))


def profile_of(name: str) -> Profile:
    """Return a profile by its name."""
    if name not in PROFILES:
        raise ConfigError("--profile", name[:40], f"must be one of {', '.join(PROFILES)}")
    return PROFILES[name]
