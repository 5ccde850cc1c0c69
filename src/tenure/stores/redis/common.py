"""What both stores of Redis do alike: what they refuse to be asked, and what they remember.

A store remembers the highest token that it has seen, its own or another's, and says so with every claim: a server that has
lost its counter goes on above that. It is no promise, because a process that has just begun has seen nothing.
"""

from typing import Final

from tenure.errors import Refused
from tenure.model import Bid, Grant, Token
from tenure.stores.base import Expiry, Traits, Wake
from tenure.stores.redis.records import TOKEN_REMEMBERED_MAX, Held

_TTL_MIN_NS: Final = 100_000_000  # A lease must outlast a few round trips and a server that forks to save its data.
_TTL_MAX_NS: Final = 7 * 24 * 3600 * 10**9
_INTEGER_MAX: Final = 2**63 - 1

LOSES: Final = (
    "an acknowledged office and its token can be lost when a replica is promoted, a server restarts without its data,"
    " or its clock jumps"
)


def traits_of(wake: Wake, token_source: str) -> Traits:
    """Return what a store of Redis promises."""
    return Traits(
        queue=False,
        wake=wake,
        expiry=Expiry.ENGINE,
        token_source=token_source,
        ttl_min_ns=_TTL_MIN_NS,
        ttl_max_ns=_TTL_MAX_NS,
        expiry_slack_ns=0,
        best_effort=LOSES,
    )


class Remembering:
    """The part of a store that speaks to nobody."""

    def __init__(self, address: str, traits: Traits) -> None:
        self.address, self.traits = address, traits
        self._highest = 0
        # What the last renewal said, by election: at most one tenure of each is in office.
        self._asked_to_resign: dict[str, Token] = {}

    def resign_asked(self, grant: Grant) -> bool:
        """Say whether somebody has asked this tenure to resign (``ask_to_resign``), as of its last renewal."""
        return self._asked_to_resign.get(grant.bid.election) == grant.token

    def _seen(self, held: Held | None) -> None:
        if held is not None and held.token <= TOKEN_REMEMBERED_MAX:
            self._highest = max(self._highest, held.token)

    def _check_claim(self, bid: Bid) -> None:
        if not self.traits.ttl_min_ns <= bid.ttl_ns <= self.traits.ttl_max_ns:
            detail = f"a ttl of {bid.ttl_ns / 1e9:g} s is not between 0.1 s and 7 days"
            raise Refused(self.address, "claim", detail)
        self._check_bid("claim", bid)
        self._check_texts("claim", bid.advertise or "-")

    def _check_bid(self, operation: str, bid: Bid) -> None:
        self._check_texts(operation, bid.election, bid.holder.host, bid.holder.nonce)
        if not (0 <= bid.serial <= _INTEGER_MAX and 0 <= bid.holder.pid <= _INTEGER_MAX):
            raise Refused(self.address, operation, f"serial and pid must lie between 0 and {_INTEGER_MAX}: {bid}")

    def _check_texts(self, operation: str, *texts: str) -> None:
        for text in texts:
            try:
                stored = bool(text.encode())
            except UnicodeEncodeError:  # a lone surrogate, as os.fsdecode makes of bytes that are no text
                stored = False
            if not stored:
                raise Refused(self.address, operation, f"{text!r} cannot be stored")
