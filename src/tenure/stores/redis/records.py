"""What is kept in Redis, and what its answers mean. No IO.

Whoever may write to Redis may write anything where an election is, so nothing that is read there is taken for granted: what
cannot be read is refused in one line that names the key.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tenure.clients.redis.resp import Argument, Reply
from tenure.errors import Refused
from tenure.model import TOKEN_MAX, Bid, Document, Grant, Holder, Incumbent, Token, Version
from tenure.stores.base import ElectionStatus

# A standby that hears nothing claims again within two and a half ttl, and counts as one for a little longer.
_FRESH_TTLS: Final = 2.75
_NS_PER_MS: Final = 10**6
_HELD_PARTS: Final = 4

# No counter gets to half of all tokens by counting: a larger one was written by hand, and is refused wherever it stands. One
# that is believed may still be such a slip, and whoever remembers it raises the counter to it for good. So only the lower half
# of these is remembered: behind the worst of them, 2⁶¹ elections are left.
TOKEN_BELIEVED_MAX: Final = TOKEN_MAX // 2
TOKEN_REMEMBERED_MAX: Final = TOKEN_BELIEVED_MAX // 2


@dataclass(frozen=True, slots=True)
class Keys:
    """The names of everything, for one prefix and one database."""

    prefix: str
    db: int

    @property
    def identity(self) -> str:
        return f"{self.prefix}:id"

    @property
    def token(self) -> str:
        return f"{self.prefix}:token"

    @property
    def elections(self) -> str:
        return f"{self.prefix}:elections"

    def office(self, election: str) -> str:
        return f"{self.prefix}:office:{election}"

    def standby(self, election: str) -> str:
        return f"{self.prefix}:standby:{election}"

    def document(self, name: str) -> str:
        return f"{self.prefix}:document:{name}"

    def channel(self, election: str) -> str:
        """Channels are shared by all databases of a server, so the number of ours is a part of their names."""
        return f"{self.prefix}:left:{self.db}:{election}"

    def of_claim(self, election: str) -> list[str]:
        return [self.identity, self.office(election), self.standby(election), self.token, self.elections]


@dataclass(frozen=True, slots=True)
class Held:
    """An office as the server has it."""

    holder: Holder
    serial: int
    token: int  # 0: it is not known yet which one
    advertised: str

    def incumbent(self, election: str) -> Incumbent | None:
        return Incumbent(election, self.holder, Token(self.token), self.advertised) if self.token else None


def claim_arguments(identity: str, bid: Bid, least: int) -> list[Argument]:
    """Return what CLAIM and VOTE take; ``least`` is the highest token that this process has seen."""
    fresh_ms = math.ceil(bid.ttl_ns * _FRESH_TTLS / _NS_PER_MS)
    return [identity, *who(bid), ttl_ms(bid), bid.advertise, fresh_ms, bid.election, least]


def renew_arguments(identity: str, grants: Sequence[Grant]) -> list[Argument]:
    """Return what RENEW takes."""
    arguments: list[Argument] = [identity]
    for grant in grants:
        arguments += [*who(grant.bid), grant.token, ttl_ms(grant.bid)]
    return arguments


def who(bid: Bid) -> tuple[str, int]:
    """Return a bid as an office has it: its holder and its serial."""
    return str(bid.holder), bid.serial


def ttl_ms(bid: Bid) -> int:
    """Return the lease in whole milliseconds, never less than was asked for: the holder counts on all of it."""
    return math.ceil(bid.ttl_ns / _NS_PER_MS)


def held_in(parts: Reply, key: str, address: str, operation: str) -> Held | None:
    """Return the office that a server tells of; None: it tells of nobody. Raises Refused for what is no office."""
    if parts == []:
        return None
    try:
        holder, serial, token, advertised = (text_in(part) for part in items(parts)[:_HELD_PARTS])
        held = Held(holder_in(holder), int(serial), int(token or "0"), advertised)
        if 0 <= held.token <= TOKEN_BELIEVED_MAX:
            return held
    except (ValueError, TypeError):
        pass
    raise by_hand(f"{key} is no office", address, operation)


def token_in(part: Reply, key: str, address: str, operation: str, *, least: int = 1) -> Token:
    """Return the token of a bid that was granted; with ``least`` 0 it may have none yet.

    What comes from the counter is a number, so what is none was read in the office ``key``, by a claim that was repeated.
    """
    try:
        number = int(text_in(part) or "0")
    except (ValueError, TypeError):
        number = -1
    if not least <= number <= TOKEN_BELIEVED_MAX:
        raise by_hand(f"{key} is no office", address, operation)
    return Token(number)


def name_in(part: Reply, key: str, address: str) -> str:
    """Return the name that a store has."""
    try:
        name = text_in(part)
    except (ValueError, TypeError):
        name = ""
    if not name:
        rule = f"{key} is no name of a store: somebody has written to it by hand: delete it while nobody leads"
        raise Refused(address, "open", rule)
    return name


def by_hand(what: str, address: str, operation: str) -> Refused:
    """Return the error for a key that has what we never write. No colon may follow a word such as token: ``redact`` hides it."""
    return Refused(address, operation, f"{what}, because somebody has written to it by hand: delete it")


def status_in(told: Reply, keys: Keys, now_us: int, address: str) -> ElectionStatus:
    """Return one election of those that LIST tells of."""
    name, office, left_ms, standing = items(told)
    try:
        election = text_in(name)
    except ValueError:
        raise by_hand(f"{name!r} in {keys.elections} is no name", address, "elections") from None
    parts = items(office)
    held = None
    if parts and parts[0] is not None:
        held = held_in(parts, keys.office(election), address, "elections")
    incumbent = None if held is None else held.incumbent(election)
    try:
        standbys = {holder_in(text_in(each).rpartition(" ")[0]): None for each in items(standing)}
    except ValueError:
        raise by_hand(f"{keys.standby(election)} has who is nobody", address, "elections") from None
    if incumbent is not None:
        standbys.pop(incumbent.holder, None)
    if incumbent is None or not isinstance(left_ms, int):
        return ElectionStatus(election, None, None, None, resign_asked=False, standbys=tuple(sorted(standbys, key=str)))
    try:
        since_us = int(text_in(parts[4]))
    except (ValueError, TypeError):
        raise by_hand(f"{keys.office(election)} is no office", address, "elections") from None
    return ElectionStatus(
        election,
        incumbent,
        held_for_ns=max(now_us - since_us, 0) * 1000,
        remaining_ns=max(left_ms, 0) * _NS_PER_MS,
        resign_asked=parts[5] is not None,
        standbys=tuple(sorted(standbys, key=str)),
    )


def merged(election: str, told: Sequence[ElectionStatus], majority: int) -> ElectionStatus:
    """Return one election as several servers tell of it: in office is who is so by the word of a majority."""
    standbys = tuple(sorted({holder for status in told for holder in status.standbys}, key=str))
    by_whom: dict[Incumbent, list[ElectionStatus]] = {}
    for status in told:
        if status.incumbent is not None:
            by_whom.setdefault(status.incumbent, []).append(status)
    for statuses in by_whom.values():
        if len(statuses) >= majority:
            asked = any(status.resign_asked for status in statuses)
            return replace(statuses[0], resign_asked=asked, standbys=standbys)
    return ElectionStatus(election, None, None, None, resign_asked=False, standbys=standbys)


def holder_in(text: str) -> Holder:
    """Return a holder as an office has it. Raises ValueError for what is none."""
    host, pid, nonce = text.rsplit("/", 2)
    return Holder(host, int(pid), nonce)


def text_in(part: Reply) -> str:
    """Return a text. Raises ValueError or TypeError for what is none."""
    if not isinstance(part, bytes):
        raise TypeError(f"{part!r} where a text must be")
    return part.decode()


def items(reply: Reply) -> list[Reply]:
    """Return the parts of a list. Raises TypeError for what is none."""
    if not isinstance(reply, list):
        raise TypeError(f"{reply!r} where a list must be")
    return reply


def document_in(parts: Reply, key: str, address: str) -> Document | None:
    """Return the document that a server tells of; None: there is none. Raises Refused for what is no document."""
    match items(parts):
        case [None, None]:
            return None
        case [bytes() as value, bytes() as version]:
            return Document(value, Version(text_in(version)))
    raise by_hand(f"{key} is no document", address, "fetch")
