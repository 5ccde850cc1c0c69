"""A desk: what one election needs to seat its candidates. The values that Election was made with, and nothing more."""

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from tenure.core.candidate import Candidate
from tenure.core.effects import Fact
from tenure.errors import ConfigError
from tenure.model import Holder
from tenure.office.seat import Seat, Tenant, Term
from tenure.office.tenure import Tenure
from tenure.office.thread import Office
from tenure.stores.base import Store
from tenure.timing import Timing

# One row of numbers for all candidates of the process: a seat that is taken anew under the same holder must never bid
# with a serial that was used before, or a delayed release of the old bid would end the new one.
_SERIALS: Final = count(1)
# Who stands in this process. By holder and not by object: two Election objects given one holder are one candidate to the
# store, and each would end the other's tenure while it is still believed in.
_TAKEN: Final[set[tuple[int, str, str, Holder]]] = set()
Hook = Callable[[Fact], None]


@dataclass(slots=True)
class Desk:
    """One election of one holder in one process."""

    office: Office
    store: Store
    election: str
    holder: Holder
    timing: Timing
    hooks: Sequence[Hook]
    kill_on_overstay: bool

    @property
    def fence(self) -> str:
        """The name under which sinks keep the highest token: tokens of two stores, or elections, say nothing of each other."""
        return f"{self.store.identity}/{self.election}"

    def seat(self, tenant: Tenant) -> Seat:
        """Give the candidate its seat. One at a time: two would be one holder to the store, and both would win."""
        self.office.check_process(f"election {self.election}")
        if self._place in _TAKEN:
            rule = "this holder stands already: use one Election, with a holder of its own, for each candidate"
            raise ConfigError("election", self.election, rule)
        _TAKEN.add(self._place)
        kill = self.kill if self.kill_on_overstay else None
        candidate = Candidate(self.election, self.holder, self.timing, _SERIALS)
        return Seat(self.office, self.store, candidate, self.timing, tenant, kill)

    def leave(self) -> None:
        """Give the seat back."""
        _TAKEN.discard(self._place)

    @property
    def _place(self) -> tuple[int, str, str, Holder]:
        return self.office.pid, self.store.identity, self.election, self.holder

    def tenure(self, seat: Seat, term: Term) -> Tenure:
        return Tenure(self.election, self.holder, self.fence, seat, term, self.office)

    def publish(self, fact: Fact) -> None:
        for hook in self.hooks:
            hook(fact)

    @staticmethod
    def kill() -> None:
        """End this process now, whatever it is doing: its office is about to be another's."""
        os.kill(os.getpid(), signal.SIGKILL)
