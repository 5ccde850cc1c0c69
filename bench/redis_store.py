"""What elections on Redis cost: beside redis-py's own Lock, and beside the two commands that must be sent anyway.

One server as it is shipped, but for its log (``appendonly``). Both sides of a ratio talk to it, each in a process of its own. Not
called redis.py, which would hide the package that it measures.
"""

import asyncio
import sys
import threading
import time
from contextlib import ExitStack
from statistics import median

from rows import told
from sides import HAND_OVERS, HERE, PAIRS, Figures, Side, handing_over, left_out, medians_s, our_peer, our_side, timed
from tests.peers.driver import Peer

from tenure.testing.engines import MissingEngine, RedisCluster

LOG = ("appendfsync everysec",)
# A quarter of a millisecond each: of fewer in a row, half would be measured while the processor warms to the program.
MANY_PAIRS = 500
TTL_S = 60.0  # Nothing is renewed while something else is measured.


def _their_side(kind: str, server: RedisCluster, name: str) -> Peer:
    command = [sys.executable, str(HERE / "redis_raw.py"), kind, server.nodes[0].endpoint, name, f"{TTL_S:g}"]
    return Peer(name, command, {})


def _pairs(server: RedisCluster) -> Figures:
    with ExitStack() as stack:
        sides: dict[str, Side] = {
            "raw": timed(stack.enter_context(_their_side("raw", server, "raw"))),
            "theirs": timed(stack.enter_context(_their_side("lock", server, "theirs"))),
            "store": timed(stack.enter_context(our_side(server.url, "store", TTL_S)), "claim"),
            "lock": timed(stack.enter_context(our_peer("lock", server.url, "lock", TTL_S))),
        }
        took_s = medians_s(sides, MANY_PAIRS)
    yield "Redis: claim + release / SET NX and a script on redis-py", took_s["store"] / took_s["raw"], 1.2, "x", False
    yield "Redis: claim + release / redis-py Lock", took_s["store"] / took_s["theirs"], 1.0, "x", False
    yield "Redis: claim + release, p50", took_s["store"] * 1e3, 5.0, "ms", False
    # What users call, on both sides. Ours is taken, renewed and lost on a thread of its own, and asks the caller's loop whether it
    # answers before it takes office. redis-py's Lock is taken where the caller is, and is not renewed.
    yield told("Redis: tenure.Lock / redis-py Lock", took_s["lock"] / took_s["theirs"], "x")
    least_s, least = took_s["store"] + 2 * _crossing_s(), "claim + release, to another thread and back for each"
    yield told(
        f"Redis: {least} / redis-py Lock",
        least_s / took_s["theirs"],
        "x",
        "The least that a lock takes which another thread keeps.",
    )
    yield f"Redis: tenure.Lock / {least}", took_s["lock"] / least_s, 3.0, "x", False
    yield "Redis: tenure.Lock, p50", took_s["lock"] * 1e3, 5.0, "ms", False


def _crossing_s() -> float:
    """Return what it takes to call an event loop in another thread, and to be called back: bare asyncio, nothing of ours."""
    there = asyncio.new_event_loop()
    thread = threading.Thread(target=there.run_forever)
    thread.start()

    async def cross() -> float:
        here = asyncio.get_running_loop()
        back: asyncio.Future[None] = here.create_future()
        began_s = time.perf_counter()
        there.call_soon_threadsafe(here.call_soon_threadsafe, back.set_result, None)
        await back
        return time.perf_counter() - began_s

    async def cross_often() -> list[float]:
        return [await cross() for _ in range(MANY_PAIRS)]

    try:
        return median(asyncio.run(cross_often()))
    finally:
        there.call_soon_threadsafe(there.stop)
        thread.join()
        there.close()


def _hand_over(server: RedisCluster) -> Figures:
    with ExitStack() as stack:
        ours = [stack.enter_context(our_peer("election", server.url, "turns", TTL_S)) for _ in range(2)]
        theirs = [stack.enter_context(_their_side("lock", server, "their-turns")) for _ in range(2)]
        took_s = medians_s({"ours": handing_over(*ours), "theirs": handing_over(*theirs)}, HAND_OVERS)
    yield "Redis: hand-over between two processes, p50", took_s["ours"] * 1e3, 5.0, "ms", False
    yield "Redis: the same / redis-py Lock, which polls", took_s["ours"] / took_s["theirs"], 1.0, "x", False


def _redlock(servers: RedisCluster, server: RedisCluster) -> Figures:
    with ExitStack() as stack:
        sides: dict[str, Side] = {
            "one": timed(stack.enter_context(our_side(server.url, "one", TTL_S)), "claim"),
            "five": timed(stack.enter_context(our_side(servers.url, "five", TTL_S)), "claim"),
        }
        took_s = medians_s(sides, PAIRS)
    yield "Redlock on five servers: claim + release, p50", took_s["five"] * 1e3, 20.0, "ms", False
    # Three rounds in place of two, to five servers, all on the cores of one machine.
    yield "Redlock on five servers: claim + release / one Redis", took_s["five"] / took_s["one"], 10.0, "x", False


def figures() -> Figures:
    try:
        with RedisCluster(options=LOG) as server, RedisCluster(5, independent=True, options=LOG) as servers:
            yield from _pairs(server)
            yield from _hand_over(server)
            yield from _redlock(servers, server)
    except MissingEngine as missing:
        left_out(missing)
