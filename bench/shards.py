"""What shards cost: one process that owns a hundred, a thousand and ten thousand of them, in one etcd of three nodes.

A heartbeat must cost the same whatever their number: one keepalive, and a few looks at the roster. Requests are counted by the
engine, not by us.
"""

from collections.abc import Generator
from functools import partial

from etcd import count_keepalives, count_requests
from rows import Figure, Figures, NotMeasured, Row, exactly
from sides import SLOW_S, busy_percent, count_between_two, lost, our_side, whole_heartbeats

from tenure.testing.engines import EtcdCluster, MissingEngine
from tenure.timing import Timing

SIZES = (100, 1000, 10_000)
TTL_S = 30.0
GROWTH_MAX = 1.1  # One look more or less falls between the beginning and the end of the count.


def figures() -> Figures:
    try:
        with EtcdCluster() as cluster:
            requests = {}
            for count in SIZES:
                requests[count] = yield from _owned_by_one(cluster, count)
            what = f"shards: requests of any kind per heartbeat, for {SIZES[-1]} / for {SIZES[0]}"
            yield what, requests[SIZES[-1]] / requests[SIZES[0]], GROWTH_MAX, "x", False
    except MissingEngine as missing:
        yield NotMeasured("shards: every figure", str(missing))


def _owned_by_one(cluster: EtcdCluster, count: int) -> Generator[Row, None, float]:
    """Tell what so many cost, and return the number of requests of any kind per heartbeat."""
    heartbeat_s = Timing.of(ttl=TTL_S).renew_every_ns / 1e9
    heartbeats = whole_heartbeats(heartbeat_s)
    with our_side(cluster.url, f"shards/{count}", TTL_S) as peer:
        took_s = peer.ask(f"shards {count}", "owned", SLOW_S).fields["took_s"]
        keepalives = count_between_two(partial(count_keepalives, cluster), heartbeat_s)
        requests = count_requests(cluster)
        idle_percent = busy_percent(peer, heartbeats * heartbeat_s)
        keepalives, requests = count_keepalives(cluster) - keepalives, count_requests(cluster) - requests
        lost_count = lost(peer)
    what = f"shards: {count} owned by one process in etcd, ttl {TTL_S:g} s"
    # The members wait for a heartbeat whether others come, and then claim: so many at a time.
    yield Figure(f"{what}, from its start until all are owned", took_s, None, "s")
    yield exactly(f"{what}, keepalives per heartbeat", keepalives.total() / heartbeats, 1)
    yield Figure(f"{what}, requests of any kind per heartbeat", requests.total() / heartbeats, None)
    yield f"{what}, idle", idle_percent, 1.0, "%", False
    yield exactly(f"{what}, tenures lost", lost_count, 0)
    return requests.total() / heartbeats
