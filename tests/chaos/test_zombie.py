"""A leader that was frozen past its lease cannot write: on real engines, into the engine itself and into a database.

Two processes share an election. The leader is stopped with SIGSTOP until the other leads under a larger token and writes;
then it goes on where it was, with a writer that nobody can stop (``zombie.py``). What counts is what can be read afterwards:
tokens never go down in the order in which the writes landed. The same without a fence shows that the test can fail.
"""

import asyncio
import json
import os
import signal
import sqlite3
import sys
import time
from asyncio.subprocess import PIPE, Process
from base64 import b64decode
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import accumulate
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from tenure.testing.engines import ConsulCluster, EtcdCluster, KubernetesCluster, ZooKeeperEnsemble
from tenure.testing.engines.processes import wait_for

PROGRAM = Path(__file__).with_name("zombie.py")
# Twenty rounds for an engine, or ten: a round mostly waits for a lease to end, so elections run side by side.
ELECTIONS = 5
PATIENCE_S = 60
SINKS = ("engine", "database")
NAMES = [*(f"z{number}" for number in range(ELECTIONS)), "control"]


class Candidate:
    """One process and what it has said."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.said: list[dict[str, Any]] = []
        self.frozen_at_s = 0.0
        self._news = asyncio.Condition()
        self._listener = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            async with self._news:
                self.said.append(json.loads(line))
                self._news.notify_all()

    async def says(self, above: int = 0, **due: Any) -> dict[str, Any]:
        """Return the first word that it has said since it was last frozen, or will say, with these parts and such a token."""

        def fits(word: dict[str, Any]) -> bool:
            return word["at_s"] >= self.frozen_at_s and word["token"] > above and word | due == word

        async with asyncio.timeout(PATIENCE_S), self._news:
            await self._news.wait_for(lambda: any(map(fits, self.said)))
        return next(filter(fits, self.said))

    def stop(self) -> None:
        """Freeze it; on return none of its threads runs."""
        self.signal(signal.SIGSTOP)
        threads = Path(f"/proc/{self.process.pid}/task")
        assert wait_for(lambda: all(_state(thread) == "T" for thread in threads.iterdir()), PATIENCE_S)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    async def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        await self.process.wait()
        await self._listener


async def start(url: str, election: str, database: Path, fence: str) -> Candidate:
    command = [sys.executable, str(PROGRAM), url, election, str(database), fence]
    return Candidate(await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE))


async def play(url: str, election: str, database: Path, fence: str, rounds: int) -> list[dict[str, Any]]:
    """Freeze whoever leads, again and again, and return what the zombies said after they woke."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE written (entry INTEGER PRIMARY KEY AUTOINCREMENT, token INTEGER)")
    leader = await start(url, election, database, fence)
    token = (await leader.says(event="leads"))["token"]
    standby = await start(url, election, database, fence)
    told: list[dict[str, Any]] = []
    after_it_woke = "refused" if fence == "fenced" else "accepted"
    try:
        for _ in range(rounds):
            stale = token
            for sink in SINKS:
                await leader.says(event="wrote", token=stale, sink=sink)
            await freeze(leader, database)
            token = (await standby.says(above=stale, event="leads"))["token"]
            for sink in SINKS:
                await standby.says(event="wrote", token=token, sink=sink)
            leader.signal(signal.SIGCONT)
            told += [await leader.says(event=event, token=stale) for event in ("woke", "ended")]
            told += [await leader.says(event=after_it_woke, token=stale, sink=sink) for sink in SINKS]
            leader, standby = standby, leader
    finally:
        for candidate in (leader, standby):
            candidate.signal(signal.SIGCONT)
            await candidate.end()
    return told


async def freeze(leader: Candidate, database: Path) -> None:
    """Stop a process between two of its transactions: one that was frozen inside has the file, and nobody can write to it."""
    async with asyncio.timeout(PATIENCE_S):
        with closing(sqlite3.connect(database, isolation_level=None, timeout=0)) as connection:
            while True:
                leader.stop()
                try:
                    connection.execute("BEGIN EXCLUSIVE")  # not even a reader may be inside
                except sqlite3.OperationalError:
                    leader.signal(signal.SIGCONT)
                    await asyncio.sleep(0)
                else:
                    connection.execute("ROLLBACK")
                    leader.frozen_at_s = time.monotonic()
                    return


def _state(thread: Path) -> str:
    """What a thread does, as the kernel has it: the word behind its name, which stands in brackets."""
    return (thread / "stat").read_text().rpartition(")")[2].split()[0]


def in_database(database: Path) -> list[int]:
    with closing(sqlite3.connect(database)) as connection:
        return [token for (token,) in connection.execute("SELECT token FROM written ORDER BY entry")]


def descents(tokens: list[int]) -> int:
    """How many writes landed after one with a larger token: each is a stale write that was accepted."""
    return sum(token < highest for token, highest in zip(tokens, accumulate(tokens, max), strict=True))


class OnEtcd:
    def __init__(self, cluster: EtcdCluster) -> None:
        self.cluster, self.url = cluster, cluster.url

    def written(self, election: str) -> list[int]:
        query = ["get", "--prefix", f"written/{election}/", "--sort-by=CREATE", "--order=ASCEND", "--print-value-only"]
        return [int(line) for line in self.cluster.ctl(*query).split()]


class OnZooKeeper:
    def __init__(self, ensemble: ZooKeeperEnsemble) -> None:
        self.url = ensemble.url
        self.client = KazooClient(",".join(ensemble.endpoints))
        self.client.start()
        for name in NAMES:
            self.client.create(f"/written-{name}")

    def written(self, election: str) -> list[int]:
        path = f"/written-{election}"
        return [int(self.client.get(f"{path}/{name}")[0]) for name in sorted(self.client.get_children(path))]


class OnConsul:
    def __init__(self, cluster: ConsulCluster) -> None:
        self.cluster, self.url = cluster, cluster.url

    def written(self, election: str) -> list[int]:
        pairs = json.loads(self.cluster.api("GET", f"/v1/kv/written/{election}/?recurse&consistent"))
        return [int(b64decode(pair["Value"])) for pair in sorted(pairs, key=itemgetter("ModifyIndex"))]


class OnKubernetes:
    def __init__(self, cluster: KubernetesCluster) -> None:
        self.cluster, self.url = cluster, cluster.url

    def written(self, election: str) -> list[int]:
        objects = json.loads(self.cluster.kubectl("get", "configmaps", "--output=json"))["items"]
        (data,) = (one["data"] for one in objects if one.get("data", {}).get("election") == election)
        return [int(token) for token in data["tokens"].split()]


@contextmanager
def etcd() -> Iterator[OnEtcd]:
    with EtcdCluster() as cluster:
        yield OnEtcd(cluster)


@contextmanager
def zookeeper() -> Iterator[OnZooKeeper]:
    with ZooKeeperEnsemble(tick_ms=500) as ensemble:  # With 200 a busy machine costs it its leader.
        running = OnZooKeeper(ensemble)
        try:
            yield running
        finally:
            running.client.stop()
            running.client.close()


@contextmanager
def consul() -> Iterator[OnConsul]:
    with ConsulCluster(session_ttl_min_s=1) as cluster:
        yield OnConsul(cluster)


@contextmanager
def kubernetes() -> Iterator[OnKubernetes]:
    with KubernetesCluster() as cluster:
        yield OnKubernetes(cluster)


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("engine", "rounds"), [(etcd, 4), (zookeeper, 4), (consul, 2), (kubernetes, 2)])
def test_no_write_of_a_zombie_is_accepted(engine: Any, rounds: int, tmp_path: Path) -> None:
    names = NAMES[:ELECTIONS]

    async def run(url: str) -> list[list[dict[str, Any]]]:
        return await asyncio.gather(*(play(url, name, tmp_path / name, "fenced", rounds) for name in names))

    with engine() as running:
        games = asyncio.run(run(running.url))
        in_engine = [running.written(name) for name in names]
    for name, told, written in zip(names, games, in_engine, strict=True):
        zombies = {word["token"] for word in told}
        assert len(zombies) == rounds
        assert [word["valid"] for word in told if word["event"] == "woke"] == [False] * rounds
        assert sum(word["event"] == "refused" for word in told) == 2 * rounds
        for tokens in (written, in_database(tmp_path / name)):
            assert zombies <= set(tokens)  # Before it was one, each has written.
            assert descents(tokens) == 0


@pytest.mark.parametrize("engine", [etcd, zookeeper, consul, kubernetes])
def test_without_a_fence_the_zombie_does_write(engine: Any, tmp_path: Path) -> None:
    database = tmp_path / "control.db"
    with engine() as running:
        told = asyncio.run(play(running.url, "control", database, "unfenced", 1))
        in_engine = running.written("control")
    assert [word["valid"] for word in told if word["event"] == "woke"] == [False]
    assert descents(in_engine) > 0
    assert descents(in_database(database)) > 0
