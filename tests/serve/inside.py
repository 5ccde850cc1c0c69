"""A sidecar within the process of a test, on a store that counts what it is asked."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from tenure.errors import Unreachable
from tenure.model import Bid, Ended, Grant, Incumbent, Wait
from tenure.office.opened import LoopStore, open_store
from tenure.serve.app import build
from tenure.serve.setup import Setup
from tenure.serve.sidecar import Sidecar
from tenure.stores.base import ElectionStatus
from tenure.stores.memory import MemoryEngine, MemoryStore
from tenure.timing import Timing

TOKEN = "a-token-that-nobody-guesses"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
QUICK = Timing.of(ttl=0.8)


class CountingStore(MemoryStore):
    """A store that counts what it is asked for, looks aside, and can be lost."""

    def __init__(self, engine: MemoryEngine) -> None:
        super().__init__(engine)
        self.asked: Counter[str] = Counter()
        self.looks = 0
        self.lost = False
        self.to_leave: set[Grant] = set()
        self.elections_held: set[str] = set()

    def _ask(self, what: str) -> None:
        self.asked[what] += 1
        if self.lost:
            raise Unreachable(self.address, what, "cut off by the test")

    async def claim(self, bid: Bid) -> Grant | Wait:
        self._ask("claim")
        self.elections_held.add(bid.election)
        return await super().claim(bid)

    async def renew(self, grant: Grant) -> Grant | Ended:
        self._ask("renew")
        return await super().renew(grant)

    async def read(self, election: str) -> Incumbent | None:
        self._ask("read")
        return await super().read(election)

    async def elections(self) -> list[ElectionStatus]:
        self.looks += 1
        if self.lost:
            raise Unreachable(self.address, "elections", "cut off by the test")
        return [
            ElectionStatus(
                name, await super(CountingStore, self).read(name), None, None, resign_asked=False, standbys=()
            )
            for name in sorted(self.elections_held)
        ]

    async def ask_to_resign(self, election: str) -> Incumbent | None:
        self._ask("ask_to_resign")
        held = self._engine.holding(election, self._clock.now())
        if held is not None:
            self.to_leave.add(held)
        return await super().read(election)

    def resign_asked(self, grant: Grant) -> bool:
        return grant in self.to_leave


class Inside:
    """What a test needs of it."""

    def __init__(self, client: httpx.AsyncClient, sidecar: Sidecar, store: CountingStore, opened: LoopStore) -> None:
        self.client, self.sidecar, self.store, self.opened = client, sidecar, store, opened

    async def look(self) -> None:
        """Have the sidecar look at the store now."""
        await self.sidecar._looker.look()

    async def settled(self) -> None:
        """Have the sidecar look at the store, and wait until it has read the history of what it saw."""
        await self.look()
        async with asyncio.timeout(30):
            while self.store.asked["read"] < len(self.sidecar.view.statuses):  # noqa: ASYNC110  (nobody tells)
                await asyncio.sleep(0.01)
        self.sidecar.recall.forget_due()  # It would be read again, since somebody leads now.

    async def until(self, status: int, path: str = "/leader/jobs") -> None:
        """Ask until this is the answer."""
        async with asyncio.timeout(30):
            while (await self.client.get(path)).status_code != status:  # noqa: ASYNC110  (it can be asked, and tells nobody)
                await asyncio.sleep(0.01)

    async def stand(self, election: str = "jobs", **body: object) -> dict[str, object]:
        answer = await self.client.post(f"/v1/elections/{election}/candidacies", json=body, headers=BEARER)
        assert answer.status_code == 201, answer.text
        found: dict[str, object] = answer.json()
        return found

    async def wait(self, id_: object, while_: str = "waiting", wait_s: float = 20) -> dict[str, object]:
        """Ask until the state is another one."""
        while True:
            url = f"/v1/candidacies/{id_}?wait_s={wait_s:g}&while={while_}"
            answer = await self.client.get(url, headers=BEARER)
            assert answer.status_code == 200, answer.text
            found: dict[str, object] = answer.json()
            if found["state"] != while_:
                return found


@asynccontextmanager
async def inside(store: CountingStore | None = None, **settings: object) -> AsyncIterator[Inside]:
    """Run one, which has a token unless told otherwise."""
    store = store or CountingStore(MemoryEngine())
    opened = open_store("memory://")
    opened._unopened = store
    setup = Setup(**{"timing": QUICK, "tokens": (TOKEN.encode(),), "rate_per_s": 1e6, "drain_s": 2.0, **settings})  # type: ignore[arg-type]
    async with opened:
        app = build(opened, setup)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=30) as client,
        ):
            yield Inside(client, app.state.sidecar, store, opened)
