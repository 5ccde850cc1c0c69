"""One tenure, as it is written by the office's thread and read by every other."""

from typing import TYPE_CHECKING

from tenure.core.held import Held
from tenure.model import Token

if TYPE_CHECKING:
    from tenure.errors import Reason


class Term:
    """What one tenure's holder may know from any thread: written here, read everywhere, one word at a time."""

    __slots__ = (
        "address",
        "held",
        "proclaiming",
        "progress_by",
        "progress_within_ns",
        "resigned",
    )

    def __init__(self, held: Held) -> None:
        self.held = held  # up to when it may be believed in, how close it came to its end, and why it must stop
        self.resigned = False  # the body has asked to leave, and not to stand again
        self.progress_by: int | None = None  # the body's own deadline for its next sign of life
        self.progress_within_ns: int | None = None  # and how far ahead it sets it
        self.proclaiming = False  # a request that tells the store so is under way
        self.address = ""  # where the body last said that it is; the store may not know yet

    @property
    def token(self) -> Token:
        """Its number."""
        return self.held.grant.token

    @property
    def reason(self) -> "Reason | None":
        """Why it must stop, or has ended; None while it need not."""
        return self.held.reason

    @property
    def valid_until(self) -> int:
        """Up to when it may be believed in, at this instant; 0 once it is over."""
        return self.held.valid_until
