"""What can be learnt of elections, and said to their leaders, by one who does not stand."""

from dataclasses import replace
from typing import Final

from tenure.clients.etcd.client import EtcdClient
from tenure.clients.etcd.messages import KeyValue, Put, Range, Txn, created, modified, prefix_end
from tenure.errors import OutcomeUnknown, Refused
from tenure.model import Incumbent
from tenure.stores.base import ElectionStatus
from tenure.stores.entry import entry_of
from tenure.stores.etcd.layout import Names, split
from tenure.stores.etcd.leases import Place

# A cluster may hold a million keys of others (Kubernetes keeps its own there), and all would have to be read.
_LISTED_MAX: Final = 20_000
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
    everything = Range(start, prefix_end(start) if namespace else b"\0", limit=_LISTED_MAX + 1, oldest_first=True)
    answer = await client.range(everything, operation="elections")
    if len(answer.kvs) > _LISTED_MAX:
        rule = (
            f"there are more than {_LISTED_MAX} keys: name the election, or put what its name begins with into the URL"
        )
        raise Refused(client.address, "elections", rule)
    queues: dict[bytes, list[KeyValue]] = {}
    for kv in answer.kvs:
        name = split(kv.key, kv.lease)
        if name is not None:
            queues.setdefault(name, []).append(kv)
    return [_status(namespace, name, queues[name]) for name in sorted(queues)]


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
    """Write anew where a leader is, as ``Proclaim`` in Go does. False: its key is no more."""
    if place.lease is None or not place.revision:
        return False
    bid = replace(place.bid, advertise=address)
    value = entry_of(bid).encode()
    put = Put(place.key, value, place.lease.number)
    answer = await client.txn(Txn((created(place.key, place.revision),), (put,), ()), operation="proclaim")
    if answer.succeeded:
        place.bid, place.value, place.modified = bid, value, answer.revision
    return answer.succeeded


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
