"""What elections on Kubernetes cost: beside client-go, and beside the requests that must be sent anyway.

One API server over three servers of etcd. Both sides of a ratio talk to it, each in a process of its own.
"""

import random
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime
from statistics import median

from rows import NotMeasured, exactly, told
from sides import (
    HERE,
    IDLE_S,
    PAIRS,
    RESTING_PERCENT,
    SLOW_S,
    Figures,
    Side,
    busy_percent,
    handing_over,
    lost,
    medians_s,
    our_peer,
    our_side,
    timed,
    whole_heartbeats,
    why_no_peer,
)
from tests.peers.driver import Peer, start_peer

from tenure.testing.engines import KubernetesCluster, MissingEngine
from tenure.testing.engines.processes import wait_for
from tenure.timing import Timing

TTL_S = 15.0  # client-go's own, and so 10 s and 2 s
HAND_OVERS = 4  # client-go takes seconds over each
CRASHES = 4
MANY, MANY_TTL_S = 500, 60.0
LOOKED_AGAIN_TTLS = 2.5  # By then each standby has looked by itself, however silent its watch was.
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


def _hand_over(cluster: KubernetesCluster, no_go: str) -> Figures:
    with ExitStack() as stack:
        ours = [stack.enter_context(our_peer("election", cluster.url, "turns", TTL_S)) for _ in range(2)]
        sides = {"ours": handing_over(*ours)}
        if not no_go:
            theirs = [
                stack.enter_context(start_peer("go", "release", cluster, "go-turns", f"go-{number}", ttl_s=TTL_S))
                for number in range(2)
            ]
            sides["go"] = handing_over(*theirs)
        took_s = medians_s(sides, HAND_OVERS)
    yield "Kubernetes: hand-over between two processes, p50", 1000 * took_s["ours"], 150, "ms", False
    what = "Kubernetes: the same with client-go and ReleaseOnCancel takes"
    yield NotMeasured(what, no_go) if no_go else (what, took_s["go"] / took_s["ours"], 5, "x", True)


def _renewed_at_ns(cluster: KubernetesCluster, lease: str) -> int:
    """Return when the holder of a Lease has last renewed it, as it wrote itself, on the clock by which peers tell of events."""
    said = cluster.kubectl("get", "lease", lease, "--output=jsonpath={.spec.renewTime}")
    ago_ns = time.time_ns() - round(datetime.fromisoformat(said).timestamp() * 1e9)
    return time.monotonic_ns() - ago_ns


def _takeovers_s(cluster: KubernetesCluster, pairs: Sequence[tuple[str, Peer, Peer]]) -> list[tuple[float, float]]:
    """Kill the leader by each Lease, at no fixed distance from its renewals, and return how long the other one took.

    First from the kill on, and then from the last renewal on: what must be waited for is counted from there.
    """
    for _, leader, standby in pairs:
        leader.campaign()
        leader.wait_leading()
        standby.campaign()
        standby.wait_standing()
    time.sleep(TTL_S / 2)  # By then each was renewed, as in the middle of a long life.
    killed_at_ns, renewed_at_ns = {}, {}
    for lease, leader, _ in random.sample(pairs, len(pairs)):
        time.sleep(random.uniform(0, 0.5))
        killed_at_ns[lease] = time.monotonic_ns()
        leader.kill()
        renewed_at_ns[lease] = _renewed_at_ns(cluster, lease)  # Nobody else writes it for the rest of the lease.
    led_at_ns = {lease: standby.wait_leading(4 * TTL_S).at_ns for lease, _, standby in pairs}
    return [
        ((led_at_ns[lease] - killed_at_ns[lease]) / 1e9, (led_at_ns[lease] - renewed_at_ns[lease]) / 1e9)
        for lease, *_ in pairs
    ]


def _crash(cluster: KubernetesCluster, no_go: str) -> Figures:
    with ExitStack() as stack:
        pairs = []
        for number in range(CRASHES):
            ours = [our_peer("election", cluster.url, f"crash-{number}", TTL_S) for _ in range(2)]
            pairs.append((f"crash-{number}", stack.enter_context(ours[0]), stack.enter_context(ours[1])))
            if not no_go:
                theirs = [
                    stack.enter_context(start_peer("go", "release", cluster, f"go-crash-{number}", who, ttl_s=TTL_S))
                    for who in ("one", "two")
                ]
                pairs.append((f"go-crash-{number}", theirs[0], theirs[1]))
        took_s = _takeovers_s(cluster, pairs)
    step = 1 if no_go else 2
    from_kill_s, from_renewal_s = (median(both) for both in zip(*took_s[::step], strict=True))
    what = f"Kubernetes: leader killed, lease {TTL_S:g} s: takeover"
    # The floor: nobody may be in office before a lease has passed since the last renewal was seen.
    yield f"{what} after its last renewal, p50, beyond the lease", from_renewal_s - TTL_S, 0.5, "s", False
    yield told(f"{what} after the kill, p50", from_kill_s, "s")
    ratio = f"{what} after the kill, p50 / client-go"
    if no_go:
        yield NotMeasured(ratio, no_go)
        return
    their_kill_s, their_renewal_s = (median(both) for both in zip(*took_s[1::2], strict=True))
    yield ratio, from_kill_s / their_kill_s, 1.0, "x", False
    yield told(f"{what} after its last renewal, p50, beyond the lease, client-go", their_renewal_s - TTL_S, "s")


def _own_per_second(cluster: KubernetesCluster) -> float:
    """Return how often the API server itself asks about Leases: it renews one, and looks at others."""
    before, began_s = _count(cluster), time.monotonic()
    time.sleep(IDLE_S)
    return (_count(cluster) - before).total() / (time.monotonic() - began_s)


def _many(cluster: KubernetesCluster) -> Figures:
    heartbeat_s = Timing.of(ttl=MANY_TTL_S).renew_every_ns / 1e9
    heartbeats = whole_heartbeats(heartbeat_s)
    watches = _watch_count(cluster)
    own_per_second = _own_per_second(cluster)
    what = f"Kubernetes: {MANY} leaders in one process, ttl {MANY_TTL_S:g} s"
    with our_side(cluster.url, "many", MANY_TTL_S) as leaders:
        yield f"{what}, each", leaders.ask(f"many {MANY}", "held", SLOW_S).fields["kib_each"], 6.0, "KiB", False
        watches = _watch_count(cluster) - watches
        before, began_s = _count(cluster), time.monotonic()
        idle_percent = busy_percent(leaders, heartbeats * heartbeat_s)
        sent = _count(cluster) - before
        per_second = sent.total() / (time.monotonic() - began_s) - own_per_second
        yield f"{what}, idle", idle_percent, 2.0, "%", False
        yield exactly(f"{what}, watches", watches, 1)
        # Whole ones: what falls into the window at its ends is chance.
        yield f"{what}, requests a second", round(per_second), MANY / heartbeat_s, "", False
        # The one more is the first, by which the memory of many is measured.
        each = per_second * heartbeat_s / (MANY + 1)
        yield exactly(f"{what}, requests for each per heartbeat, in tenths", round(each, 1), 1)
        yield exactly(f"{what}, tenures lost", lost(leaders), 0)
        yield from _standbys(cluster, leaders)
    with _raw_side(cluster.url, "raw-renewals") as raw:
        raw.ask(f"keep {MANY / heartbeat_s}", "held", SLOW_S)
        raw_percent = busy_percent(raw, heartbeats * heartbeat_s)
    beside = f"Kubernetes: {MANY / heartbeat_s:.1f} renewals a second, raw on aiohttp with nothing around them"
    yield told(beside, raw_percent, "%")


def _standbys(cluster: KubernetesCluster, leaders: Peer) -> Figures:
    """Count what as many standbys in a process of their own ask for, by their client, until each has looked again by itself.

    That they stood, and did not just ask for nothing, is shown at last: the leaders leave, and each of them comes into office.
    """
    what = f"Kubernetes: {MANY} standbys in one process, ttl {MANY_TTL_S:g} s"
    watches = _watch_count(cluster)
    with our_side(cluster.url, "many", MANY_TTL_S) as standbys:
        standbys.ask(f"stand {MANY}", "standing", SLOW_S)
        resting = wait_for(lambda: busy_percent(standbys, 1.0) < RESTING_PERCENT, SLOW_S)
        assert resting, "the standbys do not come to rest"
        yield exactly(f"{what}, watches", _watch_count(cluster) - watches, 1)
        before, window_s = _asked(standbys), LOOKED_AGAIN_TTLS * MANY_TTL_S
        idle_percent = busy_percent(standbys, window_s)
        per_minute = (_asked(standbys) - before) / MANY / window_s * 60
        lost_count = lost(leaders)
        leaders.ask("leave", "left", SLOW_S)
        standbys.ask(f"succeed {MANY}", "succeeded", SLOW_S)
    yield exactly(f"{what}, tenures of their leaders lost", lost_count, 0)
    # A watch may die without a word, so a standby looks by itself every two ttl. client-go does so every two seconds.
    yield f"{what}, requests per election and minute", per_minute, 60 / (2 * MANY_TTL_S), "", False
    yield told(f"{what}, idle", idle_percent, "%")


def _asked(peer: Peer) -> int:
    return int(peer.ask("requests", "requests").fields["count"])


def figures() -> Figures:
    no_go = why_no_peer("go")
    try:
        with KubernetesCluster() as cluster:
            yield from _pairs(cluster)
            yield from _hand_over(cluster, no_go)
            yield from _crash(cluster, no_go)
            yield from _many(cluster)
    except MissingEngine as missing:
        yield NotMeasured("Kubernetes: every figure", str(missing))
