"""What elections on an ensemble of ZooKeeper cost: beside kazoo and Curator, and beside the two requests of any lock.

Three servers of the newest ZooKeeper on this machine, with the tick that it is shipped with. Both sides of a ratio talk to
the leader, each in a process of its own.
"""

import re
import time
from collections import Counter
from contextlib import ExitStack
from functools import partial
from statistics import median

from faults import FAULTS, Fault, loaded, longest_s, lost_at_wake, lost_by, meet
from faults import TTL_S as FAULT_TTL_S
from rows import Figure, NotMeasured, told
from sides import (
    HAND_OVERS,
    PAIRS,
    Figures,
    Many,
    Side,
    curator_peer,
    handing_over,
    herd_figures,
    kazoo_peer,
    many_figures,
    medians_s,
    our_peer,
    our_side,
    takeovers_s,
    timed,
    why_no_peer,
)
from tests.peers.driver import Peer

from tenure.testing.engines import MissingEngine, Node, ZooKeeperEnsemble

TTL_S = 10.0
CRASHES, CRASH_TTL_S = 8, 6.0
# A session has at most 20 ticks. Most packets are pings, of the leaders' session and of the one for whoever only asks:
# three or four a second.
MANY = (Many(1000, 10.0, 1, 10), Many(10_000, 30.0, 1, 30))
SYNC_LIMIT_TICKS = 5  # as shipped: for so long a follower waits for a leader that says nothing
# What an operator sets whose tenures of ttl 5 s are to outlast a frozen leader: then it is noticed after a second.
QUICK_TICK_MS, QUICK_SYNC_LIMIT_TICKS = 500, 2
ELECTION_S = 2.0
LOOK_S = 0.05
# For as long as a frozen leader is not noticed nothing can be proved, so a tenure that is to outlast that must be longer.
LONG_FAULT_TTL_S = 24.0
PLACES_MAX = 40  # A session begins at any of three servers: so many that miss the one that is wanted are no chance.
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


def _pairs(endpoint: str, no_java: str) -> Figures:
    url = f"zookeeper://{endpoint}"
    with ExitStack() as stack:
        kazoo = stack.enter_context(kazoo_peer("lock", endpoint, "/kazoo", TTL_S))
        sides: dict[str, Side] = {
            "store": timed(stack.enter_context(our_side(url, "store", TTL_S)), "claim"),
            "lock": timed(stack.enter_context(our_peer("lock", url, "lock", TTL_S))),
            "raw": timed(kazoo, "raw"),
            "kazoo": timed(kazoo),
        }
        if not no_java:
            sides["curator"] = timed(stack.enter_context(curator_peer("mutex", endpoint, "/curator", TTL_S)))
        took_s = medians_s(sides, PAIRS)
    yield "ZooKeeper: claim + release / kazoo Lock", took_s["store"] / took_s["kazoo"], 1.0, "x", False
    yield "ZooKeeper: claim + release / create + delete raw on kazoo", took_s["store"] / took_s["raw"], 1.3, "x", False
    yield "ZooKeeper: tenure.Lock / kazoo Lock", took_s["lock"] / took_s["kazoo"], 1.3, "x", False
    what = "ZooKeeper: claim + release / Curator InterProcessMutex"
    yield NotMeasured(what, no_java) if no_java else (what, took_s["store"] / took_s["curator"], 1.3, "x", False)


def _hand_over(endpoint: str, no_java: str) -> Figures:
    url = f"zookeeper://{endpoint}"
    with ExitStack() as stack:
        ours = [stack.enter_context(our_peer("election", url, "turns", TTL_S)) for _ in range(2)]
        kazoo = [stack.enter_context(kazoo_peer("election", endpoint, "/kazoo-turns", TTL_S)) for _ in range(2)]
        sides = {"ours": handing_over(*ours), "kazoo": handing_over(*kazoo)}
        if not no_java:
            latches = [stack.enter_context(curator_peer("latch", endpoint, "/latch-turns", TTL_S)) for _ in range(2)]
            sides["curator"] = handing_over(*latches)
        took_s = medians_s(sides, HAND_OVERS)
    what = "ZooKeeper: hand-over between two processes"
    latch = f"{what} / Curator LeaderLatch"
    yield NotMeasured(latch, no_java) if no_java else (latch, took_s["ours"] / took_s["curator"], 1.0, "x", False)
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


def _faults(ensemble: ZooKeeperEnsemble) -> Figures:
    """Break one server after the other under load. A leader that is frozen is a case of its own: see SYNC_LIMIT_TICKS."""
    arrange = partial(_arranged, ensemble)
    outcomes = meet(ensemble, arrange, FAULTS, FAULT_TTL_S)
    stuck = _stuck()
    killed = [outcome for fault, outcome in outcomes.items() if not fault.frozen]
    follower = [outcome for fault, outcome in outcomes.items() if fault.frozen and not fault.leads]
    leader = [outcomes[fault] for fault in stuck]
    unnoticed_s = SYNC_LIMIT_TICKS * ensemble.tick_ms / 1000
    # The deadline of a call, a fifth of the ttl, and then the engine's own election.
    within_s = FAULT_TTL_S / 5 + ELECTION_S
    what = "longest time without success"
    yield f"ZooKeeper: a server killed: {what}", longest_s(killed), within_s, "s", False
    yield f"ZooKeeper: a follower frozen: {what}", longest_s(follower), within_s, "s", False
    slow = f"The engine takes {unnoticed_s:g} s, its syncLimit, to notice that its leader is frozen; nobody's write passes until then."
    yield Figure(f"ZooKeeper: the leader frozen: {what}", longest_s(leader), unnoticed_s + within_s, "s", note=slow)
    yield told(
        "ZooKeeper: the leader frozen: until the engine has another one, by its own word", _unled_s(ensemble), "s"
    )
    others = [*killed, *follower]
    what = f"ZooKeeper: tenures of ttl {FAULT_TTL_S:g} s lost"
    yield f"{what} by {len(others)} such faults, no leader frozen", lost_by(others), 0, "", False
    yield told(f"{what} by {len(leader)} frozen leaders", lost_by(leader), "", slow)
    long = list(meet(ensemble, arrange, stuck, LONG_FAULT_TTL_S).values())
    what = f"ZooKeeper: tenures of ttl {LONG_FAULT_TTL_S:g} s lost by {len(long)} frozen leaders"
    yield what, lost_by(long), 0, "", False
    woken = [*follower, *leader, *long]
    yield f"ZooKeeper: tenures lost when {len(woken)} frozen servers woke", lost_at_wake(woken), 0, "", False


def _quick_faults() -> Figures:
    """Freeze leaders of an ensemble that is set to notice it within a small part of the ttl."""
    settings = f"tickTime {QUICK_TICK_MS} ms, syncLimit {QUICK_SYNC_LIMIT_TICKS}"
    unnoticed_s = QUICK_SYNC_LIMIT_TICKS * QUICK_TICK_MS / 1000
    with ZooKeeperEnsemble(tick_ms=QUICK_TICK_MS, options=[f"syncLimit={QUICK_SYNC_LIMIT_TICKS}"]) as ensemble:
        frozen = list(meet(ensemble, partial(_arranged, ensemble), _stuck(), FAULT_TTL_S).values())
    within_s = unnoticed_s + FAULT_TTL_S / 5 + ELECTION_S
    yield (
        f"ZooKeeper, {settings}: the leader frozen: longest time without success",
        longest_s(frozen),
        within_s,
        "s",
        False,
    )
    what = f"ZooKeeper, {settings}: tenures of ttl {FAULT_TTL_S:g} s lost"
    yield f"{what} by {len(frozen)} frozen leaders", lost_by(frozen), 0, "", False
    yield f"{what} when they woke", lost_at_wake(frozen), 0, "", False


def _stuck() -> list[Fault]:
    return [fault for fault in FAULTS if fault.frozen and fault.leads]


def _unled_s(ensemble: ZooKeeperEnsemble) -> float:
    """Freeze the leader, and return how long it takes until the others have one: less than that no client can wait."""
    frozen, began_s = ensemble.leader(), time.monotonic()
    frozen.pause()
    while not any(ensemble.leads(node) for node in ensemble.nodes if node is not frozen):
        time.sleep(LOOK_S)
    unled_s = time.monotonic() - began_s
    frozen.resume()
    ensemble.wait_until_serving(ensemble.nodes)
    return unled_s


def _arranged(ensemble: ZooKeeperEnsemble, stack: ExitStack, fault: Fault, ttl_s: float) -> tuple[Peer, Node]:
    """Start the load where the fault has it. The engine moves no leader, so it is we who come again, until we are there."""
    for _ in range(PLACES_MAX):
        attempt = stack.enter_context(ExitStack())
        leader = ensemble.leader()
        peer, our_endpoint = loaded(attempt, ensemble.url, ttl_s)
        if (our_endpoint == leader.endpoint) == (fault.ours and fault.leads):
            our_node = next(node for node in ensemble.nodes if node.endpoint == our_endpoint)
            return peer, our_node if fault.ours else leader
        attempt.close()
    raise AssertionError("the sessions never begin where they should")


def figures() -> Figures:
    no_java = why_no_peer("java")
    try:
        with ZooKeeperEnsemble() as ensemble:
            count, endpoint = _Packets(ensemble), ensemble.leader().endpoint
            yield from _pairs(endpoint, no_java)
            yield from _hand_over(endpoint, no_java)
            yield from _crash(ensemble)
            yield from herd_figures(
                "ZooKeeper", f"zookeeper://{endpoint}", MANY[-1].ttl_s, count, partial(_present, ensemble)
            )
            yield from _faults(ensemble)
            yield from many_figures("ZooKeeper", ensemble.url, MANY, _Packets(ensemble))
        yield from _quick_faults()
    except MissingEngine as missing:
        yield NotMeasured("ZooKeeper: every figure", str(missing))
