"""How much work one leader can do, and from when on it takes several. Pure."""

import math
from dataclasses import dataclass
from typing import Final

from tenure.errors import ConfigError

# Work that comes at random waits for 1 / (1 - busy) of its own time: at 70 % three times as long, at 90 % ten times.
BUSY_MAX: Final = 0.7
OP_COST_S: Final = 0.001  # a fenced write that waits for a majority within one region, one after the other
_OPS_MAX: Final = 1e9
_OP_COST_MAX_S: Final = 1e6  # Beyond this somebody has slipped on a key.


def check_cost(op_cost_s: float) -> None:
    """Refuse what no operation takes. One that is not a number is neither more nor less than anything, and is refused as well."""
    if not 0 < op_cost_s <= _OP_COST_MAX_S:
        raise ConfigError("--op-cost", f"{op_cost_s:g} s", f"must be more than 0 and at most {_OP_COST_MAX_S:g} s")


@dataclass(frozen=True, slots=True)
class Load:
    """Operations that need the leader, and what one of them costs it."""

    ops_per_s: float
    op_cost_s: float = OP_COST_S

    def __post_init__(self) -> None:
        if not 0 < self.ops_per_s <= _OPS_MAX:
            raise ConfigError(
                "--ops", f"{self.ops_per_s:g}/s", f"must be more than 0 and at most {_OPS_MAX:g} a second"
            )
        check_cost(self.op_cost_s)

    @property
    def busy(self) -> float:
        """Which share of its time one leader would need: more than 1 is more than there is."""
        return self.ops_per_s * self.op_cost_s

    @property
    def most_per_s(self) -> float:
        """How many operations one leader does without long queues."""
        return BUSY_MAX / self.op_cost_s

    @property
    def shards(self) -> int:
        """How many leaders it takes."""
        return max(1, math.ceil(self.busy / BUSY_MAX - 1e-9))

    def latency_s(self, shards: int = 1) -> float:
        """Return how long an operation takes on average, with its time in the queue; infinite: the queue only grows."""
        busy = self.busy / shards
        return self.op_cost_s / (1 - busy) if busy < 1 else math.inf
