"""A service with a hundred kinds of operation, of which three need a leader. Its leader is killed; the other 97 do not notice.

Most operations need to know that nobody else has changed what they change, and for that a version is enough: ``store.update``. Three
here need that one process does them in order, so they wait for whoever leads. Run it: it starts a candidate, kills it in office, and
starts another one when each of the 97 has been done without a leader. It counts what was done before, while nobody led, and after.

    python examples/three_of_a_hundred.py
"""

import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
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
    return json.loads(old) if old else {"asked": [], "done": [], "began": {}, "token": 0}


async def value_of(store: LoopStore, key: str) -> bytes | None:
    found = await store.document(key)
    return None if found is None else found.value


# What the leader does


async def candidate(url: str) -> None:
    """Stand, and in office do what is asked for, one thing after the other. Clocks of one machine's processes agree."""
    async with tenure.open_store(url) as store:

        async def body(term: tenure.Tenure) -> None:
            began_s = time.monotonic()

            def do_next(old: bytes | None) -> bytes:
                now = desk(old)
                if now["token"] > term.token:  # Another was elected since: nothing of ours counts any more.
                    raise tenure.StaleToken(term.token, now["token"])
                now["token"] = term.token
                now["began"][str(term.token)] = began_s
                now["done"] += [[*asked, time.monotonic()] for asked in now["asked"][:1]]
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

    done: Counter[str] = field(default_factory=Counter)
    while_nobody_led: Counter[str] = field(default_factory=Counter)
    longest_s: float = 0.0

    def note(self, kind: str, began_s: float, *, led: bool) -> None:
        self.done[kind] += 1
        self.while_nobody_led[kind] += not led
        self.longest_s = max(self.longest_s, time.monotonic() - began_s)


class Service:
    """The processes that serve users, here as tasks of one."""

    def __init__(self, store: LoopStore) -> None:
        self.store, self.ends = store, False
        self.led = True  # or may be: false only from the death of a leader to the start of the next candidate
        self.anybody, self.leader = Seen(), Seen()

    async def serve(self) -> None:
        while True:
            for kind in random.sample(KINDS, len(KINDS)):  # Each of them in turn, and everybody in another order.
                if self.ends:
                    return
                began_s, led = time.monotonic(), self.led
                await self.store.update(kind, add_one)
                self.anybody.note(kind, began_s, led=led or self.led)

    async def ask_the_leader(self, kind: str) -> None:
        number = 0
        while not self.ends:
            began_s, led, number = time.monotonic(), self.led, number + 1
            await self.store.update(DESK, lambda old, number=number: _asked(old, kind, number))  # type: ignore[misc]
            while [kind, number] not in [done[:2] for done in desk(await value_of(self.store, DESK))["done"]]:  # noqa: ASYNC110  (another process does it)
                await asyncio.sleep(0.02)
            self.leader.note(kind, began_s, led=led or self.led)

    async def all_done_again(self) -> None:
        """Wait until each of the hundred has been done once more."""
        before = self.anybody.done + self.leader.done
        await until(lambda: len(self.anybody.done + self.leader.done - before) == len(KINDS) + len(LEADERS_KINDS))

    async def lost_or_doubled(self) -> int:
        """How many of all changes are not there, or are there twice."""
        kept = {kind: int(await value_of(self.store, kind) or b"0") for kind in KINDS}
        done = Counter((kind, number) for kind, number, _ in desk(await value_of(self.store, DESK))["done"])
        told = {(kind, number + 1) for kind in LEADERS_KINDS for number in range(self.leader.done[kind])}
        wrong = sum(abs(kept[kind] - self.anybody.done[kind]) for kind in KINDS)
        return wrong + len(done.keys() ^ told) + done.total() - len(done)


def _asked(old: bytes | None, kind: str, number: int) -> bytes:
    now = desk(old)
    return json.dumps(now | {"asked": [*now["asked"], [kind, number]]}).encode()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  (what it is about is done in many places)
        await asyncio.sleep(0.01)


async def standstills(store: LoopStore, died_s: float) -> tuple[float, float]:
    """How long nobody led after that, and how long the one of the three that waited least was not done, by the leaders' own notes."""
    now = desk(await value_of(store, DESK))
    gap_s = min(began_s for began_s in now["began"].values() if began_s > died_s) - died_s
    waits_s = []
    for kind in LEADERS_KINDS:
        at_s = [done_s for name, _, done_s in now["done"] if name == kind]
        waits_s.append(min(s for s in at_s if s > died_s) - max(s for s in at_s if s <= died_s))
    return gap_s, min(waits_s)


async def fail_over(service: Service, url: str) -> float:
    """Have it served through the death of a leader; return when that was."""
    command = (sys.executable, __file__, "candidate", url)
    candidates = [await asyncio.create_subprocess_exec(*command)]
    try:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(WORKERS):
                tasks.create_task(service.serve())
            for kind in LEADERS_KINDS:
                tasks.create_task(service.ask_the_leader(kind))
            await service.all_done_again()
            candidates[0].kill()
            await candidates[0].wait()
            service.led, died_s = False, time.monotonic()
            await until(lambda: all(service.anybody.while_nobody_led[kind] for kind in KINDS))
            service.led = True
            candidates.append(await asyncio.create_subprocess_exec(*command))
            await service.all_done_again()
            service.ends = True
    finally:
        for process in candidates:
            if process.returncode is None:
                process.kill()
            await process.wait()
    return died_s


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite://{folder}/service.db"
        async with tenure.open_store(url) as store:
            service = Service(store)
            died_s = await fail_over(service, url)
            gap_s, least_wait_s = await standstills(store, died_s)
            wrong = await service.lost_or_doubled()
    anybody, leader = service.anybody, service.leader
    least = min(anybody.while_nobody_led[kind] for kind in KINDS)
    print(f"nobody led for {gap_s:.2f} s")
    print(f"{told(anybody)}, of each kind {least} or more; the longest took {anybody.longest_s:.2f} s")
    print(f"{told(leader)}; each stood still for {least_wait_s:.2f} s or more")
    print(f"changes lost or made twice: {wrong}")


def told(seen: Seen) -> str:
    meanwhile = seen.while_nobody_led.total()
    return f"{len(seen.done)} kinds: {seen.done.total()} done, {meanwhile} of them while nobody led"


if __name__ == "__main__":
    asyncio.run(candidate(sys.argv[2]) if sys.argv[1:2] == ["candidate"] else main())
