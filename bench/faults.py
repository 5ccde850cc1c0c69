"""What becomes of a load and of a tenure while one server of a cluster is killed or frozen: the same for every engine.

The load is a claim and its release every tenth of a second, and the tenure is one that should last. Each fault meets a process
of its own, which talks to the server that fails, to one that does not, to the leader or to another. Somebody else's program may
lead beside it, an election of its own, and what becomes of that is told as well.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from sides import SLOW_S, lost, our_side
from tests.peers.driver import Peer

from tenure.testing.engines import Node
from tenure.testing.engines.cluster import Cluster

TTL_S = 5.0  # the shortest for which no tenure is to be lost
BEYOND_TTL_S = 1.0  # A fault lasts for longer than the ttl, so that a tenure that is not renewed meanwhile is lost.
WAKE_S = 2.0  # More than a heartbeat: by then the holder of a lease has asked for it.


class Fault(NamedTuple):
    """What happens to one server: the one that we talk to, the leader, or both in one."""

    frozen: bool
    ours: bool
    leads: bool


class Outcome(NamedTuple):
    gap_s: float  # the longest time without a success
    lost_count: int
    lost_at_wake_count: int  # after a frozen server ran on
    theirs_lost: bool = False  # what somebody else led, at any time


FAULTS = [Fault(frozen, *whom) for frozen in (False, True) for whom in ((True, True), (True, False), (False, True))]

# Starts the load, in a stack that ends it, and returns it with the server that the fault is about.
Arrange = Callable[[ExitStack, Fault, float], tuple[Peer, Node]]
Theirs = Callable[[float], Peer]  # a program that says when it has lost what it led, by the ttl


def loaded(stack: ExitStack, url: str, ttl_s: float) -> tuple[Peer, str]:
    """Start a load, and return it with the endpoint that it talks to."""
    peer = stack.enter_context(our_side(url, "load", ttl_s))
    peer.ask("load", "loaded")
    return peer, peer.ask("where", "there").fields["endpoint"]


def meet(
    cluster: Cluster, arrange: Arrange, faults: Sequence[Fault], ttl_s: float, theirs: Theirs | None = None
) -> dict[Fault, Outcome]:
    """Let one fault after the other happen, each to a cluster that is whole."""
    return {fault: _meet(cluster, arrange, fault, ttl_s, theirs) for fault in faults}


def _meet(cluster: Cluster, arrange: Arrange, fault: Fault, ttl_s: float, theirs: Theirs | None) -> Outcome:
    with ExitStack() as stack:
        peer, node = arrange(stack, fault, ttl_s)
        beside = None if theirs is None else stack.enter_context(theirs(ttl_s))
        if beside is not None:
            beside.campaign()
            beside.wait_leading()
        peer.ask("gap", "gap")
        before_count = lost(peer)
        if fault.frozen:
            node.pause()
        else:
            node.kill()
        time.sleep(ttl_s + BEYOND_TTL_S)
        gap_s = peer.ask("gap", "gap", SLOW_S).fields["gap_ns"] / 1e9
        lost_count = lost(peer)
        if fault.frozen:
            node.resume()
            time.sleep(WAKE_S)
        else:
            node.start()
        cluster.wait_until_serving(cluster.nodes)
        peer.ask("gap", "gap", SLOW_S)
        theirs_lost = beside is not None and any(event.what == "lost" for event in beside._events)
        return Outcome(gap_s, lost_count - before_count, lost(peer) - lost_count, theirs_lost)


def longest_s(outcomes: Sequence[Outcome]) -> float:
    return max(outcome.gap_s for outcome in outcomes)


def lost_by(outcomes: Sequence[Outcome]) -> int:
    return sum(outcome.lost_count for outcome in outcomes)


def lost_at_wake(outcomes: Sequence[Outcome]) -> int:
    return sum(outcome.lost_at_wake_count for outcome in outcomes)
