"""A server that answers reads from its leader's memory, without asking the engine.

Inside its validity nobody else can be in office, so nobody else can have changed what this leader knows:
``term.check()`` before each answer is all it takes. Run it: it serves 100,000 reads over a socket, counts what the
engine was asked for meanwhile, then lets the renewals fail and shows that it refuses from the instant its validity ends.

    python examples/lease_reads.py [READS]
"""

import asyncio
import sys
import tempfile
from collections import Counter

import tenure
from tenure.stores.base import Traits

PIPELINE = 500  # reads that a client sends before it waits for the answers


class CountingStore:
    """A store that counts what is asked of it, and stops answering renewals on demand."""

    def __init__(self, store: tenure.Store) -> None:
        self._store = store
        self.asked: Counter[str] = Counter()
        self.deaf = False

    @property
    def traits(self) -> Traits:
        return self._store.traits

    @property
    def address(self) -> str:
        return self._store.address

    @property
    def identity(self) -> str:
        return self._store.identity

    async def claim(self, bid: tenure.Bid) -> tenure.Grant | tenure.Wait:
        self.asked["claim"] += 1
        return await self._store.claim(bid)

    async def renew(self, grant: tenure.Grant) -> tenure.Grant | tenure.Ended:
        self.asked["renew"] += 1
        if self.deaf:
            raise tenure.Unreachable(self.address, "renew", "the line was cut")
        return await self._store.renew(grant)

    async def release(self, bid: tenure.Bid) -> None:
        self.asked["release"] += 1
        await self._store.release(bid)

    async def changed(self, wait: tenure.Wait) -> None:
        self.asked["changed"] += 1
        await self._store.changed(wait)

    async def read(self, election: str) -> tenure.Incumbent | None:
        self.asked["read"] += 1
        return await self._store.read(election)


class Table:
    """What the leader knows. Loaded at the beginning of its tenure; changed by nobody else while it lasts."""

    def __init__(self) -> None:
        self._rows: dict[str, str] = {}
        self._term: tenure.Tenure | None = None

    def load(self, term: tenure.Tenure) -> None:
        self._rows = {f"key-{number}": f"value {number}" for number in range(1000)}
        self._term = term

    def get(self, key: str) -> str:
        if self._term is None:
            return "! not the leader yet"
        self._term.check()  # raises TenureOver from the instant its validity ends
        return self._rows.get(key, "")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one client: a key a line in, a value a line out."""
        async for line in reader:
            try:
                answer = self.get(line.decode().strip())
            except tenure.TenureOver as over:
                answer = f"! not the leader: {over}"
            writer.write(f"{answer}\n".encode())
            await writer.drain()
        writer.close()


async def ask(host: str, port: int, reads: int) -> list[str]:
    """Ask for ``reads`` keys and return the answers."""
    reader, writer = await asyncio.open_connection(host, port)
    answers = []
    for first in range(0, reads, PIPELINE):
        keys = [f"key-{number % 1000}" for number in range(first, min(reads, first + PIPELINE))]
        writer.write("".join(f"{key}\n" for key in keys).encode())
        answers += [(await reader.readline()).decode().strip() for _ in keys]
    writer.close()
    return answers


async def show(store: CountingStore, reads: int) -> None:
    """Lead, serve reads in office, then lose the office and serve no more."""
    table = Table()
    server = await asyncio.start_server(table.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        async with tenure.Election(store, "table", ttl=2).once() as term:
            table.load(term)
            before = Counter(store.asked)
            answers = await ask(host, port, reads)
            during = store.asked - before
            served = sum(answer.startswith("value ") for answer in answers)
            beyond = during.total() - during["renew"]
            print(f"{served} reads served in office; the engine was asked for {during['renew']} renewals")
            print(f"requests to the engine beyond renewals: {beyond}")
            store.deaf = True
            while True:  # until loss cancels it
                await ask(host, port, 1)
    except tenure.TenureOver as over:
        late = await ask(host, port, 1000)
        print(f"{over}; then {sum(answer.startswith('! ') for answer in late)} of {len(late)} reads were refused")
    server.close()


async def main(reads: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with tenure.open_store(f"sqlite://{folder}/table.db") as store:
            await show(CountingStore(store.store), reads)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000))
