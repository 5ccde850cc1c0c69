"""What elections on Kubernetes cost: beside client-go, and beside the requests that must be sent anyway.

One API server over three servers of etcd. Both sides of a ratio talk to it, each in a process of its own.
"""

import re
import sys
import time
from collections import Counter
from contextlib import ExitStack
from statistics import median

from sides import (
    HERE,
    IDLE_S,
    PAIRS,
    SLOW_S,
    Figures,
    Side,
    busy_percent,
    handing_over,
    has,
    left_out,
    medians_s,
    our_peer,
    our_side,
    takeovers_s,
    timed,
)
from tests.peers.driver import Peer, start_peer

from tenure.testing.engines import KubernetesCluster, MissingEngine
from tenure.timing import Timing

TTL_S = 15.0  # client-go's own, and so 10 s and 2 s
HAND_OVERS = 4  # client-go takes seconds over each
CRASHES = 4
MANY, MANY_TTL_S = 500, 60.0
_COUNTED = re.compile(
    r'^apiserver_request_total\{.*resource="leases".*verb="(?P<verb>\w+)".*\} (?P<count>\S+)$', re.MULTILINE
)
_WATCHES = re.compile(r'^apiserver_longrunning_requests\{.*resource="leases".*verb="WATCH".*\} (\d+)$', re.MULTILINE)


def _count(cluster: KubernetesCluster) -> Counter[str]:
    """Count the requests about Leases, by the API server's own metrics; its own are among them."""
    counts: Counter[str] = Counter()
    for match in _COUNTED.finditer(cluster.kubectl("get", "--raw", "/metrics")):
        counts[match["verb"]] += int(float(match["count"]))
    return counts


def _watch_count(cluster: KubernetesCluster) -> int:
    return sum(map(int, _WATCHES.findall(cluster.kubectl("get", "--raw", "/metrics"))))


def _raw_side(url: str, name: str) -> Peer:
    return Peer(name, [sys.executable, str(HERE / "kubernetes_raw.py"), url, name, f"{TTL_S:g}"], {})


def _pairs(cluster: KubernetesCluster) -> Figures:
    with ExitStack() as stack:
        sides: dict[str, Side] = {
            "raw": timed(stack.enter_context(_raw_side(cluster.url, "raw"))),
            "store": timed(stack.enter_context(our_side(cluster.url, "store", TTL_S)), "claim"),
        }
        took_s = medians_s(sides, PAIRS)
    ratio = took_s["store"] / took_s["raw"]
    yield "Kubernetes: claim + release / the same two requests raw", ratio, 1.5, "x", False


def _hand_over(cluster: KubernetesCluster, with_go: bool) -> Figures:
    with ExitStack() as stack:
        ours = [stack.enter_context(our_peer("election", cluster.url, "turns", TTL_S)) for _ in range(2)]
        sides = {"ours": handing_over(*ours)}
        if with_go:
            theirs = [
                stack.enter_context(start_peer("go", "release", cluster, "go-turns", f"go-{number}", ttl_s=TTL_S))
                for number in range(2)
            ]
            sides["go"] = handing_over(*theirs)
        took_s = medians_s(sides, HAND_OVERS)
    yield "Kubernetes: hand-over between two processes, p50", 1000 * took_s["ours"], 150, "ms", False
    if with_go:
        ratio = took_s["go"] / took_s["ours"]
        yield "Kubernetes: the same with client-go and ReleaseOnCancel takes", ratio, 5, "x", True


def _crash(cluster: KubernetesCluster, with_go: bool) -> Figures:
    with ExitStack() as stack:
        pairs = []
        for number in range(CRASHES):
            ours = [our_peer("election", cluster.url, f"crash-{number}", TTL_S) for _ in range(2)]
            pairs.append((stack.enter_context(ours[0]), stack.enter_context(ours[1])))
            if with_go:
                theirs = [
                    stack.enter_context(start_peer("go", "release", cluster, f"go-crash-{number}", who, ttl_s=TTL_S))
                    for who in ("one", "two")
                ]
                pairs.append((theirs[0], theirs[1]))
        took_s = takeovers_s(pairs, TTL_S)
    step = 2 if with_go else 1
    ours_s = median(took_s[::step])
    # The floor: nobody may be in office before a ttl has passed since the last renewal.
    yield (
        f"Kubernetes: leader killed, lease {TTL_S:g} s: takeover, p50, beyond the lease",
        ours_s - TTL_S,
        0.5,
        "s",
        False,
    )
    if with_go:
        yield "Kubernetes: the same / client-go", ours_s / median(took_s[1::2]), 1.0, "x", False


def _own_per_second(cluster: KubernetesCluster) -> float:
    """Return how often the API server itself asks about Leases: it renews one, and looks at others."""
    before, began_s = _count(cluster), time.monotonic()
    time.sleep(IDLE_S)
    return (_count(cluster) - before).total() / (time.monotonic() - began_s)


def _many(cluster: KubernetesCluster) -> Figures:
    heartbeat_s = Timing.of(ttl=MANY_TTL_S).renew_every_ns / 1e9
    window_s = max(IDLE_S, 2 * heartbeat_s)
    watches = _watch_count(cluster)
    own_per_second = _own_per_second(cluster)
    with our_side(cluster.url, "many", MANY_TTL_S) as peer:
        kib_each = peer.ask(f"many {MANY}", "held", SLOW_S).fields["kib_each"]
        watches = _watch_count(cluster) - watches
        before, began_s = _count(cluster), time.monotonic()
        idle_percent = busy_percent(peer, window_s)
        sent = _count(cluster) - before
        per_second = sent.total() / (time.monotonic() - began_s) - own_per_second
    with _raw_side(cluster.url, "raw-renewals") as raw:
        raw.ask(f"keep {MANY / heartbeat_s}", "held", SLOW_S)
        raw_percent = busy_percent(raw, window_s)
    beside = f"{MANY / heartbeat_s:.1f} renewals a second, raw on aiohttp with nothing around them: {raw_percent:.2f} %"
    print(f"beside it: {beside}", file=sys.stderr)
    what = f"Kubernetes: {MANY} leaders in one process, ttl {MANY_TTL_S:g} s"
    yield f"{what}, each", kib_each, 6.0, "KiB", False
    yield f"{what}, idle", idle_percent, 2.0, "%", False
    yield f"{what}, watches", watches, 1, "", False
    # One for each in a heartbeat, and whole ones: what falls into the window at its ends is chance.
    yield f"{what}, requests a second", round(per_second), MANY / heartbeat_s, "", False


def figures() -> Figures:
    with_go = has("go")
    try:
        with KubernetesCluster() as cluster:
            yield from _pairs(cluster)
            yield from _hand_over(cluster, with_go)
            yield from _crash(cluster, with_go)
            yield from _many(cluster)
    except MissingEngine as missing:
        left_out(missing)
