"""History on real engines: two who write at once lose nothing, and a write that is stuck keeps no renewal waiting."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from uuid import uuid4

import anyio
import asyncpg
import pytest

import tenure
from tenure.apps.history import keep, look, read_history
from tenure.apps.history.records import TENURES_MAX
from tenure.apps.history.told import Clocks
from tenure.facts import kinds as what
from tenure.testing.engines import EtcdCluster, PostgresCluster, ZooKeeperEnsemble
from tenure.testing.engines.cluster import Cluster
from tests.hearing import Hearing
from tests.history.making import until
from tests.processes import freeze
from tests.sharing import TICK_MS

PATIENCE_S = 60.0
TTL_S = 3.0

# Leads again and again, as many times as it is told to, and records it.
LEADER = """
import sys, anyio, tenure
from tenure.apps.history import keep
url, name, count = sys.argv[1:]
async def body(term): pass
async def main():
    async with tenure.open_store(url, accept_best_effort=True) as store, keep(store) as recorder:
        for _ in range(int(count)):
            await tenure.Election(store, name, ttl=3).lead(body)
        recorder.close(within_s=30)
        assert recorder.dropped_count == 0
anyio.run(main)
"""


_OWN: dict[str, Callable[[], Cluster]] = {"etcd": EtcdCluster, "zookeeper": partial(ZooKeeperEnsemble, tick_ms=TICK_MS)}


def url_of(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite://{tmp_path}/store.db"
    elif kind in _OWN:
        with _OWN[kind]() as cluster:
            yield cluster.url
    else:
        yield request.getfixturevalue(kind).url


@pytest.fixture(params=["sqlite", "postgresql", "mariadb", "redis", "consul", "kubernetes", "zookeeper"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A store of each kind that keeps documents, but for etcd, on which two write below."""
    yield from url_of(request.param, request, tmp_path)


@pytest.fixture
def name() -> str:
    return f"jobs-{uuid4().hex[:8]}"


def test_a_tenure_is_recorded_and_read(url: str, name: str) -> None:
    async def main() -> None:
        async with tenure.open_store(url, accept_best_effort=True) as store:
            ttl_s = store.ttl_s or TTL_S
            async with keep(store) as recorder:
                election = tenure.Election(store, name, ttl=ttl_s, advertise="http://h1:8080")
                await election.lead(until(lambda: recorder.written_count > 0))
            (one,) = await read_history(store, name)
            assert (one.holder, one.reason, one.ttl_s) == (str(election.holder), "resigned", ttl_s)
            assert recorder.dropped_count == 0
            assert (await look(store, name)).folder is None

    asyncio.run(main())


# Leads as another machine would, until it is killed.
DOOMED = """
import sys, anyio, tenure
from tenure.apps.history import keep
url, name = sys.argv[1:]
async def body(term):
    while not recorder.written_count:
        await anyio.sleep(0.01)
    print("written", flush=True)
    await anyio.sleep_forever()
async def main():
    global recorder
    async with tenure.open_store(url) as store:
        with keep(store) as recorder:
            await tenure.Election(store, name, ttl=2, holder=tenure.Holder("elsewhere", 1, "f" * 16)).lead(body)
anyio.run(main)
"""


def test_of_a_leader_of_another_machine_that_is_killed_its_successor_tells_when_by_its_own_clock(
    tmp_path: Path, name: str
) -> None:
    url = f"sqlite://{tmp_path}/store.db"

    async def main(doomed: subprocess.Popen[str]) -> None:
        async with tenure.open_store(url) as store, keep(store) as recorder:
            election = tenure.Election(store, name, ttl=2)
            with Hearing(election) as heard:

                async def kill() -> tuple[float, float]:
                    # A standby asks anew after two leases. From then on it has watched for longer than a dead leader's one lasts.
                    await until(lambda: sum(isinstance(one, what.Waiting) for one in heard.all) > 1)(None)
                    before_s = time.time()
                    doomed.kill()
                    doomed.wait()
                    return before_s, time.time()

                killing = asyncio.create_task(kill())
                await election.lead(until(lambda: recorder.written_count > 0))
                before_s, after_s = await killing
            first, second = await read_history(store, name)
        assert (first.reason, first.ended_s) == ("vanished", None)
        assert first.ended_between is not None
        assert second.gap is not None
        assert first.ended_between.clocks is second.gap.clocks is Clocks.ONE
        assert first.ended_between.least_s <= after_s
        assert before_s <= first.ended_between.most_s
        assert (
            second.gap.most_s <= 10.0
        )  # Two and a half leases between two questions, one that ran out, and some time to spare.
        assert second.elect_s is not None

    with subprocess.Popen([sys.executable, "-c", DOOMED, url, name], stdout=subprocess.PIPE, text=True) as doomed:
        try:
            assert doomed.stdout is not None
            assert doomed.stdout.readline() == "written\n"
            asyncio.run(main(doomed))
        finally:
            doomed.kill()


def test_a_leader_that_was_frozen_tells_later_how_it_ended_and_leaves_its_successors_record_alone(
    tmp_path: Path, name: str
) -> None:
    file = tmp_path / "store.db"

    async def main(frozen: subprocess.Popen[str]) -> None:
        async with tenure.open_store(f"sqlite://{file}") as store, keep(store) as recorder:
            freeze(frozen.pid, file)
            election = tenure.Election(store, name, ttl=2)

            async def body(_: tenure.Tenure) -> None:
                await until(lambda: recorder.written_count > 0)(None)
                first, second = await read_history(store, name)
                assert (first.reason, second.in_office) == ("vanished", True)
                frozen.send_signal(signal.SIGCONT)
                with anyio.fail_after(PATIENCE_S):
                    while (await read_history(store, name))[0].reason == "vanished":  # noqa: ASYNC110  (a file changes)
                        await anyio.sleep(0.02)
                first, again = await read_history(store, name)
                assert (first.reason, first.ended_between) == ("lapsed", None)
                assert first.overstay_s is not None
                assert (again.in_office, again.overlaps, again.began_s) == (True, True, second.began_s)

            await election.lead(body)
            assert [one.reason for one in await read_history(store, name)][:2] == ["lapsed", "resigned"]

    program = [sys.executable, "-c", DOOMED, f"sqlite://{file}", name]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as frozen:
        try:
            assert frozen.stdout is not None
            assert frozen.stdout.readline() == "written\n"
            asyncio.run(main(frozen))
        finally:
            frozen.kill()


@pytest.fixture(params=["sqlite", "etcd", "postgresql"])
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    yield from url_of(request.param, request, tmp_path)


def test_two_processes_that_write_at_once_lose_nothing(shared_url: str, name: str) -> None:
    program = [sys.executable, "-c", LEADER, shared_url, name, "8"]
    both = [subprocess.Popen(program, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    told = [process.communicate(timeout=PATIENCE_S)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], told

    async def main() -> None:
        async with tenure.open_store(shared_url) as store:
            tenures = await read_history(store, name)
        assert len(tenures) == 16
        assert len({one.token for one in tenures}) == 16
        assert {one.reason for one in tenures} == {"resigned"}
        assert all(one.gap is not None or one.overlaps for one in tenures[1:])

    asyncio.run(main())


def test_after_many_tenures_a_document_has_the_last_ones(tmp_path: Path) -> None:
    program = [sys.executable, "-c", LEADER, f"sqlite://{tmp_path}/store.db", "jobs", "100"]
    subprocess.run(program, check=True, timeout=PATIENCE_S)

    async def main() -> None:
        async with tenure.open_store(f"sqlite://{tmp_path}/store.db") as store:
            tenures = await read_history(store, "jobs")
            found = await store.document("tenure/history/jobs")
        assert [one.token for one in tenures] == list(range(101 - TENURES_MAX, 101))
        assert found is not None
        assert len(json.loads(found.value)["tenures"]) == TENURES_MAX

    asyncio.run(main())


def test_a_record_that_is_stuck_in_a_lock_of_the_database_keeps_no_renewal_waiting(
    postgresql: PostgresCluster, name: str
) -> None:
    async def main() -> None:
        async with tenure.open_store(postgresql.url) as store:
            await store.update(f"first/{name}", lambda _: b"there is a table of documents now")
            other = await asyncpg.connect(postgresql.url)
            held = other.transaction()
            await held.start()
            [(schema,)] = await other.fetch(
                "SELECT table_schema FROM information_schema.tables WHERE table_name = 'document'"
            )
            await other.execute(f'LOCK TABLE "{schema}".document IN ACCESS EXCLUSIVE MODE')
            election = tenure.Election(store, name, ttl=2)
            async with keep(store) as recorder:
                renewed: list[what.What] = []
                with (
                    Hearing(election) as heard,
                    tenure.subscribe(lambda one: renewed.append(one.what), kinds=(what.Renewed,)),
                ):
                    await election.lead(until(lambda: len(renewed) > 10))  # two and a half leases
                assert [one.reason.value for one in heard.left] == ["resigned"]
                assert [one for one in heard.all if isinstance(one, what.StoreFailed)] == []  # None came too late.
                assert recorder.written_count == 0
                await held.rollback()
                await other.close()
                await until(lambda: recorder.written_count > 0)(None)
            (one,) = await read_history(store, name)
            assert one.reason == "resigned"

    asyncio.run(main())
