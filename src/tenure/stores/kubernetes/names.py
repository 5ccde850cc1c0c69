"""The names of Leases: an election's own name wherever that can be one, and a reversible spelling of it elsewhere.

A Lease may be called by small letters, digits, dashes and dots, 253 of them at most, with a letter or a digit at both ends
and on both sides of a dot. Election ``billing`` is the Lease ``billing``. Every byte of a name that cannot stand there is
written as ``x--`` and its two hexadecimal digits: ``billing/close`` is ``billingx--2fclose``. So that each Lease is one
election and each election one Lease, a name that has ``x--`` in it by itself has its ``x`` spelled out, too.
"""

import re
from typing import Final

from tenure.errors import Refused

NAME_MAX: Final = 253
_LEASE: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789")
_PUNCTUATION: Final = frozenset(b"-.")
_MARK: Final = "x--"
_SPELLED: Final = re.compile(rb"x--([0-9a-f]{2})")


def lease_for(election: str) -> str:
    """Return the name of the election's Lease. It may be too long."""
    if _LEASE.fullmatch(election) and _MARK not in election:
        return election
    # A lone surrogate, as os.fsdecode makes of bytes that are no text, is written as those bytes.
    text = election.encode("utf-8", "surrogateescape")
    spelled = _spell(text, _PLAIN | _PUNCTUATION)
    return spelled if _LEASE.fullmatch(spelled) else _spell(text, _PLAIN)


def election_of(lease: str) -> str | None:
    """Return the election that a Lease is of. None: no election has such a Lease."""
    text = _SPELLED.sub(lambda found: bytes([int(found[1], 16)]), lease.encode())
    election = text.decode("utf-8", "surrogateescape")
    return election if lease_for(election) == lease else None


def check_name(address: str, operation: str, election: str) -> str:
    """Return the name of the election's Lease. Raises Refused for an election that cannot have one."""
    if not election:
        raise Refused(address, operation, "an election needs a name")
    name = lease_for(election)
    if len(name) > NAME_MAX:
        spelled = "" if name == election else f", spelled {name[:20]}…,"
        detail = f"{election[:20]!r}…{spelled} has {len(name)} characters as the name of a Lease, and {NAME_MAX} are allowed: use a shorter one"
        raise Refused(address, operation, detail)
    return name


def _spell(text: bytes, plain: frozenset[int]) -> str:
    mark = _MARK.encode()
    return "".join(
        chr(byte) if byte in plain and not text.startswith(mark, at) else f"{_MARK}{byte:02x}"
        for at, byte in enumerate(text)
    )
