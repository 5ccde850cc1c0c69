"""What the benches of engines share: sides that are measured in turn, and what is counted while they run.

A side is a program of its own, ours or somebody else's, driven by the lines of ``tests/peers/driver.py``. Both sides of a
ratio talk to the same server. What is missing on this machine is told of, and ``run.py`` has its figures as not measured.
"""

import math
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

import rows
from rows import exactly
from tests.peers.driver import Peer, alternate, built

from tenure.testing.engines import MissingEngine
from tenure.testing.engines.binaries import java
from tenure.testing.engines.processes import wait_for
from tenure.timing import Timing

Figures = rows.Figures
Side = Callable[[int], list[float]]  # does something so many times, and returns the seconds that each took
Count = Callable[[], Counter[str]]  # what has reached the engine so far

HERE = Path(__file__).parent
# A watch may not be up to date yet when its watcher is in the queue: see ``alternate``.
SETTLE_S = 0.15
SLOW_S = 180  # to make ten thousand of something on a machine that has other work
ROUNDS, PAIRS, HAND_OVERS = 6, 50, 6
STANDBYS, PASSES, AT_ONCE = 1000, 11, 50
IDLE_S, RESTING_PERCENT = 10.0, 10.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_KIB_PER_PAGE = os.sysconf("SC_PAGE_SIZE") / 1024

# Why something could not be measured, by the benches that do not name each figure that they leave out.
_LEFT_OUT: list[str] = []


def left_out(missing: MissingEngine) -> None:
    print(f"left out: {missing}", file=sys.stderr)
    _LEFT_OUT.append(str(missing))


def forget_left_out() -> list[str]:
    """Return what was left out since this was last asked."""
    reasons, _LEFT_OUT[:] = list(_LEFT_OUT), []
    return reasons


def why_no_peer(language: str) -> str:
    """Say why there is no peer in this language; nothing if there is one."""
    try:
        built(language)
    except MissingEngine as missing:
        return str(missing)
    return ""


def has(language: str) -> bool:
    """Say whether the peer in this language was built; if not, all that needs it is left out."""
    try:
        built(language)
    except MissingEngine as missing:
        left_out(missing)
        return False
    return True


def our_side(url: str, name: str, ttl_s: float) -> Peer:
    return Peer(name, [sys.executable, str(HERE / "our_side.py"), url, name, f"{ttl_s:g}"], {})


def raw_side(url: str, name: str, ttl_s: float) -> Peer:
    return Peer(name, [sys.executable, str(HERE / "etcd_raw.py"), url, name, f"{ttl_s:g}"], {})


def our_peer(kind: str, url: str, name: str, ttl_s: float) -> Peer:
    """Start a candidate on the public API that does nothing but stand and leave."""
    return Peer(name, [sys.executable, "-m", "tests.peers.tenure_peer", kind, url, name, f"{ttl_s:g}"], {})


def go_peer(kind: str, endpoints: str, name: str, ttl_s: float) -> Peer:
    return Peer(name, [str(built("go") / "etcd"), kind, endpoints, name, f"{ttl_s:g}"], {})


def kazoo_peer(kind: str, endpoints: str, path: str, session_s: float) -> Peer:
    return Peer(path, [sys.executable, "-m", "tests.peers.kazoo_peer", kind, endpoints, path, f"{session_s:g}"], {})


def curator_peer(kind: str, endpoints: str, path: str, session_s: float) -> Peer:
    """Start a program on Curator, with Java's own settings: those of the tests keep it from making its best code."""
    command = [java(), "-cp", f"{built('java')}/lib/*", "peer.Peer", kind, endpoints, path, f"{session_s:g}"]
    return Peer(path, command, {})


def timed(peer: Peer, command: str = "time") -> Side:
    return lambda count: [ns / 1e9 for ns in peer.ask(f"{command} {count}", "timed", SLOW_S).fields["took_ns"]]


def handing_over(first: Peer, second: Peer) -> Side:
    """Make a side of two processes that hand the office to each other, an even number of times."""
    first.campaign()
    first.wait_leading()
    return lambda count: [ns / 1e9 for ns in alternate(first, second, count, settle_s=SETTLE_S)]


def medians_s(sides: Mapping[str, Side], each: int) -> dict[str, float]:
    """Measure the sides in turn, so that whatever else the machine does strikes all of them."""
    took_s: dict[str, list[float]] = {name: [] for name in sides}
    for side in sides.values():
        side(each)  # What is made once, and what Java compiles, is not what is compared.
    for _ in range(ROUNDS):
        for name, side in sides.items():
            took_s[name] += side(each)
    return {name: median(times_s) for name, times_s in took_s.items()}


def takeovers_s(pairs: Sequence[tuple[Peer, Peer]], lease_s: float) -> list[float]:
    """Kill the leader of each pair, at no fixed distance from its renewals, and return how long the other one took."""
    return [(led_at_ns - killed_at_ns) / 1e9 for killed_at_ns, led_at_ns in takeovers_ns(pairs, lease_s)]


def takeovers_ns(pairs: Sequence[tuple[Peer, Peer]], lease_s: float) -> list[tuple[int, int]]:
    """Do so, and return when each leader was killed and when the other one led."""
    for leader, standby in pairs:
        leader.campaign()
        leader.wait_leading()
        standby.campaign()
        standby.wait_standing()
    time.sleep(lease_s / 2)  # By then each was renewed, as in the middle of a long life.
    killed_at_ns = {}
    for leader, _ in random.sample(pairs, len(pairs)):
        time.sleep(random.uniform(0, 0.5))
        killed_at_ns[leader] = time.monotonic_ns()
        leader.kill()
    return [(killed_at_ns[leader], standby.wait_leading(4 * lease_s).at_ns) for leader, standby in pairs]


def herd_figures(engine: str, url: str, ttl_s: float, count: Count, present: Callable[[str], int]) -> Figures:
    """Let the leader of many standbys resign, and in turn the leader of one, in a process each.

    ``present`` says how many candidates of an election the engine knows.
    """
    took_ns: dict[int, list[int]] = {1: [], STANDBYS: []}
    requests = []
    with our_side(url, "two", ttl_s) as two, our_side(url, "herd", ttl_s) as herd:
        for _ in range(PASSES):
            for peer, standbys in ((two, 1), (herd, STANDBYS)):
                _gather(peer, standbys + 1, present)
                before = count()
                took_ns[standbys].append(peer.ask("pass", "passed").fields["took_ns"])
                if peer is herd:
                    requests.append((count() - before).total())
    what = f"{engine}: requests until one of {STANDBYS} standbys is in office, most of {PASSES}"
    yield what, max(requests), 5, "", False
    ratio = median(took_ns[STANDBYS]) / median(took_ns[1])
    yield f"{engine}: hand-over to one of {STANDBYS} standbys / to the only one", ratio, 2.0, "x", False


def _are_there(name: str, candidates: int, present: Callable[[str], int]) -> bool:
    return present(name) >= candidates


def _gather(peer: Peer, candidates: int, present: Callable[[str], int]) -> None:
    """Have more stand until there are so many, not all at once."""
    there = present(peer.who)
    while there < candidates:
        more = min(AT_ONCE, candidates - there)
        there += more
        peer.ask(f"join {more}", "joined")
        assert wait_for(partial(_are_there, peer.who, there, present), SLOW_S), "they do not stand"
    # All are in the queue; each has yet to hear so, and to watch whoever is before it.
    assert wait_for(lambda: busy_percent(peer, 2 * SETTLE_S) < RESTING_PERCENT, SLOW_S), "they do not come to rest"


class Many(NamedTuple):
    """So many elections that one process leads, and how many requests per heartbeat reach the engine for them."""

    elections: int
    ttl_s: float
    requests_min: float
    requests_max: float


def many_figures(engine: str, url: str, sizes: Sequence[Many], count: Count) -> Figures:
    for elections, ttl_s, requests_min, requests_max in sizes:
        heartbeat_s = Timing.of(ttl=ttl_s).renew_every_ns / 1e9
        heartbeats = whole_heartbeats(heartbeat_s)
        with our_side(url, f"many/{elections}/{ttl_s:g}", ttl_s) as peer:
            kib_each = peer.ask(f"many {elections}", "held", SLOW_S).fields["kib_each"]
            before = count_between_two(count, heartbeat_s)
            idle_percent = busy_percent(peer, heartbeats * heartbeat_s)
            requests = (count() - before).total() / heartbeats
            lost_count = lost(peer)
        what = f"{engine}: {elections} leaders in one process, ttl {ttl_s:g} s"
        yield f"{what}, each", kib_each, 4.0, "KiB", False
        yield f"{what}, idle", idle_percent, 1.0, "%", False
        per_heartbeat = f"{what}, {' '.join(before)} per heartbeat"
        if requests_min == requests_max:
            yield exactly(per_heartbeat, requests, requests_max)
        else:
            yield per_heartbeat, requests, requests_max, "", False
            # None at all would be leaders that nobody keeps.
            yield f"{per_heartbeat}, at least", requests, requests_min, "", True
        yield exactly(f"{what}, tenures lost", lost_count, 0)


def whole_heartbeats(heartbeat_s: float) -> int:
    """Return for how many heartbeats to count: one alone may be missed, or be counted, by chance."""
    return max(2, math.ceil(IDLE_S / heartbeat_s))


def count_between_two(count: Count, heartbeat_s: float) -> Counter[str]:
    """Return what was counted by the middle between two heartbeats: any number of whole ones later it is so again."""
    before = count()
    assert wait_for(lambda: count() != before, SLOW_S), "nobody renews"
    time.sleep(heartbeat_s / 2)
    return count()


def lost(peer: Peer) -> int:
    """Return how many tenures a program of ours has lost that it meant to keep."""
    return int(peer.ask("lost", "lost").fields["count"])


def busy_percent(peer: Peer, window_s: float) -> float:
    """Return what share of a core a process needs while nothing happens."""
    used_s, began_s = _used_s(peer.pid), time.monotonic()
    time.sleep(window_s)
    return 100 * (_used_s(peer.pid) - used_s) / (time.monotonic() - began_s)


def resident_kib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * _KIB_PER_PAGE


def _used_s(pid: int) -> float:
    # Behind the name of the program, which may hold anything: user and system time are the 12th and 13th field.
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
