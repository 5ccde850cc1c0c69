"""An agent: keeps one PostgreSQL server a replica of whoever leads, and makes it the primary when it leads itself.

    python agent.py STORE FOLDER MODE NAME n1=127.0.0.1:5001 n2=127.0.0.1:5002 n3=127.0.0.1:5003

Run one for each server. Each keeps its server in FOLDER/NAME. MODE is ``synchronous``, or ``asynchronous`` to see what that loses.
TERM has it hand over, if it leads, and end.
"""

import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import anyio
from server import DOWN, Server

import tenure
from tenure.apps.replicas import Fit, Record, Replicas
from tenure.errors import StoreError
from tenure.office.opened import LoopStore
from tenure.sinks import PostgresSink
from tenure.testing.engines.cluster import EngineFailed

ELECTION, FENCE = "db/primary", "db"
TTL_S, TICK_S = 3, 0.1
NEVER = 2**62  # a position that nobody reaches
CLONE_AFTER_S = 3  # A replica that cannot follow is made anew: it may have what the primary never had.


class Agent:
    """One member: a candidate with a server of its own."""

    def __init__(self, store: LoopStore, folder: Path, name: str, places: dict[str, str], *, synchronous: bool) -> None:
        self.server = Server(name, places[name], folder / name)
        self.election = tenure.Election(store, ELECTION, ttl=TTL_S, advertise=places[name])
        self.replicas = Replicas(store, ELECTION, name, places)
        self.name, self.others, self.synchronous = name, places.keys() - {name}, synchronous
        self.at_work = anyio.Lock()  # Either the body or ``tend`` has the server in hand.
        self.followed, self.astray_s = 0, 0.0  # the token of who is followed, and for how long nothing came from there

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.tend)
            await self.election.lead(self.be_primary, eligible=self.may_lead)

    def say(self, what: str) -> None:
        """Tell what is done to the server, and when: by the clock of the machine, which all agents here have in common."""
        print(f"{self.name}: {what} at {time.monotonic():.6f}", flush=True)

    # As a candidate

    async def may_lead(self) -> bool:
        record = await self.replicas.record_now()
        if record is None:
            return True  # There is no database yet.
        if record.primary == self.name:
            return self.server.data.exists()
        # Everybody has seen by then that the office has changed hands, and has left the old primary, if that still runs. So
        # it can acknowledge nothing from here on, and positions are what they will be.
        await anyio.sleep(2 * TICK_S)
        return self.server.runs and isinstance(await self.replicas.fitness(await self.server.position()), Fit)

    # As the primary

    async def be_primary(self, term: tenure.Tenure) -> None:
        async with self.at_work:
            try:
                await self.serve(term)
            except (*DOWN, StoreError, tenure.StaleToken) as error:
                print(f"{self.name}: {error!r}", flush=True)
            finally:
                self.server.kill()  # Demoted before the office is released, and so before anybody else is promoted.
                self.say("demoted")
                self.followed = 0
        term.give_up()
        await anyio.sleep_forever()  # until the office has heard it

    async def serve(self, term: tenure.Tenure) -> None:
        if not self.server.data.exists():
            await anyio.to_thread.run_sync(self.server.make)
        record = await self.replicas.take_over(term)
        if not isinstance(record, Record):
            return
        if not self.server.runs:
            await self.start()
        waits_for = set(self.others)  # for everybody, until it is known who is there
        await self.server.wait_for(waits_for if self.synchronous else set())
        self.say("promotes")
        await self.server.promote()
        print(f"{self.name}: primary with token {term.token}", flush=True)
        mark, sealed = NEVER, False
        while True:
            seen = await self.server.followers(mark)
            wanted = set(seen) or waits_for  # If nobody is there, commits wait for who was last.
            # Who is waited for, and has come up to a mark that is younger than the waiting, has all that was acknowledged: also
            # what a process of the server's let go that had not heard of the waiting yet.
            caught_up = {name for name in waits_for if seen.get(name)}
            safe = (record.synchronous | caught_up) & wanted
            if (
                safe != record.synchronous
            ):  # First out of the record, then not waited for; first waited for, then into it.
                record = await self.replicas.record(term, safe)
            if wanted != waits_for:
                waits_for, mark = wanted, NEVER
                await self.server.wait_for(waits_for if self.synchronous else set())
            else:
                mark = await self.server.position()
            if record.synchronous and not sealed:
                sealed = await self.seal(term)
            await anyio.sleep(TICK_S)

    async def seal(self, term: tenure.Tenure) -> bool:
        """Raise the fence that clients' transactions compare with. It is a commit like theirs, and waits like theirs."""
        with anyio.move_on_after(1), suppress(StoreError):
            async with PostgresSink(self.server.dsn) as sink:
                await sink.seal(FENCE, term.token)
                return True
        return False

    # As a replica

    async def tend(self) -> None:
        while True:
            async with self.at_work:
                with suppress(*DOWN, EngineFailed, StoreError):
                    await self.follow()
            await anyio.sleep(TICK_S)

    async def follow(self) -> None:
        if self.server.is_replica and not self.server.runs:
            await self.start()
            await self.server.follow("")
        if self.server.runs:
            await self.replicas.report(await self.server.position())
        leader, record = await self.election.incumbent(), await self.replicas.record_now()
        if leader is None or record is None or leader.token != record.token or record.primary == self.name:
            # Nobody leads, or nobody has taken over yet: leave the old primary. What is here may be all that there is: keep it.
            if self.followed and self.server.runs:
                await self.server.follow("")
            self.followed = 0
        elif (
            not self.server.runs or self.astray_s > CLONE_AFTER_S
        ):  # It was a primary, or has nothing, or cannot follow.
            await anyio.to_thread.run_sync(self.server.clone, leader.advertised)
            await self.start()
            self.followed, self.astray_s = leader.token, 0.0
        elif self.followed != leader.token:
            await self.server.follow(leader.advertised)
            self.followed, self.astray_s = leader.token, 0.0
        elif await self.server.rows("SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming'"):
            self.astray_s = 0.0
        else:
            self.astray_s += TICK_S

    async def start(self) -> None:
        self.server.start()
        while self.server.runs:
            with suppress(*DOWN):
                await self.server.position()
                return
            await anyio.sleep(0.05)


async def main(url: str, folder: str, mode: str, name: str, members: list[str]) -> None:
    places = dict(member.split("=", 1) for member in members)
    async with tenure.open_store(url) as store, anyio.create_task_group() as tasks:
        with anyio.open_signal_receiver(signal.SIGTERM) as signals:
            tasks.start_soon(Agent(store, Path(folder), name, places, synchronous=mode == "synchronous").run)
            async for _ in signals:
                break
        tasks.cancel_scope.cancel()  # The body ends, and with it the server; then the office is released.


if __name__ == "__main__":
    url, folder, mode, name, *members = sys.argv[1:]
    anyio.run(main, url, folder, mode, name, members)
