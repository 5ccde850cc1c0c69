"""What elections on Consul cost: beside its own Go library, and beside the requests that must be sent anyway.

Three servers of Consul as it is shipped, but for ``raft_multiplier = 1``, as its makers advise for production. Both sides of a ratio talk to the leader, each in a process of its own.
"""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from statistics import median

from rows import told
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
    takeovers_ns,
    timed,
)
from taps import Taps
from tests.peers.driver import Peer, built

from tenure.testing.engines import ConsulCluster, MissingEngine

TTL_S = 60.0  # No session is renewed while something else is measured, unless a claim does it.
CRASHES, CRASH_TTL_S = 6, 10.0  # the shortest that Consul gives as shipped
COMMAND_TTL_S = 15.0  # of the sessions of ``consul lock``: it has no setting for that
LOCK_DELAY_S = 15.0  # as shipped, for whoever has no fence


def _raw_side(endpoint: str, name: str) -> Peer:
    return Peer(name, [sys.executable, str(HERE / "consul_raw.py"), endpoint, name, f"{TTL_S:g}"], {})


def _go_peer(endpoint: str, kind: str, name: str, ttl_s: float) -> Peer:
    command = [str(built("go") / "consul"), kind, f"{name}/.lock", f"{ttl_s:g}", "0"]
    return Peer(name, command, {"CONSUL_HTTP_ADDR": f"http://{endpoint}"})


def _command_peer(endpoint: str, tool: str, name: str) -> Peer:
    command = [sys.executable, "-m", "tests.peers.consul_peer", tool, "lock", name]
    return Peer(name, command, {"CONSUL_HTTP_ADDR": f"http://{endpoint}"})


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
            sides["go"] = timed(stack.enter_context(_go_peer(endpoint, "session", "go", TTL_S)))
        took_s = medians_s(sides, PAIRS)
    yield "Consul: claim + release / the same requests raw on aiohttp", took_s["store"] / took_s["raw"], 1.5, "x", False
    if with_go:
        yield "Consul: claim + release / Go api Lock, one session", took_s["store"] / took_s["go"], 1.5, "x", False
        yield "Consul: tenure.Lock / Go api Lock, one session", took_s["lock"] / took_s["go"], 2.0, "x", False


def _hand_over(cluster: ConsulCluster) -> Figures:
    endpoint = cluster.leader().endpoint
    url = f"consul://{endpoint}"
    with ExitStack() as stack:
        ours = [stack.enter_context(our_peer("election", url, "turns", TTL_S)) for _ in range(2)]
        theirs = [stack.enter_context(_go_peer(endpoint, "lock", "go-turns", TTL_S)) for _ in range(2)]
        took_s = medians_s({"ours": handing_over(*ours), "go": handing_over(*theirs)}, HAND_OVERS)
    what = "Consul: hand-over between two processes / Go api Lock"
    yield what, took_s["ours"] / took_s["go"], 1.5, "x", False


def _crash(cluster: ConsulCluster, ttl_s: float, whose: str, their_peer: Callable[[str, str], Peer]) -> Figures:
    """Kill leaders of ours, with a fence and without, and of others, whose sessions are of the same length, all in one run.

    The engine counts from the last renewal, and so do the figures: it is two ttl and the lock-delay from there on, for
    everybody. Counted from the kill, those who renew less often are taken over sooner by as much as their last renewal was
    older: they have two in a ttl, and we four.
    """
    kinds: dict[str, Callable[[str, str], Peer]] = {
        # A lock-delay of 0 is what it is by itself for whoever declares sinks.
        "fenced": lambda where, name: our_peer("election", f"consul://{where}?lock_delay=0", name, ttl_s),
        "ours": lambda where, name: our_peer("election", f"consul://{where}", name, ttl_s),
        "theirs": their_peer,
    }
    endpoint = cluster.leader().endpoint
    with ExitStack() as stack:
        taps = stack.enter_context(Taps())
        pairs, heard = [], []
        for number in range(CRASHES):
            name = f"crash/{ttl_s:g}/{number}"
            for kind, make in kinds.items():
                tap = taps.tap(endpoint, b"/v1/session/renew/")
                heard.append(tap)
                both = [make(where, f"{name}/{kind}") for where in (tap.endpoint, endpoint)]
                pairs.append((stack.enter_context(both[0]), stack.enter_context(both[1])))
        instants_ns = takeovers_ns(pairs, ttl_s)
    from_kill_s = [(led_at_ns - killed_at_ns) / 1e9 for killed_at_ns, led_at_ns in instants_ns]
    from_renewal_s = [(led[1] - tap.heard_at_ns) / 1e9 for led, tap in zip(instants_ns, heard, strict=True)]
    fenced_s, ours_s, theirs_s = (median(from_renewal_s[kind::3]) for kind in range(3))
    # The engine ends a session two ttl after it was last renewed, and then keeps the key empty for the lock-delay.
    floor_s = 2 * ttl_s + LOCK_DELAY_S
    what = f"Consul: leader killed, ttl {ttl_s:g} s: takeover after its last renewal, p50"
    yield f"{what}, with a fence, beyond 2 ttl", fenced_s - 2 * ttl_s, 1.0, "s", False
    yield f"{what}, with a fence / {whose}", fenced_s / theirs_s, 1.0, "x", False
    yield f"{what}, without, beyond 2 ttl + lock-delay", ours_s - floor_s, 1.0, "s", False
    yield told(f"{what}, {whose}, beyond 2 ttl + lock-delay", theirs_s - floor_s, "s")
    # Hundredths: both wait for the same timer of the engine, and what is less is chance.
    yield f"{what}, without / {whose}, in hundredths", round(ours_s / theirs_s, 2), 1.0, "x", False
    yield (
        f"{what}, without, the slowest, beyond 2 ttl + lock-delay",
        max(from_renewal_s[1::3]) - floor_s,
        1.0,
        "s",
        False,
    )
    killed_s = [median(from_kill_s[kind::3]) for kind in range(3)]
    what = f"Consul: leader killed, ttl {ttl_s:g} s: takeover after the kill, p50"
    yield told(f"{what}, with a fence", killed_s[0], "s")
    yield told(f"{what}, without", killed_s[1], "s")
    yield told(f"{what}, without / {whose}", killed_s[1] / killed_s[2], "x")


def figures() -> Figures:
    with_go = has("go")
    try:
        with ConsulCluster() as cluster:
            yield from _pairs(cluster, with_go)
            if with_go:
                yield from _hand_over(cluster)
                yield from _crash(
                    cluster, CRASH_TTL_S, "Go api Lock", lambda where, name: _go_peer(where, "lock", name, CRASH_TTL_S)
                )
            tool = cluster.binary.tool
            yield from _crash(
                cluster, COMMAND_TTL_S, "consul lock", lambda where, name: _command_peer(where, tool, name)
            )
    except MissingEngine as missing:
        left_out(missing)
