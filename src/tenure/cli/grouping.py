"""Sets of shards in a list of elections: a line for each member with how many it owns, instead of one for each shard."""

import re
from collections import Counter
from collections.abc import Sequence

from tenure.stores.base import ElectionStatus

_SEAT = re.compile(r"(.+)/members/[^/]+")
_SHARD = re.compile(r"(.+)/[0-9]+")


def grouped(statuses: Sequence[ElectionStatus]) -> tuple[list[ElectionStatus], dict[str, str]]:
    """Return the elections without shards that have an owner who has a seat, and a note for each such seat.

    A shard without an owner stays in the list: it is what somebody looks for.
    """
    seats: dict[tuple[str, str], str] = {}  # by set and holder
    for status in statuses:
        seat = _SEAT.fullmatch(status.election)
        if seat is not None and status.incumbent is not None:
            seats[seat[1], str(status.incumbent.holder)] = status.election
    kept, owned = [], Counter[str]()
    for status in statuses:
        shard = _SHARD.fullmatch(status.election)
        holder = "" if status.incumbent is None else str(status.incumbent.holder)
        if shard is not None and (shard[1], holder) in seats:
            owned[seats[shard[1], holder]] += 1
        else:
            kept.append(status)
    return kept, {seat: f"owns {owned[seat]} shard{'s' * (owned[seat] != 1)}" for seat in seats.values()}
