"""A desk: what one election needs to seat its candidates. The values that Election or Lock was made with, checked."""

import os
import signal
import sys
from dataclasses import dataclass, field
from itertools import count
from random import randrange
from typing import Final

from tenure.core.candidate import Candidate
from tenure.errors import ConfigError
from tenure.model import Bid, Holder
from tenure.office.names import check_name as check_name  # noqa: PLC0414  (those who stand find it here)
from tenure.office.opened import OpenStore
from tenure.office.seat import Seat
from tenure.office.tenant import Tenant
from tenure.office.thread import Office
from tenure.stores.base import CanRenewTogether, Store, offers
from tenure.timing import Timing

ADVERTISE_BYTES_MAX: Final = 1024  # A URL; every standby and every status reads it.
# One row of numbers for all candidates of the process: a seat that is taken anew under the same holder must never bid
# with a serial that was used before, or a delayed release of the old bid would end the new one.
_SERIALS: Final = count(1)
# Who stands in this process, by process and store.
_TAKEN: Final[dict[tuple[int, str], set["Desk"]]] = {}


def check_advertise(address: object) -> str:
    """Return ``address`` if every engine can keep it beside a leader's name."""
    if not isinstance(address, str) or not address.isprintable():
        raise ConfigError("advertise", repr(address)[:80], "must be printable text, such as http://10.0.0.5:8080")
    if len(address.encode("utf-8", "replace")) > ADVERTISE_BYTES_MAX:
        raise ConfigError("advertise", f"{address[:20]}…", f"must have at most {ADVERTISE_BYTES_MAX} bytes")
    return address


@dataclass(slots=True, eq=False)
class Desk:
    """One election of one holder in one process. Equal by these, and not by object: two Election objects given one holder
    are one candidate to the store, and each would end the other's tenure while it is still believed in.
    """

    office: Office
    given: OpenStore | Store
    election: str
    holder: Holder
    advertise: str
    timing: Timing
    kill_on_overstay: bool
    # Which store this is, as it said when the seat was last taken. Kept, since a body may write for the last time while its store
    # is being closed; and interned, since ten thousand elections of one store say the same.
    _identity: str = field(default="", init=False)
    _seated: bool = field(default=False, init=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Desk) and self.election == other.election and self.holder == other.holder

    def __hash__(self) -> int:
        return hash((self.election, self.holder))

    @property
    def store(self) -> Store:
        """The store, which may be used on the office's loop only. Raises ConfigError if it is not open."""
        self.office.check_process(f"election {self.election}")
        return self.given.store if isinstance(self.given, OpenStore) else self.given

    @property
    def fence(self) -> str:
        """The name under which sinks keep the highest token: tokens of two stores, or elections, say nothing of each other."""
        return f"{self._identity or self.store.identity}/{self.election}"

    def seat(self, tenant: Tenant, *, fenced: bool) -> Seat:
        """Give the candidate its seat. One at a time: two would be one holder to the store, and both would win."""
        store = self.store
        self._identity = sys.intern(store.identity)
        traits, ttl_ns = store.traits, self.timing.ttl_ns
        if not traits.ttl_min_ns <= ttl_ns <= traits.ttl_max_ns:
            rule = f"must lie between {traits.ttl_min_ns / 1e9:g} and {traits.ttl_max_ns / 1e9:g} s for {store.address}"
            # Where a shorter one can be had, the store knows how.
            fix = f"a longer ttl{getattr(store, 'shorter_ttl', '')}" if ttl_ns < traits.ttl_min_ns else "a shorter ttl"
            raise ConfigError("ttl", f"{ttl_ns / 1e9:g} s", f"{rule}: use {fix}")
        taken = _TAKEN.setdefault((self.office.pid, self._identity), set())
        if self in taken:
            rule = "this holder stands already: use one Election, with a holder of its own, for each candidate"
            raise ConfigError("election", self.election, rule)
        taken.add(self)
        self._seated = True
        kill = self.kill if self.kill_on_overstay else None
        # Where each needs a request of its own, all at one instant would be a burst for nobody's benefit.
        phase_ns = 0 if offers(store, CanRenewTogether) else randrange(self.timing.renew_every_ns)
        like = Bid(self.election, self.holder, 0, ttl_ns, self.advertise, fenced)
        candidate = Candidate(like, self.timing, _SERIALS, phase_ns)
        return Seat(self.office, store, candidate, self.timing, tenant, kill)

    def leave(self) -> None:
        """Give the seat back. Asks the store for nothing: it may be closed."""
        if self._seated:
            self._seated = False
            _TAKEN[self.office.pid, self._identity].discard(self)

    @staticmethod
    def kill() -> None:
        """End this process now, whatever it is doing: its office is about to be another's."""
        os.kill(os.getpid(), signal.SIGKILL)
