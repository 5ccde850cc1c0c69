"""Workers that take orders from a leader, over whatever channel these come: an order of a leader that was succeeded is refused.

The rule is ``order.token >= highest seen``, and the highest is kept by a mark that outlives the worker. The channel may deliver
late, twice or out of order; none of it lets an old order in once a newer one, or the seal of its leader, has been seen.
"""

from tenure.model import Token
from tenure.sinks.base import Bound, Verify
from tenure.sinks.marks import Mark, admit, admit_now
from tenure.sinks.refusals import Refusals


class Orders:
    """What one worker has been told by whom: accepts an order iff its token is not lower than the highest seen.

    An order is anything that has a ``token`` and a ``fence``; ``mark`` is where the highest token is kept, durable if an old
    order must not be accepted after a restart. With ``verify``, a token higher than any seen is confirmed by it first.

    Does not promise that an order is carried out once: equal tokens pass every time. Nor that a worker which has accepted an
    order is done with it when a newer leader comes: what it does must be fenced by its own sink, or be harmless.
    """

    def __init__(self, mark: Mark, *, verify: Verify | None = None) -> None:
        self._mark, self._verify, self.refused = mark, verify, Refusals(type(self).__name__)

    def accept(self, order: Bound) -> None:
        """Return if the order is to be carried out; the mark has then been raised, durably. For threads: it may block.

        Raises StaleToken or UnverifiedToken if it is not, and StoreError if the mark could not be asked: then it is
        not to be carried out either.
        """
        with self.refused.counting(order.fence):
            admit_now(self._mark, order.fence, Token(order.token), self._verify)

    async def accept_soon(self, order: Bound) -> None:
        """Do the same from an event loop, which is not blocked. Cancelled, the mark may still be raised."""
        with self.refused.counting(order.fence):
            await admit(self._mark, order.fence, Token(order.token), self._verify)

    async def seal(self, fence: str, token: Token) -> None:
        """Raise the mark without an order, so that a worker which shares its leader's disk can be sealed (see ``Sink``)."""
        with self.refused.counting(fence):
            await admit(self._mark, fence, token, self._verify)
