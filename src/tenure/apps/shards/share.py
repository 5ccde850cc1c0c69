"""Who should own which shard: decided from who takes part and who was to own what before, and from nothing else.

Rules of this file
1. Nobody is given more than its fair share by weight, rounded up, or less than that rounded down; and never more than its limit.
   What limits leave over goes to the others by weight. What nobody may take is owned by nobody.
2. As few shards move as rule 1 allows: each member keeps what it has up to its share, and where rounding leaves a choice, who has
   more keeps more.
3. Which shards move goes by rendezvous hashing of shard and taker, by a hash that is the same everywhere: who comes back under its
   name is given much the same again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import blake2b

Owners = tuple[str | None, ...]
"""Who is to own each shard, by its number; None: nobody."""


@dataclass(frozen=True, slots=True)
class Member:
    """One that takes part, by a name that it may have again after a restart."""

    name: str
    weight: int = 1  # 0: it takes part, and owns nothing
    limit: int | None = None  # how many it may own at most; None: any number


def share(members: Iterable[Member], before: Sequence[str | None]) -> Owners:
    """Return who should own each shard, where ``before`` is who was to own it so far."""
    known = {member.name: member for member in members}
    held: dict[str, list[int]] = {name: [] for name in known}
    for shard, owner in enumerate(before):
        if owner in held:
            held[owner].append(shard)
    quota = quotas(known.values(), {name: len(shards) for name, shards in held.items()}, len(before))
    room = {name: quota[name] - len(shards) for name, shards in held.items() if len(shards) < quota[name]}
    after: list[str | None] = [None] * len(before)
    for name, shards in held.items():
        if len(shards) > quota[name]:
            shards.sort(key=lambda shard: (max((affinity(taker, shard) for taker in room), default=0), shard))
        for shard in shards[: quota[name]]:
            after[shard] = name
    for shard, owner in enumerate(after):
        if owner is None and room:
            taker = max(room, key=lambda name: (affinity(name, shard), name))
            after[shard] = taker
            room[taker] -= 1
            if not room[taker]:
                del room[taker]
    return tuple(after)


def quotas(members: Iterable[Member], held: Mapping[str, int], count: int) -> dict[str, int]:
    """Return how many of ``count`` shards each should own, where ``held`` is how many it has so far."""
    fair = fair_shares(members, count)
    quota = {name: int(part) for name, part in fair.items()}
    left = int(sum(fair.values())) - sum(quota.values())
    # Who has more than the whole part of its share keeps one more; then whoever is cut off most by rounding.
    rounded_up = sorted(
        (name for name in fair if fair[name] > quota[name]),
        key=lambda name: (held.get(name, 0) <= quota[name], quota[name] - fair[name], name),
    )
    for name in rounded_up[:left]:
        quota[name] += 1
    return quota


def fair_shares(members: Iterable[Member], count: int) -> dict[str, Fraction]:
    """Return the exact part of ``count`` that each is due by weight, no more than its limit."""
    fair: dict[str, Fraction] = {}
    rest = {member.name: member for member in members}
    left = Fraction(count)
    while rest:
        weight = sum(member.weight for member in rest.values())
        due = {name: left * member.weight / weight if weight else Fraction() for name, member in rest.items()}
        full = [name for name, member in rest.items() if member.limit is not None and due[name] >= member.limit]
        if not full:
            return fair | due
        for name in full:
            limit = rest.pop(name).limit or 0
            fair[name] = Fraction(limit)
            left -= limit
    return fair


def affinity(name: str, shard: int) -> int:
    """Return how much a member prefers a shard. The same on every machine, for ever: Python's own hash is not."""
    return int.from_bytes(blake2b(f"{shard} {name}".encode(), digest_size=8).digest())
