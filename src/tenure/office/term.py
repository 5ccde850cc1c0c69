"""One tenure, as it is written by the office's thread and read by every other."""

from typing import TYPE_CHECKING

from tenure.model import Token

if TYPE_CHECKING:
    from tenure.errors import Reason


class Term:
    """What one tenure's holder may know from any thread: written here, read everywhere, one word at a time."""

    __slots__ = (
        "address",
        "margin_ns",
        "proclaiming",
        "progress_by",
        "progress_within_ns",
        "reason",
        "token",
        "valid_until",
    )

    def __init__(self, token: Token, valid_until: int) -> None:
        self.token = token
        self.valid_until = valid_until
        self.margin_ns: int | None = None  # the least that was left of the validity when a renewal came
        self.reason: Reason | None = None  # why it must stop; None while it need not
        self.progress_by: int | None = None  # the body's own deadline for its next sign of life
        self.progress_within_ns: int | None = None  # and how far ahead it sets it
        self.proclaiming = False  # a request that tells the store so is under way
        self.address = ""  # where the body last said that it is; the store may not know yet
