"""What elections on a cluster of etcd cost: beside its own Go library, and beside the requests that must be sent anyway.

Three servers of the newest etcd on this machine. Both sides of a ratio talk to the leader, each in a process of its own.
"""

import re
import sys
import time
from collections import Counter
from contextlib import ExitStack
from functools import partial
from statistics import median
from typing import NamedTuple

from sides import (
    HAND_OVERS,
    IDLE_S,
    PAIRS,
    SLOW_S,
    Figures,
    Many,
    Side,
    busy_percent,
    go_peer,
    handing_over,
    has,
    herd_figures,
    left_out,
    many_figures,
    medians_s,
    our_peer,
    our_side,
    raw_side,
    resident_kib,
    takeovers_s,
    timed,
)

from tenure.testing.engines import EtcdCluster, MissingEngine, Node

TTL_S = 30.0
LONG_TTL_S = 3600.0  # No lease is renewed while something else is counted.
CRASHES, CRASH_TTL_S = 9, 5.0
FAULT_TTL_S = 5.0
FAULT_S = 6.0  # Longer than the ttl, so that a tenure that is not renewed meanwhile is lost.
WAKE_S = 2.0  # More than a heartbeat: by then the holder of a lease has asked for it.
MANY = (Many(1000, 10.0, 1), Many(10_000, 60.0, 1))  # What lingers longest comes last.
_COUNTED = re.compile(
    r'^grpc_server_(?P<what>started|msg_received)_total\{grpc_method="(?P<method>\w+)".*grpc_type="(?P<type>\w+)"\} '
    r"(?P<count>\S+)$",
    re.MULTILINE,
)


class _Fault(NamedTuple):
    """What happens to one server: the one that we talk to, the leader, or both in one."""

    frozen: bool
    ours: bool
    leads: bool


FAULTS = [_Fault(frozen, *whom) for frozen in (False, True) for whom in ((True, True), (True, False), (False, True))]


def _count(cluster: EtcdCluster) -> Counter[str]:
    """Count what has reached the cluster, by its own metrics: calls, and messages of streams."""
    counts: Counter[str] = Counter()
    for node in cluster.nodes:
        for match in _COUNTED.finditer(cluster.metrics(node)):
            if match["what"] == ("started" if match["type"] == "unary" else "msg_received"):
                counts[match["method"]] += int(float(match["count"]))
    return counts


def _keepalives(cluster: EtcdCluster) -> Counter[str]:
    return Counter(keepalives=_count(cluster)["LeaseKeepAlive"])


def _present(cluster: EtcdCluster, name: str) -> int:
    """Return how many candidates of an election there are."""
    told = cluster.ctl("get", f"{name}/", "--prefix", "--count-only", "--write-out=fields")
    return int(told.partition('"Count" :')[2])


def _pairs(endpoint: str, with_go: bool) -> Figures:
    url = f"etcd://{endpoint}"
    with ExitStack() as stack:
        sides: dict[str, Side] = {
            "raw": timed(stack.enter_context(raw_side(url, "raw", LONG_TTL_S))),
            "store": timed(stack.enter_context(our_side(url, "store", TTL_S)), "claim"),
            "lock": timed(stack.enter_context(our_peer("lock", url, "lock", TTL_S))),
        }
        if with_go:
            sides["go"] = timed(stack.enter_context(go_peer("mutex", endpoint, "go", TTL_S)))
        took_s = medians_s(sides, PAIRS)
    yield "etcd: claim + release / the same two requests raw", took_s["store"] / took_s["raw"], 1.15, "x", False
    if with_go:
        yield "etcd: claim + release / Go Mutex", took_s["store"] / took_s["go"], 1.3, "x", False
        yield "etcd: tenure.Lock / Go Mutex", took_s["lock"] / took_s["go"], 2.0, "x", False


def _hand_over(endpoint: str, with_go: bool) -> Figures:
    url = f"etcd://{endpoint}"
    with ExitStack() as stack:
        ours = [stack.enter_context(our_peer("election", url, "turns", TTL_S)) for _ in range(2)]
        raw = [stack.enter_context(raw_side(url, "raw-turns", LONG_TTL_S)) for _ in range(2)]
        sides = {"ours": handing_over(*ours), "raw": handing_over(*raw)}
        if with_go:
            theirs = [stack.enter_context(go_peer("election", endpoint, "go-turns", TTL_S)) for _ in range(2)]
            sides["go"] = handing_over(*theirs)
        took_s = medians_s(sides, HAND_OVERS)
    bounds_s = {"1.15 raw watch + txn": 1.15 * took_s["raw"]}
    if with_go:
        bounds_s["1.5 Go Election"] = 1.5 * took_s["go"]
    larger = max(bounds_s, key=lambda name: bounds_s[name])
    yield f"etcd: hand-over between two processes / {larger}", took_s["ours"] / bounds_s[larger], 1.0, "x", False


def _crash(cluster: EtcdCluster) -> Figures:
    with ExitStack() as stack:
        elections = [f"crash/{number}" for number in range(CRASHES)]
        candidates = [
            stack.enter_context(our_peer("election", cluster.url, election, CRASH_TTL_S))
            for election in elections
            for _ in range(2)
        ]
        took_s = takeovers_s(list(zip(candidates[::2], candidates[1::2], strict=True)), CRASH_TTL_S)
    beyond_s = median(took_s) - CRASH_TTL_S
    yield f"etcd: leader killed, ttl {CRASH_TTL_S:g} s: takeover, p50, beyond the ttl", beyond_s, 0.5, "s", False


def _faults(cluster: EtcdCluster) -> Figures:
    """Break one server after the other under a load of a claim and release every tenth of a second, and a tenure."""
    gap_s = {False: 0.0, True: 0.0}  # by whether the server was frozen
    lost_count = before_count = at_wake_count = 0
    with our_side(cluster.url, "load", FAULT_TTL_S) as peer:
        peer.ask("load", "loaded")
        for fault in FAULTS:
            node = _victim(cluster, fault, peer.ask("where", "there").fields["endpoint"])
            peer.ask("gap", "gap")
            if fault.frozen:
                node.pause()
            else:
                node.kill()
            time.sleep(FAULT_S)
            told = peer.ask("gap", "gap", SLOW_S).fields
            gap_s[fault.frozen] = max(gap_s[fault.frozen], told["gap_ns"] / 1e9)
            lost_count += told["lost_count"] - before_count
            if fault.frozen:
                node.resume()
                time.sleep(WAKE_S)
            else:
                node.start()
            cluster.wait_until_serving(cluster.nodes)
            before_count = peer.ask("gap", "gap", SLOW_S).fields["lost_count"]
            at_wake_count += before_count - told["lost_count"]
    # The deadline of a call, a fifth of the ttl, and then the cluster's own election, which takes up to two seconds.
    yield "etcd: a server killed: longest time without success", gap_s[False], 3.0, "s", False
    yield "etcd: a server frozen: longest time without success", gap_s[True], 3.0, "s", False
    yield f"etcd: tenures of ttl {FAULT_TTL_S:g} s lost by {len(FAULTS)} such faults", lost_count, 0, "", False
    if at_wake_count:
        # Seen with 3.7.3: a leader that was frozen for longer than a ttl may believe, for a moment after it wakes, that it
        # still leads, and have leases ended that were renewed at its successor. Go programs lose them as well.
        print(f"beside it: the engine ended {at_wake_count} live leases when a frozen leader woke", file=sys.stderr)


def _victim(cluster: EtcdCluster, fault: _Fault, our_endpoint: str) -> Node:
    """Return the server that the fault is about, after the leadership was moved to where it has it."""
    our_node = next(node for node in cluster.nodes if node.endpoint == our_endpoint)
    other = next(node for node in cluster.nodes if node is not our_node)
    wanted, leader = our_node if fault.ours and fault.leads else other, cluster.leader()
    if leader is not wanted:
        number = cluster.ctl("endpoint", "status", node=wanted).split(",")[1].strip()
        cluster.ctl("move-leader", number, node=leader)
    return our_node if fault.ours else wanted


def _go_many(cluster: EtcdCluster) -> None:
    count, ttl_s, _ = MANY[0]
    with go_peer("election", ",".join(cluster.endpoints), "go-many", ttl_s) as peer:
        before_kib = resident_kib(peer.pid)
        peer.ask(f"many {count}", "held", SLOW_S)
        kib_each, percent = (resident_kib(peer.pid) - before_kib) / count, busy_percent(peer, IDLE_S)
    print(f"beside it: {count} elections of Go on one lease: {kib_each:.2f} KiB each, {percent:.2f} %", file=sys.stderr)


def figures() -> Figures:
    with_go = has("go")
    try:
        with EtcdCluster() as cluster:
            endpoint = cluster.leader().endpoint
            yield from _pairs(endpoint, with_go)
            yield from _hand_over(endpoint, with_go)
            yield from _crash(cluster)
            count, present = partial(_count, cluster), partial(_present, cluster)
            yield from herd_figures("etcd", cluster.url, LONG_TTL_S, count, present)
            yield from _faults(cluster)
            if with_go:
                _go_many(cluster)
            yield from many_figures("etcd", cluster.url, MANY, partial(_keepalives, cluster))
    except MissingEngine as missing:
        left_out(missing)
