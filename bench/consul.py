"""What elections on Consul cost: beside its own Go library, and beside the requests that must be sent anyway.

Three servers of Consul as it is shipped, but for ``raft_multiplier = 1``, as its makers advise for production. Both sides of a ratio talk to the leader, each in a process of its own.
"""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from statistics import median

from sides import (
    HAND_OVERS,
    HERE,
    PAIRS,
    Figures,
    Side,
    handing_over,
    has,
    left_out,
    medians_s,
    our_peer,
    our_side,
    takeovers_s,
    timed,
)
from tests.peers.driver import Peer, built

from tenure.testing.engines import ConsulCluster, MissingEngine

TTL_S = 60.0  # No session is renewed while something else is measured, unless a claim does it.
CRASHES, CRASH_TTL_S = 6, 10.0  # the shortest that Consul gives as shipped
COMMAND_TTL_S = 15.0  # of the sessions of ``consul lock``: it has no setting for that
LOCK_DELAY_S = 15.0  # as shipped, for whoever has no fence


def _raw_side(endpoint: str, name: str) -> Peer:
    return Peer(name, [sys.executable, str(HERE / "consul_raw.py"), endpoint, name, f"{TTL_S:g}"], {})


def _go_peer(cluster: ConsulCluster, kind: str, name: str, ttl_s: float) -> Peer:
    command = [str(built("go") / "consul"), kind, f"{name}/.lock", f"{ttl_s:g}", "0"]
    return Peer(name, command, cluster.environment(cluster.leader()))


def _command_peer(cluster: ConsulCluster, name: str) -> Peer:
    command = [sys.executable, "-m", "tests.peers.consul_peer", cluster.binary.tool, "lock", name]
    return Peer(name, command, cluster.environment(cluster.leader()))


def _pairs(cluster: ConsulCluster, with_go: bool) -> Figures:
    endpoint = cluster.leader().endpoint
    url = f"consul://{endpoint}"
    with ExitStack() as stack:
        sides: dict[str, Side] = {
            "raw": timed(stack.enter_context(_raw_side(endpoint, "raw"))),
            "store": timed(stack.enter_context(our_side(url, "store", TTL_S)), "claim"),
            "lock": timed(stack.enter_context(our_peer("lock", url, "lock", TTL_S))),
        }
        if with_go:
            sides["go"] = timed(stack.enter_context(_go_peer(cluster, "session", "go", TTL_S)))
        took_s = medians_s(sides, PAIRS)
    yield "Consul: claim + release / the same requests raw on aiohttp", took_s["store"] / took_s["raw"], 1.5, "x", False
    if with_go:
        yield "Consul: claim + release / Go api Lock, one session", took_s["store"] / took_s["go"], 1.5, "x", False
        yield "Consul: tenure.Lock / Go api Lock, one session", took_s["lock"] / took_s["go"], 2.0, "x", False


def _hand_over(cluster: ConsulCluster) -> Figures:
    url = f"consul://{cluster.leader().endpoint}"
    with ExitStack() as stack:
        ours = [stack.enter_context(our_peer("election", url, "turns", TTL_S)) for _ in range(2)]
        theirs = [stack.enter_context(_go_peer(cluster, "lock", "go-turns", TTL_S)) for _ in range(2)]
        took_s = medians_s({"ours": handing_over(*ours), "go": handing_over(*theirs)}, HAND_OVERS)
    what = "Consul: hand-over between two processes / Go api Lock"
    yield what, took_s["ours"] / took_s["go"], 1.5, "x", False


def _crash(cluster: ConsulCluster, ttl_s: float, whose: str, their_peer: Callable[[str], Peer]) -> Figures:
    """Kill leaders of ours, with a fence and without, and of others, whose sessions are of the same length, all in one run.

    Those who renew less often are taken over sooner by as much: the engine counts from the last renewal, of which they have two
    in a ttl and we four. That is no excuse: the goal is to be no slower.
    """
    fenced_url = f"{cluster.url}?lock_delay=0"  # what it is by itself for whoever declares sinks
    with ExitStack() as stack:
        pairs = []
        for number in range(CRASHES):
            name = f"crash/{ttl_s:g}/{number}"
            fenced = [our_peer("election", fenced_url, f"{name}/fenced", ttl_s) for _ in range(2)]
            ours = [our_peer("election", cluster.url, f"{name}/ours", ttl_s) for _ in range(2)]
            theirs = [their_peer(f"{name}/theirs") for _ in range(2)]
            for one, other in (fenced, ours, theirs):
                pairs.append((stack.enter_context(one), stack.enter_context(other)))
        took_s = takeovers_s(pairs, ttl_s)
    fenced_s, ours_s, theirs_s = (median(took_s[kind::3]) for kind in range(3))
    # The engine ends a session two ttl after it was last renewed, and then keeps the key empty for the lock-delay.
    floor_s = 2 * ttl_s + LOCK_DELAY_S
    what = f"Consul: leader killed, ttl {ttl_s:g} s: takeover, p50"
    yield f"{what}, with a fence, beyond 2 ttl", fenced_s - 2 * ttl_s, 1.0, "s", False
    yield f"{what}, with a fence / {whose}", fenced_s / theirs_s, 1.0, "x", False
    yield f"{what}, without, beyond 2 ttl + lock-delay", ours_s - floor_s, 1.0, "s", False
    yield f"{what}, without / {whose}", ours_s / theirs_s, 1.0, "x", False


def figures() -> Figures:
    with_go = has("go")
    try:
        with ConsulCluster() as cluster:
            yield from _pairs(cluster, with_go)
            if with_go:
                yield from _hand_over(cluster)
                yield from _crash(
                    cluster, CRASH_TTL_S, "Go api Lock", lambda name: _go_peer(cluster, "lock", name, CRASH_TTL_S)
                )
            yield from _crash(cluster, COMMAND_TTL_S, "consul lock", lambda name: _command_peer(cluster, name))
    except MissingEngine as missing:
        left_out(missing)
