"""The roll call, and leaving: what is asked of the engine for places that have their key.

A session that lives says nothing of its keys: one of them may have been deleted or unlocked by hand. So every renewal also
compares the index of each key with the one that it is known to have, many in one transaction that changes nothing. Those
that were written since are looked at: by one who asks its holder to leave, or by hand over what the holder wrote, which is
then put back.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tenure.clients.consul.client import ConsulClient
from tenure.clients.consul.failures import Conflict
from tenure.clients.consul.messages import OPS_MAX, put_if_unchanged, unchanged, unlock
from tenure.errors import Unreachable
from tenure.stores.consul.layout import LOCK_FLAG, entry_in
from tenure.stores.consul.sessions import Place, Session

_TRIES_MAX: Final = 4


async def call_the_roll(client: ConsulClient, session: Session, places: Sequence[Place]) -> set[Place]:
    """Return which of these places, all by ``session``, have their key no more, and note what the engine has for the others."""
    some = [places[first : first + OPS_MAX] for first in range(0, len(places), OPS_MAX)]
    return set().union(*await asyncio.gather(*(_compare(client, session, part) for part in some)))


async def _compare(client: ConsulClient, session: Session, places: Sequence[Place]) -> set[Place]:
    try:
        await client.txn([unchanged(place.key, place.index) for place in places], operation="renew")
    except Conflict as conflict:
        changed = [place for number, place in enumerate(places) if number in conflict.errors]
        looks = await asyncio.gather(*(_look_at(client, session, place) for place in changed))
        return {place for place, there in zip(changed, looks, strict=True) if not there}
    return set()


async def _look_at(client: ConsulClient, session: Session, place: Place) -> bool:
    pair = await client.get(place.key, operation="renew")
    # What the session holds is its place's: for another one, which it does not know, the engine's word proves nothing.
    if pair is None or pair.session != session.name or session.places.get(place.bid.election) is not place:
        return False
    place.index = pair.modify_index
    entry = entry_in(pair)
    ours = entry.serial == place.bid.serial and entry.holder == place.bid.holder
    if ours:
        place.resign_asked = entry.resign_asked
    # ``consul kv put`` leaves the flags out, and then nobody takes the key for a lock.
    if not ours or pair.flags != LOCK_FLAG:
        await write_anew(client, place)
    return True


async def write_anew(client: ConsulClient, place: Place) -> bool:
    """Write what the holder of a key has to say, with its token. False: somebody else has written it meanwhile."""
    entry = replace(place.entry, token=place.token, resign_asked=place.resign_asked)
    put = put_if_unchanged(place.key, entry.encode(), LOCK_FLAG, place.index)
    try:
        (written,) = await client.txn([put], operation="proclaim")
    except Conflict:
        return False
    place.index = written.modify_index
    return True


async def leave(client: ConsulClient, session: Session, place: Place) -> None:
    """Unlock the key, whatever was written in it; and have a lock that is still on its way find it changed."""
    held_at = place.index if place.token else None
    for _ in range(_TRIES_MAX):
        if held_at is None:
            pair = await client.get(place.key, operation="release")
            if pair is not None and pair.session == session.name:
                held_at = pair.modify_index
            elif pair is None or place.guard != pair.modify_index:
                return  # Nothing of ours is there, and nothing can come any more.
        if held_at is not None:
            unlocked = unlock(place.key, place.entry.encode(), LOCK_FLAG, session.name)
            ops = [unchanged(place.key, held_at), unlocked]
        else:
            assert place.guard is not None, "who has sent no lock has nothing to fear"
            # Another text than any before it: the engine does not count a write that changes nothing.
            text = replace(place.entry, token=place.guard + 1).encode()
            ops = [put_if_unchanged(place.key, text, LOCK_FLAG, place.guard)]
        try:
            await client.txn(ops, operation="release")
        except Conflict:
            held_at = None
            continue
        return
    raise Unreachable(client.address, "release", f"the key was written by others {_TRIES_MAX} times meanwhile")
