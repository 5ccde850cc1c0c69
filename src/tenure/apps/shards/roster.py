"""The roster: the one document in which the members of a set of shards agree who should own what.

It decides nothing about safety. Whoever acts on an old roster stands in an election that another leads, and waits.

Rules of this file
1. Every change is a pure function of the roster that it is made to, so that it can be made again when others wrote first.
2. A member is one who took its seat under a token. Who is said to be gone is removed under that token only: one that has come
   back meanwhile has a larger one.
3. Who joins, leaves or changes its weight changes no owner. ``planned`` does that, once nobody has come or gone for a while, so
   that five who start together move each shard once. Who is gone has nothing to wait for: its shards are given away at once.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from tenure.apps.shards.share import Member, Owners, share
from tenure.errors import ConfigError

# A document has room for the owners of so many, whoever they are: four digits and a comma for each.
COUNT_MAX: Final = 32_768
WEIGHT_MAX: Final = 1_000_000  # Beyond this somebody has given bytes, or an address.
_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Seated:
    """A member, and the token under which it has its seat."""

    token: int
    weight: int = 1
    limit: int | None = None
    leaving: bool = False  # It has what it has until others are to own that, and wants no more.
    return_within_s: float = 0  # for how long its shards are kept for it when its seat is empty


@dataclass(frozen=True)
class Roster:
    """Who takes part, and who is to own each shard."""

    count: int
    members: dict[str, Seated] = field(default_factory=dict)
    owners: Owners = ()

    @classmethod
    def empty(cls, count: int) -> "Roster":
        """Return the roster of a set that nobody takes part in."""
        return cls(count, {}, (None,) * count)

    @cached_property
    def planned(self) -> "Roster":
        """This roster with every shard where it should be."""
        taking_part = [
            Member(name, 0 if seated.leaving else seated.weight, seated.limit) for name, seated in self.members.items()
        ]
        return replace(self, owners=share(taking_part, self.owners))

    @property
    def is_settled(self) -> bool:
        """Whether every shard is where it should be."""
        return self.owners == self.planned.owners

    def seat(self, name: str, seated: Seated) -> "Roster":
        """Return the roster with this member in it, as it is now. One that was there under that name goes on as this one."""
        return replace(self, members={**self.members, name: seated})

    def without(self, gone: Collection[tuple[str, int]]) -> "Roster":
        """Return the roster without those, each by name and token, and with their shards given to others."""
        left = {name: seated for name, seated in self.members.items() if (name, seated.token) not in gone}
        return self if len(left) == len(self.members) else replace(self, members=left).planned

    def owned_by(self, name: str) -> frozenset[int]:
        """Return the shards that a member should own."""
        return frozenset(shard for shard, owner in enumerate(self.owners) if owner == name)

    def after(self, name: str) -> list[str]:
        """Return the other members, beginning with the one that comes next and ending with the one before."""
        names = sorted(self.members)
        cut = sum(other <= name for other in names)
        return [other for other in names[cut:] + names[:cut] if other != name]

    def dump(self) -> bytes:
        """Return the document."""
        names = sorted({owner for owner in self.owners if owner is not None})
        number: dict[str | None, int] = {name: at for at, name in enumerate(names)} | {None: -1}
        members = {
            name: [seated.token, seated.weight, seated.limit, seated.leaving, seated.return_within_s]
            for name, seated in sorted(self.members.items())
        }
        owners = [number[owner] for owner in self.owners]
        told = {"format": _FORMAT, "shards": self.count, "members": members, "names": names, "owners": owners}
        return json.dumps(told, separators=(",", ":")).encode()


def load(key: str, document: bytes) -> Roster:
    """Return the roster in a document. Raises ConfigError for one that is none."""
    try:
        told: dict[str, Any] = json.loads(document)
        if told["format"] != _FORMAT:
            raise ConfigError(
                "roster", key, f"has format {told['format']!r}: it was written by a newer version of tenure"
            )
        names: list[str | None] = [*map(str, told["names"]), None]  # -1 is the last
        return Roster(
            int(told["shards"]),
            {name: Seated(*seated) for name, seated in told["members"].items()},
            tuple(names[at] for at in told["owners"]),
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        raise ConfigError("roster", key, "is no roster of shards: was it written by another program?") from None
