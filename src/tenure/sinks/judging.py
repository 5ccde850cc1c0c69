"""What all sinks decide alike: whom they ask about a token higher than any seen, and that a refusal is counted, once.

Rule of this file: what is accepted without a question pays nothing for it, but for a call where the system is far away.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenure.errors import StaleToken, UnverifiedToken
from tenure.model import Token
from tenure.sinks.base import Verify
from tenure.sinks.refusals import Refusals
from tenure.sinks.verifying import confirmed, confirmed_now

T = TypeVar("T")


class JudgingSink:
    """A sink that may be given ``verify``, and whose ``refused`` says how often it has refused whom."""

    verify: Verify | None
    refused: Refusals

    def __init__(self, verify: Verify | None) -> None:
        self.verify, self.refused = verify, Refusals(type(self).__name__)

    async def judge(self, fence: str, token: Token, highest: int) -> None:
        """Return if ``token`` may write where ``highest`` was found, and raise the fence if that is lower.

        For sinks that read their fence, and then swap it if it is as it was. Raises StaleToken or UnverifiedToken.
        """
        if highest > token:
            raise self.refused.counted(StaleToken(token, highest), fence)
        if highest < token and self.verify is not None and not await confirmed(self.verify, fence, token):
            raise self.refused.counted(UnverifiedToken(token, highest), fence)

    async def admitted(self, fence: str, token: Token, attempt: Callable[[bool], Awaitable[T]]) -> T:
        """Make an attempt, which is told whether only known tokens are to be let in; if need be confirm, and try again.

        For sinks whose system compares by itself. No lock of theirs is held while ``verify`` is asked.
        """
        with self.refused.counting(fence):
            try:
                return await attempt(self.verify is not None)
            except UnverifiedToken:
                if self.verify is None or not await confirmed(self.verify, fence, token):
                    raise
            return await attempt(False)

    def admitted_now(self, fence: str, token: int, attempt: Callable[[bool], T]) -> T:
        """Do the same in a thread, which waits."""
        with self.refused.counting(fence):
            try:
                return attempt(self.verify is not None)
            except UnverifiedToken:
                if not confirmed_now(self.verify, fence, token):
                    raise
            return attempt(False)
