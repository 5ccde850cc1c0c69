"""The names of nodes: one that kazoo, Curator's latch and Curator's mutex all put in the right order.

An election ``x`` is the node ``/x``; each candidate is an ephemeral sequential child of it. Three kinds of program look at
the children, and each reads their order from the names:
- kazoo's Lock and Election take names that end in ``__lock__`` and the engine's number, and order by that number;
- Curator's LeaderLatch orders all children by the text after the last ``latch-``;
- Curator's InterProcessMutex orders all children by the text after the last ``lock-``.

So ours is ``_c_<uuid>-latch-<K>-lock-<K>__lock__<number>``. ``number`` is the engine's. ``K`` has to be written before the
engine gives that out, so it is a number that was free when we looked: a lower bound. The uuid is the bid: 16 digits made of
the holder and 16 of its serial, by which a lost answer is found again. Curator wants it in this form.

Why a lower bound is enough. Curator orders our node by K, everybody else by its number. The two can disagree only about
Curator's nodes whose number lies in K … number − 1: these were created after we looked and before our node was, so they are
there when the children are listed next. If there is one, our node must go and be made again with a better K; it never takes
office, so nobody leads who should not. Meanwhile it may keep one of Curator's waiting, for as long as the deletion takes.
With all others the order is the same by either: nodes that come later have larger numbers than both.
If K is larger than the number (the parent was deleted and made anew since we looked, and numbers began again), nodes that
come later might be put before ours. That one must go as well.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from operator import attrgetter, itemgetter
from typing import Final

from tenure.errors import Refused
from tenure.model import Bid, Holder

# A number has ten places, and is negative once 31 bits have run over; the sign is then one of the ten, or the eleventh. kazoo
# reads a negative one only if it has ten digits.
_NUMBER: Final = r"-[0-9]{9,10}|[0-9]{10}"  # Digits of other scripts are none of the engine's.
_CONTENDER: Final = re.compile(rf"(?:__lock__|latch-|lock-)({_NUMBER})$")
_OURS: Final = re.compile(rf"_c_([0-9a-f-]{{36}})-latch-({_NUMBER})-lock-\2__lock__(?:{_NUMBER})$")
_ENDING: Final = itemgetter(slice(-11, None))  # the number, and what is before it
_OWN: Final = len("_c_01234567-89ab-cdef")  # So much of a name tells the holder.
_KAZOO: Final = "__lock__"
_DIGITS: Final = 16
_NAMES_MAX: Final = 4096  # of those that are remembered as read, some hundred bytes each
_FEW: Final = 8  # So few are not worth it.
_SERIAL_MAX: Final = 16**_DIGITS - 1
_RESERVED: Final = "zookeeper"  # the engine keeps its own settings there


@dataclass(frozen=True, slots=True)
class Contender:
    """One candidate's node, as its name tells it."""

    name: str
    number: int  # the engine's
    shown: int | None  # K; None: not one of ours
    who: str  # of ours: the holder
    serial: int  # of ours

    @property
    def is_curators(self) -> bool:
        return self.shown is None and _KAZOO not in self.name


def contenders(children: list[str]) -> list[Contender]:
    """Return the candidates among ``children`` in the order of their numbers; what else is there is none."""
    # Whoever stands looks at all names again and again: a thousand standbys of one process would read a million of them.
    read = _contender if len(children) > _FEW else _contender.__wrapped__
    return sorted(filter(None, map(read, children)), key=attrgetter("number"))


def is_first(own: str, children: list[str]) -> bool:
    """Say at a glance whether ``own``, a name of ours, is before all others, none of which is of its holder.

    False: look closer. It is for the one of a thousand standbys that comes into office, which would else read a thousand names.
    """
    ending = _ENDING(own)
    return (
        # By characters "-" is before "_", and "_-" before "_0": so a negative number, or any of Curator's, is less than ours.
        ending[1:].isdigit()
        and ending[0] == "_"
        and ending == min(map(_ENDING, children), default="")
        and own in children
        and "/".join(children).count(own[:_OWN]) == 1
    )


@lru_cache(maxsize=_NAMES_MAX)
def _contender(name: str) -> Contender | None:
    match = _CONTENDER.search(name)
    if match is None:
        return None
    number = int(match[1])
    ours = _OURS.match(name)
    if ours is None:
        return Contender(name, number, None, "", 0)
    digits = ours[1].replace("-", "")
    return Contender(name, number, int(ours[2]), digits[:_DIGITS], int(digits[_DIGITS:], 16))


def misplaced(own: Contender, others: Sequence[Contender]) -> bool:
    """Say whether Curator would put ``own`` in another place than everybody else does."""
    assert own.shown is not None
    if own.shown == own.number:
        return False
    return own.shown > own.number or any(own.shown <= one.number < own.number and one.is_curators for one in others)


def who(holder: Holder) -> str:
    """Return the part of a name that tells one holder from all others."""
    return blake2b(str(holder).encode(), digest_size=_DIGITS // 2).hexdigest()


def name_for(bid: Bid, number: int) -> str:
    """Return the name for a node, but for the number that the engine puts behind it."""
    digits = f"{who(bid.holder)}{bid.serial:0{_DIGITS}x}"
    uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    return f"_c_{uuid}-latch-{number:010d}-lock-{number:010d}{_KAZOO}"


def check_name(address: str, operation: str, election: str, chroot: str) -> str:
    """Return the path of an election's node. Raises Refused for a name that no node can have, or that is taken."""
    parts = election.split("/")
    if any(part in {"", ".", ".."} for part in parts):
        raise Refused(address, operation, f"{election!r} has an empty part, '.' or '..', which no node can have")
    if any(_CONTENDER.search(part) for part in parts):
        raise Refused(
            address, operation, f"{election!r} has a part that looks like a candidate's node: use another name"
        )
    if not is_text(election):
        raise Refused(address, operation, f"{election!r} is no text: use another name")
    if not chroot and parts[0] == _RESERVED:
        raise Refused(address, operation, f"/{_RESERVED} belongs to the engine: use another name")
    return f"{chroot}/{election}"


def check_bid(address: str, operation: str, bid: Bid) -> None:
    """Raise Refused for a bid that cannot be written down."""
    if not 0 <= bid.serial <= _SERIAL_MAX:
        raise Refused(address, operation, f"serial {bid.serial} is not between 0 and {_SERIAL_MAX}")
    # A lone surrogate, as os.fsdecode makes of bytes that are no text, is no character.
    if not is_text(str(bid.holder)) or not is_text(bid.advertise):
        raise Refused(address, operation, f"{bid.holder!r} or {bid.advertise!r} is no text")


def is_text(words: str) -> bool:
    """Say whether ``words`` can be written as UTF-8."""
    try:
        words.encode()
    except UnicodeEncodeError:
        return False
    return True
