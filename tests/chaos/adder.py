"""A client of the set: takes a lock, reads the set, adds an element of its own, writes the whole set back, and again.

It trusts the lock, as most programs do: between the read and the write it looks at nothing. An element counts as added when
the write was answered. What it is about to do stands in a file, for who freezes it. With ``fenced`` the write is in one step with a comparison of the lock's token.

Speaks in lines of JSON on stdout. Ends when its stdin does.
"""

import asyncio
import json
import sys
import threading
from contextlib import AsyncExitStack, suppress
from itertools import count
from pathlib import Path

import tenure
from tenure.clients.etcd.messages import Put, Range, Txn
from tenure.errors import StaleToken, TenureOver
from tenure.sinks import EtcdSink
from tests.chaos.zombie import say

BETWEEN_READ_AND_WRITE_S = 0.05


class Adder:
    """One client."""

    def __init__(self, name: str, state: Path, sink: EtcdSink, lock: tenure.Lock, fenced: bool) -> None:
        self.key, self.sink, self.lock, self.fenced = f"set/{name}".encode(), sink, lock, fenced
        self.state, self.elements = state, count(int(state.suffix[1:]), 100)

    async def add(self) -> None:
        term = await self.lock.acquire()
        assert term is not None
        element = next(self.elements)
        found = await self.sink._client.range(Range(self.key), operation="read")
        elements = [*(json.loads(found.kvs[0].value) if found.kvs else ()), element]
        self.state.write_text(f"{term.token} has read")
        say(event="read", token=term.token, element=element)
        await asyncio.sleep(BETWEEN_READ_AND_WRITE_S)
        self.state.write_text(f"{term.token} writes")
        try:
            await self.write(term, Put(self.key, json.dumps(elements).encode()))
        except StaleToken:
            say(event="refused", token=term.token, element=element)
        else:
            say(event="added", token=term.token, element=element)
        with suppress(TenureOver):
            await self.lock.release()

    async def write(self, term: tenure.Tenure, put: Put) -> None:
        if self.fenced:
            await self.sink.bind(term).txn(success=[put])
        else:
            await self.sink._client.txn(Txn((), (put,)), operation="write")


async def main(url: str, name: str, state: Path, fenced: bool) -> None:
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def until_stdin_ends() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(done.set)

    threading.Thread(target=until_stdin_ends, daemon=True).start()
    async with AsyncExitStack() as stack:
        sink = await stack.enter_async_context(EtcdSink(url))
        store = await stack.enter_async_context(tenure.open_store(url))
        lock = tenure.Lock(store, name, ttl=3, sinks=[sink] if fenced else [])
        adder = Adder(name, state, sink, lock, fenced)
        while not done.is_set():
            await adder.add()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), fenced=sys.argv[4] == "fenced"))
