"""What every public face is made with: a store, a name, and the settings of one candidate."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, Literal, TypeVar

from tenure.errors import ConfigError
from tenure.model import Holder
from tenure.office.desk import Desk, check_advertise, check_name
from tenure.office.opened import OpenStore
from tenure.office.sitting import StayBase
from tenure.office.term import Term
from tenure.office.thread import Office
from tenure.sinks.base import Sink
from tenure.stores.base import Store
from tenure.timing import Seconds, Timing

_LOOKS_PER_HEARTBEAT: Final = 4


S = TypeVar("S", bound=StayBase)


@lru_cache(typed=True)
def _timing_of(ttl: Seconds | None) -> Timing:
    """One object for all elections with this ttl: a thousand of them read it with every step."""
    return Timing.of(ttl=ttl)


class Standing:
    """One candidate of one election: the part that the awaiting and the blocking API share."""

    __slots__ = ("desk",)

    def __init__(  # noqa: PLR0913  (each has a default but the first two)
        self,
        store: OpenStore | Store,
        name: str,
        *,
        ttl: Seconds | None = None,
        timing: Timing | None = None,
        holder: Holder | None = None,
        advertise: str = "",
        on_overstay: Literal["publish", "kill"] = "publish",
    ) -> None:
        """Stand as ``holder``, who by default is new with every object, and can be reached at ``advertise``.

        Give ``ttl``, or a whole ``timing``; by default the lease lasts 8 s, in Consul 10 s. With ``on_overstay="kill"`` a body that does not end in time ends the process.
        """
        if ttl is not None and timing is not None:
            raise ConfigError("ttl", ttl, "is part of timing: give one of the two")
        if on_overstay not in ("publish", "kill"):
            raise ConfigError("on_overstay", on_overstay, "must be 'publish' or 'kill'")
        if ttl is None and isinstance(store, OpenStore):
            ttl = store.ttl_s
        self.desk = Desk(
            store.office if isinstance(store, OpenStore) else Office.of_this_process(),
            store,
            check_name(name),
            Holder.fresh() if holder is None else holder,
            check_advertise(advertise),
            timing if timing is not None else _timing_of(ttl),
            on_overstay == "kill",
        )

    @property
    def name(self) -> str:
        """The name of the election."""
        return self.desk.election

    @property
    def holder(self) -> Holder:
        """Who stands."""
        return self.desk.holder

    @property
    def timing(self) -> Timing:
        """Every number of this election."""
        return self.desk.timing

    @property
    def look_every_s(self) -> float:
        """How often an observer looks: a change of leader takes a heartbeat or more to happen."""
        return self.timing.renew_every_ns / 1e9 / _LOOKS_PER_HEARTBEAT

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} of {self.holder}>"


class LockStanding(Standing):
    """A lock is an election that is won once by whoever needs it next. The part that both APIs share."""

    __slots__ = ("_sinks",)

    def __init__(  # noqa: PLR0913  (each has a default but the first two)
        self,
        store: OpenStore | Store,
        name: str,
        *,
        ttl: Seconds | None = None,
        timing: Timing | None = None,
        holder: Holder | None = None,
        sinks: Sequence[Sink] = (),
    ) -> None:
        """Lock ``name``, for at most ``ttl`` without a renewal; ``sinks`` are sealed before every use of it."""
        super().__init__(store, name, ttl=ttl, timing=timing, holder=holder)
        self._sinks = tuple(sinks)

    def _has_room(self, term: Term | None) -> bool:
        """Whether a tenure may be acted on without asking the engine, with time for the act itself to end."""
        if term is None or term.reason is not None:
            return False
        timing = self.timing
        sent_at = term.valid_until - timing.valid_for_ns
        return self.desk.office.clock.now() < timing.locally_valid_until(sent_at)

    def _another(self) -> Desk:
        """Return a desk for one more candidate of the same lock."""
        return replace(self.desk, holder=Holder.fresh())

    def _refuse_reentry(self) -> ConfigError:
        """Return what to raise if this very lock is asked for again while it is held or waited for."""
        rule = "this Lock is in use already, and waiting for itself it would wait for ever: make another Lock object"
        return ConfigError("lock", self.name, rule)

    def _held(self, stay: S | None) -> S:
        """Return what ``acquire`` got; raises ConfigError if there is nothing to release by hand."""
        if stay is None or stay.term is None:
            raise ConfigError("lock", self.name, "is not held by this Lock object: acquire it first")
        if stay.is_block:
            raise ConfigError("lock", self.name, "is released by the end of its block, and not within it")
        return stay
