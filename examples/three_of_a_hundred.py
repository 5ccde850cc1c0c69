"""A service with a hundred kinds of operation, of which three need a leader. Its leader is killed; the other 97 do not notice.

Most operations need to know that nobody else has changed what they change, and for that a version is enough: ``store.update``. Three
here need that one process does them in order, so they wait for whoever leads. Run it: it starts two candidates, kills the one
that leads, and counts what was done before, while nobody led, and after.

    python examples/three_of_a_hundred.py
"""

import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import tenure
from tenure.office.opened import LoopStore

KINDS = [f"kind/{number}" for number in range(97)]  # place an order, change an address, reserve a seat, …
LEADERS_KINDS = ["number the invoices", "pay the wages", "close the books"]
DESK = "desk"  # where those three are asked for, and where it is written down that they were done
TTL_S = 1.0
WORKERS = 4


def add_one(old: bytes | None) -> bytes:
    return b"%d" % (int(old or b"0") + 1)


def desk(old: bytes | None) -> dict[str, Any]:
    return json.loads(old) if old else {"asked": [], "done": [], "token": 0}


async def value_of(store: LoopStore, key: str) -> bytes | None:
    found = await store.document(key)
    return None if found is None else found.value


# What the leader does


async def candidate(url: str) -> None:
    """Stand, and in office do what is asked for, one thing after the other."""
    async with tenure.open_store(url) as store:

        async def body(term: tenure.Tenure) -> None:
            def do_next(old: bytes | None) -> bytes:
                now = desk(old)
                if now["token"] > term.token:  # Another was elected since: nothing of ours counts any more.
                    raise tenure.StaleToken(term.token, now["token"])
                now["token"] = term.token
                now["done"] = [*now["done"], *now["asked"][:1]]
                now["asked"] = now["asked"][1:]
                return json.dumps(now).encode()

            while True:
                await store.update(DESK, do_next)
                await asyncio.sleep(0.01)

        await tenure.Election(store, "books", ttl=TTL_S).lead(body)


# What everybody does


@dataclass
class Seen:
    """What was done, how much of it was begun and ended while nobody led, and how long the longest took."""

    while_led: int = 0
    while_not: int = 0
    longest_s: float = 0.0
    by_kind: Counter[str] = field(default_factory=Counter)

    def note(self, kind: str, began_s: float, *, led: bool) -> None:
        self.while_led += led
        self.while_not += not led
        self.longest_s = max(self.longest_s, time.monotonic() - began_s)
        self.by_kind[kind] += 1


class Service:
    """The processes that serve users, here as tasks of one."""

    def __init__(self, store: LoopStore, first: tenure.Incumbent) -> None:
        self.store, self.first, self.led, self.ends = store, first, True, False
        self.anybody, self.leader = Seen(), Seen()

    async def serve(self) -> None:
        while not self.ends:
            kind, began_s, led = random.choice(KINDS), time.monotonic(), self.led
            await self.store.update(kind, add_one)
            self.anybody.note(kind, began_s, led=led or self.led)

    async def ask_the_leader(self, kind: str) -> None:
        for number in range(10**6):
            if self.ends:
                return
            name, began_s = f"{kind} {number}", time.monotonic()

            def ask(old: bytes | None, name: str = name) -> bytes:
                now = desk(old)
                return json.dumps(now | {"asked": [*now["asked"], name]}).encode()

            await self.store.update(DESK, ask)
            led = self.led
            while name not in (now := desk(await value_of(self.store, DESK)))["done"]:  # noqa: ASYNC110  (another process does it)
                await asyncio.sleep(0.02)
            # The next leader may have begun before it was seen: whoever did it has left its token there.
            self.leader.note(kind, began_s, led=led or self.led or now["token"] > self.first.token)


async def led_by(store: LoopStore, above: int) -> tenure.Incumbent:
    """Wait for a leader with a larger token."""
    async for incumbent in tenure.Election(store, "books", ttl=TTL_S).observe():
        if incumbent is not None and incumbent.token > above:
            return incumbent
    raise AssertionError("observe does not end")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite://{folder}/service.db"
        candidates = [
            await asyncio.create_subprocess_exec(sys.executable, __file__, "candidate", url) for _ in range(2)
        ]
        async with tenure.open_store(url) as store:
            first = await led_by(store, 0)
            service = Service(store, first)
            async with asyncio.TaskGroup() as tasks:
                for _ in range(WORKERS):
                    tasks.create_task(service.serve())
                for kind in LEADERS_KINDS:
                    tasks.create_task(service.ask_the_leader(kind))
                await asyncio.sleep(2 * TTL_S)
                service.led, killed_s = False, time.monotonic()
                os.kill(first.holder.pid, signal.SIGKILL)
                await led_by(store, first.token)
                service.led, gap_s = True, time.monotonic() - killed_s
                await asyncio.sleep(2 * TTL_S)
                service.ends = True
            counted = {kind: int(await value_of(store, kind) or b"0") for kind in KINDS}
        for process in candidates:
            if process.returncode is None:
                process.kill()
            await process.wait()
    print(f"nobody led for {gap_s:.1f} s")
    for what, seen in ((f"{len(KINDS)} kinds", service.anybody), (f"{len(LEADERS_KINDS)} kinds", service.leader)):
        done = f"{seen.while_led + seen.while_not} done, {seen.while_not} of them while nobody led"
        print(f"{what}: {done}; the longest took {seen.longest_s:.2f} s")
    wrong = sum(abs(counted[kind] - service.anybody.by_kind[kind]) for kind in KINDS)
    print(f"changes lost or made twice: {wrong}")


if __name__ == "__main__":
    asyncio.run(candidate(sys.argv[2]) if sys.argv[1:2] == ["candidate"] else main())
