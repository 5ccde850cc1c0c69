"""Who answers on which side of a partition: what an approach makes of CAP, seen and not said.

The world is cut in two for four leases. Both sides have a candidate, and the servers fall where they fall. In the last two leases of it,
whoever would stop has stopped, and whoever would take over has: a side answers if somebody works there then.
"""

from typing import Final

from tenure.lab.approaches.arena import Approach, Arena
from tenure.lab.approaches.cast import CANDIDATES, SERVERS, TTL_NS, parted
from tenure.lab.approaches.sink import OFF
from tenure.sim.chance import Chance

BOTH, MAJORITY, OTHER, NOBODY = "both sides", "side that decides", "other side", "nobody"
SIDES: Final = (BOTH, MAJORITY, OTHER, NOBODY)


def answers(approach: Approach, seed: int) -> str:
    """Return which sides answer. The side that decides: most of those who decide are there (the store; the servers)."""
    chance = Chance(seed * 64 + 59)
    mask = chance.between(1, 2 ** len(CANDIDATES) - 2) | chance.between(0, 2 ** len(SERVERS) - 1) << SERVERS[0]
    plan = parted(seed, mask)
    arena = Arena(plan, approach, OFF)
    arena.run(until=plan.end_at - 1)
    late = plan.end_at - 2 * TTL_NS
    sides = {mask >> entry.who & 1 for entry in arena.history if entry.kind == "began" and entry.at >= late}
    if len(sides) != 1:
        return BOTH if sides else NOBODY
    inside = sum(mask >> number & 1 for number in approach.deciders)
    deciding = int(2 * inside > len(approach.deciders))
    return MAJORITY if sides == {deciding} else OTHER
