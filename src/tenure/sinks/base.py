"""What every sink promises: it refuses a token older than one it has seen, in the same step as the write.

The promises are checked by ``tenure.testing.check_sink`` against the real system, with no exceptions by name:
1. A write is accepted iff its token is not lower than the highest one that the fence has seen (``Fence.admit``).
2. Check and write are one atomic step of the sink's own system: after a crash there are both or neither.
3. The fence is as durable as the data, and fences of different names know nothing of each other.
4. Once ``seal`` has returned, nothing older lands, whether or not it had begun before.
5. With ``verify=``, a token higher than any seen raises the fence only after it was confirmed.
6. Every write and every seal that it refuses is counted in ``refused``, once, by its reason, and told with its fence.

How one writes differs from system to system, so ``seal`` is all that an election needs of a sink.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from tenure.model import Token
from tenure.sinks.refusals import Refusals

Verify = Callable[[str, Token], bool | Awaitable[bool]]
"""Says whether the store really has granted this token for this fence. Asked only for tokens higher than any seen."""


class Bound(Protocol):
    """Whatever a write can be bound to: a Tenure, or anything else that has these two."""

    @property
    def token(self) -> int:
        """The number of the tenure that the write belongs to."""
        ...

    @property
    def fence(self) -> str:
        """The name of its fence: one per store and election, since tokens of different elections do not compare."""
        ...


class Sink(Protocol):
    """Something that is written to, and that keeps a fence."""

    async def seal(self, fence: str, token: Token) -> None:
        """Raise the fence to ``token`` without a write, so that nothing older can land from now on (rule 5).

        Sealing again with the same token changes nothing. Raises StaleToken if a larger token was here, UnverifiedToken
        if ``verify=`` would not confirm it, and StoreError if the system could not be asked or did not answer. A seal
        that was cancelled may still take place, which is harmless: the store has granted that token to nobody else.
        """
        ...


class CountingSink(Sink, Protocol):
    """A sink that keeps all of the promises above, and so says what it has refused."""

    @property
    def refused(self) -> Refusals:
        """How many writes and seals were refused through this object."""
        ...
