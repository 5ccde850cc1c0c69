"""The time without a leader, in parts, and what it may come to. Pure."""

from dataclasses import dataclass
from typing import Final, Self

from tenure.stores.base import Traits
from tenure.timing import Timing

RTO_S: Final = 30.0  # The time in which work has to go on, where nobody has said another.


@dataclass(frozen=True, slots=True)
class Budget:
    """How long each part of a failover may take, in seconds, one after the other.

    ``detect``    from the first heartbeat that is missed until somebody claims the office
    ``elect``     until it is granted, every sink sealed, and the body begun
    ``load``      until the new leader has read what it decides by
    ``warm``      until it decides as quickly as the last one did
    ``discover``  until clients and workers have found it

    A leader that dies right after a heartbeat is missed only with the next, so a reserve of one heartbeat belongs beside it.
    """

    detect_s: float
    elect_s: float
    load_s: float
    warm_s: float
    discover_s: float

    @classmethod
    def of(  # noqa: PLR0913  (every part by name)
        cls,
        timing: Timing,
        traits: Traits | None = None,
        *,
        elect_s: float = 1,
        load_s: float = 2,
        warm_s: float = 13,
        discover_s: float = 5,
    ) -> Self:
        """Return the budget for a timing on a store with these traits; None: on one that ends a lease with its ttl.

        The lease of a leader that is gone goes on for the rest of its ttl, which is ``misses`` heartbeats as derived, and for
        as long as the engine takes beyond that: on Consul as shipped a whole ttl more, and the lock-delay.
        """
        slack_ns = 0 if traits is None else traits.slack_ns(timing.ttl_ns)
        detect_ns = timing.ttl_ns - timing.renew_every_ns + slack_ns
        return cls(detect_ns / 1e9, elect_s, load_s, warm_s, discover_s)

    @property
    def total_s(self) -> float:
        """All of it."""
        return self.detect_s + self.elect_s + self.load_s + self.warm_s + self.discover_s

    @property
    def parts(self) -> tuple[tuple[str, float], ...]:
        """Each part by its name, in the order in which they come."""
        return (
            ("detect", self.detect_s),
            ("elect", self.elect_s),
            ("load", self.load_s),
            ("warm", self.warm_s),
            ("discover", self.discover_s),
        )
