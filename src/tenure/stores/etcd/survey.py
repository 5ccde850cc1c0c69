"""What can be learnt of elections, and said to their leaders, by one who does not stand."""

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Final

from tenure.clients.etcd.client import EtcdClient
from tenure.clients.etcd.messages import KeyValue, Put, Range, Txn, modified, prefix_end
from tenure.errors import OutcomeUnknown, Refused
from tenure.model import Incumbent
from tenure.stores.base import ElectionStatus
from tenure.stores.entry import entry_of
from tenure.stores.etcd.layout import Names, found, looks_like_a_candidate, split
from tenure.stores.etcd.leases import Place

# A cluster may hold a million keys of others (Kubernetes keeps its own there), and all would have to be read.
_LISTED_MAX: Final = 20_000
# All values at once may be more than the client takes as one message: each may have a megabyte and a half.
_READ_MAX: Final = 32
_TRIES_MAX: Final = 4


async def leader_of(client: EtcdClient, names: Names, operation: str) -> KeyValue | None:
    """Return the leader's key, as the cluster agrees on it."""
    answer = await client.range(names.oldest(), operation=operation)
    if answer.kvs and not names.has(answer.kvs[0].key):
        answer = await client.range(names.everybody(), operation=operation)
    leaders = names.candidates(answer.kvs)
    return leaders[0] if leaders else None


async def list_elections(client: EtcdClient, namespace: str) -> list[ElectionStatus]:
    """Return every election below ``namespace`` in which somebody stands. Of the others the engine keeps nothing."""
    start = namespace.encode() or b"\0"
    end = prefix_end(start) if namespace else b"\0"
    everything = Range(start, end, limit=_LISTED_MAX + 1, keys_only=True)
    answer = await client.range(everything, operation="elections")
    if len(answer.kvs) > _LISTED_MAX:
        rule = (
            f"there are more than {_LISTED_MAX} keys: name the election, or put what its name begins with into the URL"
        )
        raise Refused(client.address, "elections", rule)
    queues: dict[bytes, list[KeyValue]] = {}
    for kv in await _read(client, [kv.key for kv in answer.kvs if looks_like_a_candidate(kv.key)]):
        name = split(kv.key, kv.lease)
        if name is not None:
            queues.setdefault(name, []).append(kv)
    return [_status(namespace, name, queues[name]) for name in sorted(queues)]


async def _read(client: EtcdClient, keys: Sequence[bytes]) -> list[KeyValue]:
    """Read keys, of which some may be gone by now, and return them oldest first."""
    kvs: list[KeyValue] = []
    for first in range(0, len(keys), _READ_MAX):
        some = tuple(Range(key) for key in keys[first : first + _READ_MAX])
        answer = await client.txn(Txn((), some, ()), operation="elections")
        kvs += [kv for part in range(len(some)) for kv in found(answer, part)]
    return sorted(kvs, key=attrgetter("create_revision"))


def _status(namespace: str, name: bytes, queue: list[KeyValue]) -> ElectionStatus:
    names = Names.of(namespace, name.decode("utf-8", "replace").removeprefix(namespace))
    leader, *standbys = queue
    return ElectionStatus(
        names.election,
        names.incumbent(leader),
        held_for_ns=None,
        remaining_ns=None,
        resign_asked=names.entry(leader).resign_asked,
        standbys=tuple(names.entry(kv).holder for kv in standbys),
    )


async def proclaim(client: EtcdClient, place: Place, address: str) -> bool:
    """Write anew where a leader is, as ``Proclaim`` in Go does. False: its key is no more.

    A word to resign that was written meanwhile stays: whoever left it was told that it would be heard.
    """
    lease = place.lease
    if lease is None or not place.token:
        return False
    bid, names, key = replace(place.bid, advertise=address), place.names_on(lease), place.key_on(lease)
    entry = entry_of(bid)
    for _ in range(_TRIES_MAX):
        value = (entry.asked_to_resign() if place.resign_asked else entry).encode()
        put = Put(key, value, lease.number)
        unchanged = modified(key, place.modified)
        answer = await client.txn(Txn((unchanged,), (put,), (Range(key),)), operation="proclaim")
        if answer.succeeded:
            place.bid, place.modified = bid, answer.revision
            return True
        there = [kv for kv in found(answer, 0) if kv.create_revision == place.token]
        if not there:
            return False
        place.modified, place.resign_asked = there[0].mod_revision, names.entry(there[0]).resign_asked
    raise OutcomeUnknown(client.address, "proclaim", "the key changed with every try")


async def leave_a_word(client: EtcdClient, names: Names) -> Incumbent | None:
    """Write into the leader's own key that it is asked to leave, as ``Proclaim`` would; it reads that when it renews."""
    for _ in range(_TRIES_MAX):
        leader = await leader_of(client, names, "ask to resign")
        if leader is None:
            return None
        entry = names.entry(leader)
        if entry.serial is None:
            rule = f"{names.election} is led by {entry.holder.host}, which is no tenure program and would not hear it"
            raise Refused(client.address, "ask to resign", rule)
        word = Put(leader.key, entry.asked_to_resign().encode(), leader.lease)
        answer = await client.txn(
            Txn((modified(leader.key, leader.mod_revision),), (word,), ()), operation="ask to resign"
        )
        if answer.succeeded:
            return names.incumbent(leader)
    raise OutcomeUnknown(client.address, "ask to resign", "the leader changed with every try")
