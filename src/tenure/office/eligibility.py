"""Who may take office, beyond whom the store grants it to: a question of the user's, asked between the grant and the seals.

It is asked as the first thing that is sealed. So the machine needs to know nothing of it: a candidate that must not lead is
one whose seal was refused, gives its grant back, and lets others go first.
"""

from collections.abc import Awaitable, Callable

from tenure.model import Token

Question = Callable[[], Awaitable[bool]]


class NotEligible(Exception):
    """The candidate says of itself that it must not lead now."""


class Eligibility:
    """A question in the shape of a sink. It fences nothing."""

    __slots__ = ("_ask",)

    def __init__(self, ask: Question) -> None:
        self._ask = ask

    async def seal(self, fence: str, token: Token) -> None:  # noqa: ARG002
        """Return if this candidate may lead."""
        if not await self._ask():
            raise NotEligible
