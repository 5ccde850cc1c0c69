"""One row for each election, as values; and how its tokens are made. Nothing here speaks to a database.

A token is two numbers in one: how often the database has changed its primary, and a counter below that. A replica that becomes
the primary may have missed the last counts, but not that it was made the primary.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tenure.errors import Refused
from tenure.model import Bid, Holder, Incumbent, Token
from tenure.stores.base import ElectionStatus

# A thousand tenures a second for thirty-four years; and eight million changes of the primary above them.
COUNTER_BITS: Final = 40
COUNTER_MAX: Final = 2**COUNTER_BITS - 1
EPOCH_MAX: Final = 2 ** (63 - COUNTER_BITS) - 1
_INTEGER_MAX: Final = 2**63 - 1
_TEXT_MAX_BYTES: Final = 1024
_ADDRESS_MAX_BYTES: Final = 4096
_TEXTS_MAX: Final = 4096

# By election *and* token: two candidates of one process may have had the same office, one after the other.
Lasting = dict[tuple[str, int], tuple[int, bool]]
"""Tenures that last: the version of the row, and whether somebody asks its holder to resign."""


@dataclass(frozen=True, slots=True)
class Office:
    """One row. ``remaining_ns`` is by the database's clock; None: that clock does not end it (``expiry=observer``)."""

    election: str
    token: int
    version: int  # rises whenever the row is written
    holder: Holder | None = None  # None: nobody is in office
    serial: int = 0
    ttl_ns: int = 0
    remaining_ns: int | None = None
    held_for_ns: int = 0
    resign_asked: bool = False
    advertised: str = ""

    @property
    def incumbent(self) -> Incumbent | None:
        """Whoever the row names, whether or not the lease has ended."""
        if self.holder is None:
            return None
        return Incumbent(self.election, self.holder, Token(self.token), self.advertised)

    def is_of(self, bid: Bid) -> bool:
        """Say whether this very bid is in office."""
        return self.holder == bid.holder and self.serial == bid.serial

    def status(self, standbys: tuple[Holder, ...], *, over: bool) -> ElectionStatus:
        """Return the row as people are shown it."""
        if self.holder is None or over:
            return ElectionStatus(self.election, None, None, None, resign_asked=False, standbys=standbys)
        return ElectionStatus(
            self.election, self.incumbent, self.held_for_ns, self.remaining_ns, self.resign_asked, standbys
        )


@dataclass(frozen=True, slots=True)
class Ask:
    """One claim: what the statement is told besides the bid."""

    bid: Bid
    observed: bool = False  # nobody's lease ends by the database's clock
    seen: tuple[int, int] = (-1, -1)  # the token and version of a row whose lease has ended for us; none has these
    goes_on: bool = True  # a tenure that this bid has in the row is not known to be over

    @property
    def mark(self) -> str:
        """How a bid is called in the list of those that were withdrawn."""
        return mark_of(self.bid.holder, self.bid.serial)


@dataclass(frozen=True, slots=True)
class Taken:
    """The row belongs to the bid now."""

    token: int
    version: int


def mark_of(holder: Holder, serial: int) -> str:
    """Return what says in a row that a claim of this bid, should it still be on its way, is to have no effect."""
    return f"{holder.nonce}/{serial};"


def packed(epoch: int, counter: int) -> int:
    """Return the token that stands for both. The databases do the same in SQL."""
    assert 0 <= epoch <= EPOCH_MAX
    assert 0 <= counter <= COUNTER_MAX
    return epoch << COUNTER_BITS | counter


def epoch_of(token: int) -> int:
    """Return which primary made a token, counted from the first."""
    return token >> COUNTER_BITS


def microseconds(ns: int) -> int:
    """Return a ttl in the database's unit; never less than was asked for."""
    return -(-ns // 1000)


def check_bid(store: str, operation: str, bid: Bid) -> None:
    """Refuse what no row can hold, before anything is sent."""
    check_text(store, operation, bid.election, bid.holder.host, bid.holder.nonce)
    check_address(store, operation, bid.advertise)
    if ";" in bid.holder.nonce or not (0 <= bid.serial <= _INTEGER_MAX and 0 <= bid.holder.pid <= _INTEGER_MAX):
        raise Refused(store, operation, f"serial and pid must lie between 0 and {_INTEGER_MAX}: {bid}")


def check_text(store: str, operation: str, *texts: str) -> None:
    """Refuse a name that no row can hold."""
    for text in texts:
        if not _can_be_stored(text):
            rule = f"cannot be stored: it must be text of 1 to {_TEXT_MAX_BYTES} bytes without zeros"
            raise Refused(store, operation, f"{text[:64]!r} {rule}")


# The names of a process's own elections, asked of with every call.
@lru_cache(_TEXTS_MAX)
def _can_be_stored(text: str) -> bool:
    # A lone surrogate, as os.fsdecode makes of bytes that are no text, cannot be stored, and PostgreSQL takes no zero.
    encoded = _encoded(text)
    return 0 < len(encoded) <= _TEXT_MAX_BYTES and b"\0" not in encoded


def check_address(store: str, operation: str, address: str) -> None:
    """Refuse an address of a leader that no row can hold; an empty one is none."""
    if address and (not (encoded := _encoded(address)) or b"\0" in encoded or len(encoded) > _ADDRESS_MAX_BYTES):
        raise Refused(store, operation, f"{address[:64]!r} cannot be stored as the address of a leader")


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return b""
