"""The roll call: which of the places on a lease are still there.

A lease that lives says nothing of its keys: one of them may have been deleted by hand. A few places are compared in one
transaction, which is exact. Many are too many for that: the engine takes 128 comparisons, and a hundred transactions per
heartbeat would cost a process with 10,000 elections several percent of a core. For them the lease is asked which keys it
has, in one request. Those that it has not are all looked at more closely, and of the others the hundred that were looked at
longest ago: whether somebody asks their holder to leave. So a renewal costs the same for a thousand as for ten thousand. One key for each lease that such a word would touch as well, for every roll call to
compare, would tell at once; but a user's role may allow no more than the names of its elections.

A plain put by hand takes a key off its lease, and it would then stay for ever when its holder is gone. It is put back.
"""

from collections.abc import Mapping, Sequence
from heapq import nsmallest
from operator import attrgetter
from typing import Final

from tenure.clients.etcd.client import EtcdClient
from tenure.clients.etcd.messages import KeyValue, Put, Range, Txn, modified
from tenure.stores.etcd.layout import found
from tenure.stores.etcd.leases import Lease, Place

COMPARED_MAX: Final = 100


async def call_the_roll(client: EtcdClient, lease: Lease, places: Sequence[Place]) -> set[Place]:
    """Return which of these places, all on ``lease``, the engine has no more, and note what it has for the others."""
    if len(places) <= COMPARED_MAX:
        return await _look_at(client, lease, places)
    _, keys = await client.lease_keys(lease.number)
    there = set(keys)
    astray = [place for place in places if place.key_on(lease) not in there]
    in_turn = nsmallest(COMPARED_MAX, places, key=attrgetter("looked_in"))
    closely = list(dict.fromkeys([*astray, *in_turn]))
    lease.roll_number += 1
    gone: set[Place] = set()
    for at in range(0, len(closely), COMPARED_MAX):
        some = closely[at : at + COMPARED_MAX]
        gone |= await _look_at(client, lease, some)
        for place in some:
            place.looked_in = lease.roll_number
    return gone


async def _look_at(client: EtcdClient, lease: Lease, places: Sequence[Place]) -> set[Place]:
    keys = [place.key_on(lease) for place in places]
    compare = tuple(modified(key, place.modified) for key, place in zip(keys, places, strict=True))
    # A transaction without any read in it is answered from a member's memory, which may be old.
    unchanged = (Range(keys[0], keys_only=True),)
    answer = await client.txn(Txn(compare, unchanged, tuple(map(Range, keys))), operation="renew")
    lease.read_term = answer.term
    if answer.succeeded:
        return set()
    astray: dict[Place, KeyValue] = {}
    gone = set(places)
    for number, place in enumerate(places):
        for kv in found(answer, number):
            if kv.create_revision == place.token:
                gone.discard(place)
                place.resign_asked = place.names_on(lease).entry(kv).resign_asked
                if kv.lease == lease.number:
                    place.modified = kv.mod_revision
                else:
                    astray[place] = kv
    if astray:
        await _put_back(client, lease, astray)
    return gone


async def _put_back(client: EtcdClient, lease: Lease, astray: Mapping[Place, KeyValue]) -> None:
    unchanged_since = tuple(modified(kv.key, kv.mod_revision) for kv in astray.values())
    puts = tuple(Put(kv.key, kv.value, lease.number) for kv in astray.values())
    answer = await client.txn(Txn(unchanged_since, puts, ()), operation="renew")
    if answer.succeeded:  # Else what they were last seen as is out of date, and so they are looked at again.
        for place in astray:
            place.modified = answer.revision
