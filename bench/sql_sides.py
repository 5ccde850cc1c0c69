"""What the benches of PostgreSQL and MySQL share: our side, and the bare driver's, each in a process of its own."""

import sys
from contextlib import ExitStack
from statistics import median

from sides import HAND_OVERS, HERE, Side, handing_over, medians_s, our_peer, our_side, timed
from tests.peers.driver import Peer

from tenure.testing.engines.cluster import Cluster

OPENINGS = 5
# So many that the system has settled on where a program and its server run: with 50 pairs they read 1.3 to 1.7, from run to run.
IN_A_ROW = 500
TTL_S = 60.0  # Nothing is renewed while something else is measured.


def raw_side(cluster: Cluster, kind: str, name: str) -> Peer:
    node = cluster.nodes[0]
    return Peer(name, [sys.executable, str(HERE / "sql_raw.py"), kind, node.host, str(node.ports[0]), name], {})


def pairs_s(cluster: Cluster, kind: str) -> dict[str, float]:
    """Return what taking an office and leaving it takes: raw, at the store, and by ``tenure.Lock``.

    All sides are started anew several times: on which processor a program comes to run, and where its memory lies, is luck, and stays with it.
    """
    took_s: dict[str, list[float]] = {"raw": [], "store": [], "lock": []}
    for _ in range(OPENINGS):
        with ExitStack() as stack:
            sides: dict[str, Side] = {
                "raw": timed(stack.enter_context(raw_side(cluster, kind, "raw"))),
                "store": timed(stack.enter_context(our_side(cluster.url, "store", TTL_S)), "claim"),
                "lock": timed(stack.enter_context(our_peer("lock", cluster.url, "lock", TTL_S))),
            }
            for name, once_s in medians_s(sides, IN_A_ROW).items():
                took_s[name].append(once_s)
    return {name: median(times_s) for name, times_s in took_s.items()}


def hand_overs_s(cluster: Cluster, kind: str) -> dict[str, float]:
    """Return what a hand-over between two processes takes: ours, and of a lock on which the other one is blocked."""
    with ExitStack() as stack:
        ours = [stack.enter_context(our_peer("election", cluster.url, "turns", TTL_S)) for _ in range(2)]
        theirs = [stack.enter_context(raw_side(cluster, kind, "raw-turns")) for _ in range(2)]
        return medians_s({"ours": handing_over(*ours), "blocked": handing_over(*theirs)}, HAND_OVERS)
