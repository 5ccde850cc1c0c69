"""What stores do not answer: every request that fails is told, and a store is lost and comes back once, however many elections meet it."""

from tenure.clock import Clock
from tenure.errors import Refused, StoreError
from tenure.facts import publish
from tenure.facts.kinds import StoreBack, StoreFailed, StoreLost, outcome_of
from tenure.model import Bid
from tenure.stores.base import Store


class Absences:
    """The stores of a process that are lost. Used on the office's loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: dict[str, int] = {}  # by address

    def missed(self, bid: Bid, store: Store, error: StoreError) -> None:
        """Hear that a store gave no good answer to a candidate; one that refuses is there all the same."""
        address = store.address
        failed = StoreFailed(error.operation, outcome_of(error), error.detail)
        publish(failed, address, bid.election, bid.holder)
        if not isinstance(error, Refused) and address not in self._since:
            self._since[address] = self._clock.now()
            publish(StoreLost(error.detail), address)

    def heard(self, store: Store) -> None:
        """Hear that a store has answered."""
        if self._since and (since := self._since.pop(store.address, None)) is not None:
            publish(StoreBack(self._clock.now() - since), store.address)
