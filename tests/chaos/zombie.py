"""A candidate for the test of zombies: leads, writes all the time, and never listens to anybody who tells it to stop.

Its writer is a task of its own, which no loss cancels: it writes under the token that it has until it is told of another,
as a leader does that was frozen between its check and its write. Every write goes to every target, or, with ``unfenced``,
to the same places without a fence. When the writer finds that it has slept, it says at once whether it still believes.
While it writes it holds a lock on a file, so that who freezes it can see that it is not in the middle of a write.

Speaks in lines of JSON on stdout. Ends when its stdin does.
"""

import asyncio
import fcntl
import json
import sys
import threading
import time
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tenure
from tenure.errors import StaleToken, StoreError, TenureError
from tests.chaos.targets import Target, sinks_of, target

if TYPE_CHECKING:
    from collections.abc import Iterator

WRITE_EVERY_S = 0.05
SLEPT_S = 1.0


def say(**words: Any) -> None:
    print(json.dumps({**words, "at_s": time.monotonic()}), flush=True)


class Writer:
    """Writes under the last token that it was given, to every target."""

    def __init__(self, election: str, targets: dict[str, Target], busy: Path, fenced: bool) -> None:
        self.election, self.targets, self.fenced = election, targets, fenced
        self.busy = busy.open("w")
        self.term: tenure.Tenure | None = None

    @contextmanager
    def writing(self) -> "Iterator[None]":
        fcntl.flock(self.busy, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self.busy, fcntl.LOCK_UN)

    async def run(self) -> None:
        before, wrote, unheard = time.monotonic(), set[tuple[int, str]](), set[str]()
        while True:
            await asyncio.sleep(WRITE_EVERY_S)
            term = self.term
            if term is None:
                before = time.monotonic()
                continue
            # Nobody is frozen who has the file locked, so whoever was finds out: between the two looks at the clock.
            with self.writing():
                if time.monotonic() - before > SLEPT_S:
                    say(event="woke", token=term.token, valid=term.valid)
                    unheard = set(self.targets)
                for sink, each in self.targets.items():
                    outcome = await self.write(term, sink, each)
                    if outcome != "accepted" or sink in unheard:
                        say(event=outcome, token=term.token, sink=sink)
                    if outcome in {"accepted", "refused"}:  # else its client has to come to itself first
                        unheard.discard(sink)
                    if outcome == "accepted" and (term.token, sink) not in wrote:
                        wrote.add((term.token, sink))
                        say(event="wrote", token=term.token, sink=sink)
                before = time.monotonic()

    async def write(self, term: tenure.Tenure, sink: str, each: Target) -> str:
        try:
            await (each.write if self.fenced else each.write_unfenced)(term, self.election)
        except StaleToken:
            return "refused"
        except (StoreError, TenureError) as error:
            return f"failed: {sink}: {error}"
        return "accepted"


async def main(store_url: str, election: str, places: dict[str, str], busy: Path, fenced: bool) -> None:
    targets = {kind: target(kind, place) for kind, place in places.items()}
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def until_stdin_ends() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(done.set)

    threading.Thread(target=until_stdin_ends, daemon=True).start()
    async with AsyncExitStack() as stack:
        for each in targets.values():
            if hasattr(each.sink, "__aenter__"):
                await stack.enter_async_context(each.sink)
            elif hasattr(each.sink, "__enter__"):
                stack.enter_context(each.sink)
        writer = Writer(election, targets, busy, fenced)
        store = await stack.enter_async_context(tenure.open_store(store_url, accept_best_effort=True))

        async def body(term: tenure.Tenure) -> None:
            writer.term = term
            say(event="leads", token=term.token)
            try:
                await asyncio.Event().wait()
            finally:
                say(event="ended", token=term.token)

        sinks = sinks_of(targets) if fenced else []
        lead = asyncio.create_task(tenure.Election(store, election, ttl=4).lead(body, sinks=sinks))
        write = asyncio.create_task(writer.run())
        write.add_done_callback(lambda _: done.set())  # It never ends by itself: then it is broken, and says so.
        await done.wait()
        for task in (lead, write):
            task.cancel()
        for failure in await asyncio.gather(lead, write, return_exceptions=True):
            if isinstance(failure, Exception):
                raise failure


if __name__ == "__main__":
    order = json.loads(sys.argv[1])
    asyncio.run(main(order["store"], order["election"], order["targets"], Path(order["busy"]), order["fenced"]))
