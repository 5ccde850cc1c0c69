"""What elections on an ensemble of ZooKeeper cost: beside kazoo and Curator, and beside the two requests of any lock.

Three servers of the newest ZooKeeper on this machine, with the tick that it is shipped with. Both sides of a ratio talk to
the leader, each in a process of its own.
"""

import re
from collections import Counter
from contextlib import ExitStack
from functools import partial
from statistics import median

from sides import (
    HAND_OVERS,
    PAIRS,
    Figures,
    Many,
    Side,
    curator_peer,
    handing_over,
    has,
    herd_figures,
    kazoo_peer,
    left_out,
    many_figures,
    medians_s,
    our_peer,
    our_side,
    takeovers_s,
    timed,
)

from tenure.testing.engines import MissingEngine, ZooKeeperEnsemble

TTL_S = 10.0
CRASHES, CRASH_TTL_S = 8, 6.0
# A session has at most 20 ticks. Most packets are pings, of the leaders' session and of the one for whoever only asks:
# three or four a second.
MANY = (Many(1000, 10.0, 10), Many(10_000, 30.0, 30))
_RECEIVED = re.compile(r"^zk_packets_received\t(\d+)", re.MULTILINE)


class _Packets:
    """Counts what the servers have had of their clients, by their own word. A ping is a packet, too."""

    def __init__(self, ensemble: ZooKeeperEnsemble) -> None:
        self._ensemble, self._asked_count = ensemble, 0

    def __call__(self) -> Counter[str]:
        told = [_RECEIVED.search(self._ensemble.ask(node, "mntr")) for node in self._ensemble.nodes]
        self._asked_count += len(told)  # The question is a packet as well.
        return Counter(packets=sum(int(match[1]) for match in told if match is not None) - self._asked_count)


def _present(ensemble: ZooKeeperEnsemble, name: str) -> int:
    """Return how many candidates of an election there are: nodes that live by a session, which only the leader lists."""
    return ensemble.ask(ensemble.leader(), "dump").count(f"\t/{name}/")


def _pairs(endpoint: str, with_java: bool) -> Figures:
    url = f"zookeeper://{endpoint}"
    with ExitStack() as stack:
        kazoo = stack.enter_context(kazoo_peer("lock", endpoint, "/kazoo", TTL_S))
        sides: dict[str, Side] = {
            "store": timed(stack.enter_context(our_side(url, "store", TTL_S)), "claim"),
            "lock": timed(stack.enter_context(our_peer("lock", url, "lock", TTL_S))),
            "raw": timed(kazoo, "raw"),
            "kazoo": timed(kazoo),
        }
        if with_java:
            sides["curator"] = timed(stack.enter_context(curator_peer("mutex", endpoint, "/curator", TTL_S)))
        took_s = medians_s(sides, PAIRS)
    yield "ZooKeeper: claim + release / kazoo Lock", took_s["store"] / took_s["kazoo"], 1.0, "x", False
    yield "ZooKeeper: claim + release / create + delete raw on kazoo", took_s["store"] / took_s["raw"], 1.3, "x", False
    yield "ZooKeeper: tenure.Lock / kazoo Lock", took_s["lock"] / took_s["kazoo"], 1.3, "x", False
    if with_java:
        ratio = took_s["store"] / took_s["curator"]
        yield "ZooKeeper: claim + release / Curator InterProcessMutex", ratio, 1.3, "x", False


def _hand_over(endpoint: str, with_java: bool) -> Figures:
    url = f"zookeeper://{endpoint}"
    with ExitStack() as stack:
        ours = [stack.enter_context(our_peer("election", url, "turns", TTL_S)) for _ in range(2)]
        kazoo = [stack.enter_context(kazoo_peer("election", endpoint, "/kazoo-turns", TTL_S)) for _ in range(2)]
        sides = {"ours": handing_over(*ours), "kazoo": handing_over(*kazoo)}
        if with_java:
            latches = [stack.enter_context(curator_peer("latch", endpoint, "/latch-turns", TTL_S)) for _ in range(2)]
            sides["curator"] = handing_over(*latches)
        took_s = medians_s(sides, HAND_OVERS)
    what = "ZooKeeper: hand-over between two processes"
    if with_java:
        yield f"{what} / Curator LeaderLatch", took_s["ours"] / took_s["curator"], 1.0, "x", False
    yield f"{what} / kazoo Election", took_s["ours"] / took_s["kazoo"], 1.3, "x", False


def _crash(ensemble: ZooKeeperEnsemble) -> Figures:
    """Kill leaders of ours and of kazoo whose sessions are of the same length: ours is two ticks longer than the ttl."""
    tick_s = ensemble.tick_ms / 1000
    session_s = CRASH_TTL_S + 2 * tick_s
    endpoints = ",".join(ensemble.endpoints)
    with ExitStack() as stack:
        pairs = []
        for number in range(CRASHES):
            ours = [our_peer("election", ensemble.url, f"crash/{number}", CRASH_TTL_S) for _ in range(2)]
            kazoo = [kazoo_peer("election", endpoints, f"/kazoo-crash/{number}", session_s) for _ in range(2)]
            for one, other in (ours, kazoo):
                pairs.append((stack.enter_context(one), stack.enter_context(other)))
        took_s = takeovers_s(pairs, session_s)
    ours_s, kazoo_s = median(took_s[::2]), median(took_s[1::2])
    # The engine ends sessions tick by tick, so the last tick of one is a whole one.
    what = f"ZooKeeper: leader killed, session {session_s:g} s: takeover, p50"
    yield f"{what}, beyond the session", ours_s - session_s, tick_s, "s", False
    # kazoo speaks three times in a session and we twice a tick, so the time of ours begins later, with the last word.
    yield f"{what} / kazoo Election", ours_s / kazoo_s, 1.25, "x", False


def figures() -> Figures:
    with_java = has("java")
    try:
        with ZooKeeperEnsemble() as ensemble:
            count, endpoint = _Packets(ensemble), ensemble.leader().endpoint
            yield from _pairs(endpoint, with_java)
            yield from _hand_over(endpoint, with_java)
            yield from _crash(ensemble)
            yield from herd_figures("ZooKeeper", ensemble.url, MANY[-1].ttl_s, count, partial(_present, ensemble))
            yield from many_figures("ZooKeeper", ensemble.url, MANY, count)
    except MissingEngine as missing:
        left_out(missing)
