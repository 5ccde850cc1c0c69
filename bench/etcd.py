"""What elections on a cluster of etcd cost: beside its own Go library, and beside the requests that must be sent anyway.

Three servers of the newest etcd on this machine. Both sides of a ratio talk to the leader, each in a process of its own.
"""

import re
from collections import Counter
from contextlib import ExitStack
from functools import partial
from statistics import median

from faults import FAULTS, Fault, loaded, longest_s, lost_at_wake, lost_by, meet
from faults import TTL_S as FAULT_TTL_S
from rows import Figure, NotMeasured, told
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
    herd_figures,
    many_figures,
    medians_s,
    our_peer,
    our_side,
    raw_side,
    resident_kib,
    takeovers_s,
    timed,
    why_no_peer,
)
from tests.peers.driver import Peer

from tenure.testing.engines import EtcdCluster, MissingEngine, Node

TTL_S = 30.0
LONG_TTL_S = 3600.0  # No lease is renewed while something else is counted.
CRASHES, CRASH_TTL_S = 9, 5.0
MANY = (Many(1000, 10.0, 1, 1), Many(10_000, 60.0, 1, 1))  # What lingers longest comes last.
_COUNTED = re.compile(
    r'^grpc_server_(?P<what>started|msg_received)_total\{grpc_method="(?P<method>\w+)".*grpc_type="(?P<type>\w+)"\} '
    r"(?P<count>\S+)$",
    re.MULTILINE,
)


def count_requests(cluster: EtcdCluster) -> Counter[str]:
    """Count what has reached the cluster, by its own metrics: calls, and messages of streams."""
    counts: Counter[str] = Counter()
    for node in cluster.nodes:
        for match in _COUNTED.finditer(cluster.metrics(node)):
            if match["what"] == ("started" if match["type"] == "unary" else "msg_received"):
                counts[match["method"]] += int(float(match["count"]))
    return counts


def count_keepalives(cluster: EtcdCluster) -> Counter[str]:
    return Counter(keepalives=count_requests(cluster)["LeaseKeepAlive"])


def _present(cluster: EtcdCluster, name: str) -> int:
    """Return how many candidates of an election there are."""
    told = cluster.ctl("get", f"{name}/", "--prefix", "--count-only", "--write-out=fields")
    return int(told.partition('"Count" :')[2])


def _pairs(endpoint: str, no_go: str) -> Figures:
    url = f"etcd://{endpoint}"
    with ExitStack() as stack:
        sides: dict[str, Side] = {
            "raw": timed(stack.enter_context(raw_side(url, "raw", LONG_TTL_S))),
            "store": timed(stack.enter_context(our_side(url, "store", TTL_S)), "claim"),
            "lock": timed(stack.enter_context(our_peer("lock", url, "lock", TTL_S))),
        }
        if not no_go:
            sides["go"] = timed(stack.enter_context(go_peer("mutex", endpoint, "go", TTL_S)))
        took_s = medians_s(sides, PAIRS)
    yield "etcd: claim + release / the same two requests raw", took_s["store"] / took_s["raw"], 1.15, "x", False
    for ours, name, goal in (("store", "claim + release", 1.3), ("lock", "tenure.Lock", 2.0)):
        what = f"etcd: {name} / Go Mutex"
        yield NotMeasured(what, no_go) if no_go else (what, took_s[ours] / took_s["go"], goal, "x", False)


def _hand_over(endpoint: str, no_go: str) -> Figures:
    url = f"etcd://{endpoint}"
    with ExitStack() as stack:
        ours = [stack.enter_context(our_peer("election", url, "turns", TTL_S)) for _ in range(2)]
        raw = [stack.enter_context(raw_side(url, "raw-turns", LONG_TTL_S)) for _ in range(2)]
        sides = {"ours": handing_over(*ours), "raw": handing_over(*raw)}
        if not no_go:
            theirs = [stack.enter_context(go_peer("election", endpoint, "go-turns", TTL_S)) for _ in range(2)]
            sides["go"] = handing_over(*theirs)
        took_s = medians_s(sides, HAND_OVERS)
    bounds_s = {"1.15 raw watch + txn": 1.15 * took_s["raw"]}
    what = "etcd: hand-over between two processes"
    if no_go:
        yield NotMeasured(f"{what} / 1.5 Go Election", no_go)
    else:
        bounds_s["1.5 Go Election"] = 1.5 * took_s["go"]
    larger = max(bounds_s, key=lambda name: bounds_s[name])
    yield f"{what} / {larger}", took_s["ours"] / bounds_s[larger], 1.0, "x", False


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


def _faults(cluster: EtcdCluster, no_go: str) -> Figures:
    """Break one server after the other under load, while an Election of Go is led beside it."""
    theirs = None if no_go else partial(go_peer, "election", ",".join(cluster.endpoints), "go-led")
    outcomes = meet(cluster, partial(_arranged, cluster), FAULTS, FAULT_TTL_S, theirs)
    # The deadline of a call, a fifth of the ttl, and then the cluster's own election, which takes up to two seconds.
    for frozen, done in ((False, "killed"), (True, "frozen")):
        gap_s = longest_s([outcome for fault, outcome in outcomes.items() if fault.frozen == frozen])
        yield f"etcd: a server {done}: longest time without success", gap_s, 3.0, "s", False
    met = list(outcomes.values())
    yield f"etcd: tenures of ttl {FAULT_TTL_S:g} s lost by {len(FAULTS)} such faults", lost_by(met), 0, "", False
    frozen_count = sum(fault.frozen for fault in FAULTS)
    yield Figure(
        f"etcd: tenures of ttl {FAULT_TTL_S:g} s lost when {frozen_count} frozen servers woke",
        lost_at_wake(met),
        0,
        # Seen with 3.7.3. The lease is gone, whoever holds it.
        note="A leader that was frozen for longer than a ttl may believe, for a moment after it wakes, that it still leads, "
        "and have leases ended that were renewed at its successor.",
    )
    what = f"etcd: sessions of Go's Election, ttl {FAULT_TTL_S:g} s, lost by the same faults and wakes"
    lost_by_go = sum(outcome.theirs_lost for outcome in met)
    yield NotMeasured(what, no_go) if no_go else told(what, lost_by_go, "")


def _arranged(cluster: EtcdCluster, stack: ExitStack, fault: Fault, ttl_s: float) -> tuple[Peer, Node]:
    """Start the load, and move the leadership to where the fault has it."""
    peer, our_endpoint = loaded(stack, cluster.url, ttl_s)
    our_node = next(node for node in cluster.nodes if node.endpoint == our_endpoint)
    other = next(node for node in cluster.nodes if node is not our_node)
    wanted, leader = our_node if fault.ours and fault.leads else other, cluster.leader()
    if leader is not wanted:
        number = cluster.ctl("endpoint", "status", node=wanted).split(",")[1].strip()
        cluster.ctl("move-leader", number, node=leader)
    return peer, our_node if fault.ours else wanted


def _go_many(cluster: EtcdCluster) -> Figures:
    count, ttl_s = MANY[0].elections, MANY[0].ttl_s
    with go_peer("election", ",".join(cluster.endpoints), "go-many", ttl_s) as peer:
        before_kib = resident_kib(peer.pid)
        peer.ask(f"many {count}", "held", SLOW_S)
        kib_each, percent = (resident_kib(peer.pid) - before_kib) / count, busy_percent(peer, IDLE_S)
    what = f"etcd: {count} elections of Go on one lease"
    yield told(f"{what}, each", kib_each, "KiB")
    yield told(f"{what}, idle", percent, "%")


def figures() -> Figures:
    no_go = why_no_peer("go")
    try:
        with EtcdCluster() as cluster:
            endpoint = cluster.leader().endpoint
            yield from _pairs(endpoint, no_go)
            yield from _hand_over(endpoint, no_go)
            yield from _crash(cluster)
            count, present = partial(count_requests, cluster), partial(_present, cluster)
            yield from herd_figures("etcd", f"etcd://{endpoint}", LONG_TTL_S, count, present)
            yield from _faults(cluster, no_go)
            if not no_go:
                yield from _go_many(cluster)
            yield from many_figures("etcd", cluster.url, MANY, partial(count_keepalives, cluster))
    except MissingEngine as missing:
        yield NotMeasured("etcd: every figure", str(missing))
