"""The pure rule of every sink: accept a token iff it is not lower than the highest one seen.

A sink must apply this rule and the write itself in one atomic step of its own system, and must keep ``highest`` as
durably as the data. Apart, a paused leader passes the check, sleeps, and writes after its successor.
"""

from tenure import model
from tenure.errors import StaleToken
from tenure.model import Token


class Fence:
    """The highest token one sink has seen, for one election. Zero: none yet."""

    __slots__ = ("highest",)

    def __init__(self, highest: int = 0) -> None:
        self.highest = highest

    def admit(self, token: Token) -> None:
        """Raise the fence to ``token``, or raise and change nothing: StaleToken, or ConfigError for what is no token at all.

        A seal is this without a write.
        """
        if model.token(token) < self.highest:
            raise StaleToken(token, self.highest)
        self.highest = token
