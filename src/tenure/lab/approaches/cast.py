"""Who is in the world of every approach, and which faults a seed draws for it.

The cast is the same for all, whether an approach uses it or not: A, B and C stand for election, D to H are servers, and I is
the sink. So one seed draws the very same strikes for each of them, and two rows of a comparison differ in nothing but the approach.
"""

from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache
from typing import Final

from tenure.errors import ConfigError
from tenure.lab.faults import FAULTS, Plan, S, Strike, draw
from tenure.sim.chance import Chance

CANDIDATES: Final = (0, 1, 2)
SERVERS: Final = (3, 4, 5, 6, 7)
SINK: Final = 8
NODES: Final = 9

# The numbers that this package has by default, so that a story reads as one of production. All approaches have the same.
TTL_NS: Final = 8 * S
HEARTBEAT_NS: Final = 2 * S
JOB_NS: Final = 3 * S  # How long a leader works on one task before it writes what came of it.
GAP_MAX_NS: Final = (
    2 * S
)  # Between two tasks, at most. It is drawn: in step with the heartbeat, a lease would never end in a task.
# Faults last up to a dozen times this: three leases. Messages take from 31 ms to 250 ms.
SCALE_NS: Final = TTL_NS // 4
CALM: Final = 24  # Times SCALE_NS after the last fault: six leases, and whoever can recover has done so.

SETTLED_NS: Final = TTL_NS // 2  # What is written so long after the last fault was begun after it.

# A server dies and comes back, or is replaced: the crash of ``FAULTS``, at a server.
FAILOVER: Final = "failover"
CHOICES: Final = (*(fault for fault in FAULTS if fault != "torn"), FAILOVER)
PLANS_KEPT: Final = 8192  # Those of a comparison of a thousand seeds, some 2 KB each.
# What a comparison has for columns: each by itself, and nothing at all.
COLUMNS: Final = ("none", "delay", "partition", "pause", "crash", FAILOVER, "jump")


def check_choices(option: str, names: Collection[str]) -> None:
    """Refuse the name of a fault that there is none of."""
    for name in names:
        if name not in CHOICES:
            raise ConfigError(option, name, f"must be one of {', '.join(CHOICES)}")


def plan_of(seed: int, faults: Collection[str]) -> Plan:
    """Return what a seed draws if just these faults are at work.

    Candidates are paused and crash; servers crash in a failover. The clock of one server jumps, or as often those of all: their
    source of time was wrong. (Candidates read a clock that cannot be set.) The sink is always there: who cannot reach it does it no
    harm, and harm is what is counted.
    """
    return _plan_of(seed, frozenset(faults))


# Every approach plays it, with up to three fences: to draw it again each time took a tenth of a comparison.
@lru_cache(maxsize=PLANS_KEPT)
def _plan_of(seed: int, faults: frozenset[str]) -> Plan:
    ordinary = faults - {FAILOVER, "jump"}
    plan = draw(seed, NODES, SCALE_NS, only=ordinary, struck=CANDIDATES, calm=CALM)
    strikes = [*plan.strikes]
    if FAILOVER in faults:
        strikes += draw(seed, NODES, SCALE_NS, only={"crash"}, struck=SERVERS).strikes
    if "jump" in faults:
        chance = Chance(seed * 64 + 60)
        for strike in draw(seed, NODES, SCALE_NS, only={"jump"}, struck=SERVERS).strikes:
            strikes += [strike._replace(who=who) for who in (SERVERS if chance.hit(0.5) else (strike.who,))]
    return replace(plan, strikes=tuple(sorted(strikes)))


def parted(seed: int, mask: int) -> Plan:
    """Return a world that is whole for four leases and then in two parts for as long, and nothing else befalls it."""
    quiet = draw(seed, NODES, SCALE_NS, only=())
    cut = Strike(4 * TTL_NS, "partition", 0, 4 * TTL_NS, mask)
    return replace(quiet, strikes=(cut,), heal_at=cut.at + cut.for_ns, end_at=cut.at + cut.for_ns)
