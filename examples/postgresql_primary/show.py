"""A primary and two replicas on this machine, a client that counts, and what becomes of its commits when the primary dies.

    python examples/postgresql_primary/show.py [synchronous|asynchronous]

The client writes numbered rows and notes each one that PostgreSQL has acknowledged. Then the primary's machine stalls, as seen
by its replicas, and dies. After the failover every acknowledged row must be there; in asynchronous mode it need not, and is not.
In synchronous mode the next primary's agent is frozen after that, and the one after that is told to hand over.
"""

import asyncio
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import asyncpg
from agent import ELECTION, FENCE
from server import DOWN, Server

import tenure
from tenure.apps.replicas import Replicas
from tenure.model import Incumbent
from tenure.office.opened import LoopStore
from tenure.sinks.postgresql import guard
from tenure.testing.engines.ports import claim_ports
from tenure.testing.engines.privileges import reachable

AGENT = Path(__file__).with_name("agent.py")
PATIENCE_S = 1.0  # how long a client waits for an answer before it looks who leads now


class Client:
    """Writes numbered rows to whoever leads, and notes which were acknowledged, and when. No number is used twice."""

    def __init__(self, election: tenure.Election) -> None:
        self._election, self._numbers = election, count(1)
        self.acknowledged: list[tuple[int, int, float]] = []  # number, token, when

    async def run(self) -> None:
        while True:
            with suppress(*DOWN, tenure.StaleToken, tenure.StoreError):
                leader = await self._election.incumbent()
                if leader is not None:
                    await self._write_to(leader)
            await asyncio.sleep(0.05)

    async def _write_to(self, leader: Incumbent) -> None:
        async with connected(leader.advertised) as connection:
            await connection.execute("CREATE TABLE IF NOT EXISTS entries (number bigint PRIMARY KEY)")
            while True:
                number = next(self._numbers)
                await write(connection, number, leader.token)
                self.acknowledged.append((number, leader.token, time.monotonic()))


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(f"postgresql://postgres@{address}/postgres", timeout=5)
    try:
        yield connection
    finally:
        connection.terminate()


async def write(connection: asyncpg.Connection, number: int, token: int) -> None:
    """Commit one row under a token; raises if there is no answer. Not by a timeout of the driver's: that would *cancel* the wait
    for the replicas, and PostgreSQL would say COMMIT for what only it has.
    """
    hang_up = asyncio.get_running_loop().call_later(PATIENCE_S, connection.terminate)
    try:
        async with connection.transaction():
            await connection.execute("INSERT INTO entries VALUES ($1)", number)
            await guard(connection, SimpleNamespace(fence=FENCE, token=token))
    finally:
        hang_up.cancel()


async def attempt(address: str, token: int) -> str:
    """Write one more row, and say what came of it."""
    try:
        async with connected(address) as connection:
            await write(connection, -token, token)
    except tenure.StaleToken as stale:
        return f"refused: {stale}"
    except asyncpg.ReadOnlySQLTransactionError:
        return "refused: it is read-only"
    except DOWN:
        return "not acknowledged"
    return "ACKNOWLEDGED"


async def serves(address: str) -> bool:
    """Whether a server takes a new connection, and takes writes."""
    with suppress(*DOWN):
        async with connected(address) as connection:
            return not await connection.fetchval("SELECT pg_is_in_recovery()")
    return False


class Stage:
    """The agents, the client, and what is done to them."""

    def __init__(self, store: LoopStore, url: str, folder: Path, places: dict[str, str], mode: str) -> None:
        self.url, self.folder, self.places, self.mode = url, folder, places, mode
        self.election = tenure.Election(store, ELECTION)
        self.replicas = Replicas(store, ELECTION, "show", places)
        self.client = Client(self.election)
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self.servers = {name: Server(name, address, folder / name) for name, address in places.items()}

    def start(self, name: str) -> None:
        places = [f"{name}={address}" for name, address in self.places.items()]
        words = [sys.executable, str(AGENT), self.url, str(self.folder), self.mode, name, *places]
        with (self.folder / f"{name}.agent.log").open("ab") as log:
            self.agents[name] = subprocess.Popen(words, stdout=log, stderr=log)

    def tell_logs(self) -> None:
        for log in (*self.folder.glob("*.log"), *self.folder.glob("*/log")):
            print(f"== {log}\n{log.read_text(errors='replace')[-3000:]}", file=sys.stderr)

    async def eventually(self, condition: Callable[[], Awaitable[object]], within_s: float = 100) -> None:
        async with asyncio.timeout(within_s):
            while not await condition():  # noqa: ASYNC110  (it is asked of other processes)
                await asyncio.sleep(0.05)

    async def primary(self) -> str:
        """Who leads and has taken over."""
        leader, record = await self.election.incumbent(), await self.replicas.record_now()
        return record.primary if leader and record and leader.token == record.token else ""

    async def all_in_step(self) -> bool:
        record = await self.replicas.record_now()
        return record is not None and len(record.synchronous) == len(self.places) - 1

    async def more_commits(self, number: int) -> None:
        enough = len(self.client.acknowledged) + number

        async def there() -> bool:
            return len(self.client.acknowledged) >= enough

        await self.eventually(there)

    async def failover(self, fault: Callable[[], object]) -> tuple[str, int]:
        """Do something to the primary; return who leads when the next one's first commit is acknowledged, and the old token."""
        old = await self.primary()
        leader = await self.election.incumbent()
        assert leader is not None
        began = time.monotonic()
        fault()

        async def succeeded() -> bool:
            return any(token > leader.token for _, token, _ in self.client.acknowledged)

        await self.eventually(succeeded)
        after_s = next(at for _, token, at in self.client.acknowledged if token > leader.token) - began
        new = await self.primary()
        print(f"{old} was the primary, now {new} is; first commit acknowledged after {after_s:.1f} s")
        return new, leader.token

    async def count_lost(self, server: Server) -> None:
        numbers = {number for number, _, _ in self.client.acknowledged}  # first: the client goes on meanwhile
        there = {number for (number,) in await server.rows("SELECT number FROM entries")}
        print(f"acknowledged {len(numbers)}, of these lost {len(numbers - there)}", flush=True)

    async def play(self) -> None:
        for name in self.places:
            self.start(name)
        await self.eventually(self.all_in_step)
        writing = asyncio.create_task(self.client.run())
        await self.more_commits(50)
        await self.kill_the_primary()
        if self.mode == "synchronous":
            await self.freeze_the_agent()
            await self.hand_over()
        writing.cancel()

    async def kill_the_primary(self) -> None:
        print("-- the primary stalls for a replica or both, and then its machine dies", flush=True)
        name = await self.primary()
        senders = dict(await self.servers[name].rows("SELECT application_name, pid FROM pg_stat_replication"))
        behind, ahead = sorted(senders)  # Were they equal, the first by name would be chosen.
        os.kill(senders[behind], signal.SIGSTOP)
        if self.mode == "asynchronous":
            os.kill(senders[ahead], signal.SIGSTOP)
            await self.more_commits(20)  # They are acknowledged, and nobody else has them.
        else:

            async def is_ahead() -> bool:  # by a commit that is not acknowledged, as not all have it
                return await self.servers[ahead].position() > await self.servers[behind].position()

            await self.eventually(is_ahead)
            print(f"{ahead} is ahead of {behind}")
        new, token = await self.failover(self.agents[name].kill)  # Its keeper kills the server with it.
        self.agents[name].wait()
        await self.count_lost(self.servers[new])
        print(f"a write to {new} under the old token: {await attempt(self.places[new], token)}", flush=True)
        if self.mode == "synchronous":
            await self.bring_back(name)

    async def bring_back(self, name: str) -> None:
        leader = await self.election.incumbent()
        assert leader is not None
        stray = self.servers[name]
        stray.start()  # As the primary that it was, by somebody who knows of no agent.

        async def serves() -> bool:
            with suppress(*DOWN):
                return bool(await stray.position())
            return False

        await self.eventually(serves)
        print(f"a write to {name}, started as it was: {await attempt(stray.address, leader.token)}")
        stray.kill()
        self.start(name)
        await self.eventually(self.all_in_step)
        print(f"a write to {name}, back with its agent: {await attempt(stray.address, leader.token)}", flush=True)

    async def freeze_the_agent(self) -> None:
        print("-- the primary's agent freezes, and the primary goes on")
        name = await self.primary()
        frozen = self.agents[name]
        new, _ = await self.failover(lambda: frozen.send_signal(signal.SIGSTOP))
        leader = await self.election.incumbent()
        assert leader is not None
        print(f"a write to {name}, which still runs: {await attempt(self.places[name], leader.token)}")
        frozen.send_signal(signal.SIGCONT)
        await self.eventually(self.all_in_step)
        print(f"a write to {name}, whose agent woke: {await attempt(self.places[name], leader.token)}")
        await self.count_lost(self.servers[new])

    async def hand_over(self) -> None:
        print("-- the primary's agent is told to hand over", flush=True)
        name, asked_s = await self.primary(), list[float]()

        async def was_served() -> bool:
            return bool(asked_s)

        async def watch() -> None:
            while True:
                at_s = time.monotonic()
                if await serves(self.places[name]):
                    asked_s.append(at_s)
                await asyncio.sleep(0.01)

        watching = asyncio.create_task(watch())
        await self.eventually(was_served)
        new, _ = await self.failover(self.agents[name].terminate)
        await self.more_commits(20)
        watching.cancel()
        code = self.agents[name].wait()
        demoted_s, promoted_s = self.said(name, "demoted"), self.said(new, "promotes")
        print(
            f"{name} was stopped {promoted_s - demoted_s:.3f} s before {new} was promoted, and its agent ended with {code}"
        )
        # A connection that was begun when the next one was being promoted must not have been answered by a primary.
        print(f"{name} was asked and served {promoted_s - max(asked_s):.3f} s before that for the last time")
        await self.count_lost(self.servers[new])

    def said(self, name: str, what: str) -> float:
        """When an agent last said so."""
        log = (self.folder / f"{name}.agent.log").read_text()
        return float(re.findall(rf"^{name}: {what} at (\S+)$", log, re.MULTILINE)[-1])


async def main(mode: str) -> None:
    claims = claim_ports(3, "127.0.0.1")
    places = {f"n{index}": f"127.0.0.1:{claim.port}" for index, claim in enumerate(claims, 1)}
    with tempfile.TemporaryDirectory(dir=reachable(), prefix="tenure-primary-") as folder:
        url = f"sqlite://{folder}/store.db"
        async with tenure.open_store(url) as store:
            stage = Stage(store, url, Path(folder), places, mode)
            try:
                await stage.play()
            except TimeoutError:
                stage.tell_logs()
                raise
            finally:
                for agent in stage.agents.values():
                    agent.kill()
                    agent.wait()


if __name__ == "__main__":
    match sys.argv[1:] or ["synchronous"]:
        case [("synchronous" | "asynchronous") as mode]:
            asyncio.run(main(mode))
        case words:
            sys.exit(f"{' '.join(words)}: must be synchronous or asynchronous")
