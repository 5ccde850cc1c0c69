"""Shards among real processes that join, leave, are killed and frozen: judged by what a fenced database has accepted.

Every body writes through the fence of its shard when it begins, while it works, and when it ends. So the order of the writes in
the database is the order in which they counted, whatever any clock said. What the fence refused is written beside it: whoever was
refused while its own tenure was valid had a second owner beside it, which the fence alone would hide.
"""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

import tenure
from tenure.testing.engines import EtcdCluster
from tests.apps import shard_member
from tests.processes import check_eventually

COUNT = 256
TTL_S = 6.0
SPARE = 1.1  # how many times the moves that there must be there may be


class Write(NamedTuple):
    shard: int
    token: int
    member: str
    what: str
    at_ns: int


class Refused(NamedTuple):
    shard: int
    token: int
    member: str
    what: str
    was_valid: int


class Fleet:
    def __init__(self, url: str, folder: Path, count: int = COUNT, ttl_s: float = TTL_S) -> None:
        self.url, self.path, self.count, self.ttl_s = url, folder / "books.db", count, ttl_s
        self.books = shard_member.connect(str(self.path))
        self.books.execute(shard_member.TABLE)
        self.books.execute(shard_member.REFUSED_TABLE)
        self.processes: dict[str, subprocess.Popen[str]] = {}

    def start(self, names: str) -> None:
        """Have these join, all at once: who came a second before the others would own all shards by then."""
        for name in names:
            words = [shard_member.__file__, self.url, str(self.path), name, str(self.count), str(self.ttl_s)]
            environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
            self.processes[name] = subprocess.Popen(
                [sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
            )
        joining = [self.processes[name] for name in names]
        assert [process.stdout and process.stdout.readline() for process in joining] == ["ready\n"] * len(names)
        for process in joining:
            assert process.stdin is not None
            print("join", file=process.stdin, flush=True)

    def signal(self, name: str, number: int) -> None:
        self.processes[name].send_signal(number)

    def writes(self) -> list[Write]:
        found = self.books.execute("SELECT shard, token, member, what, at_ns FROM writes ORDER BY at")
        return [Write(*row) for row in found]

    def refused(self) -> list[Refused]:
        found = self.books.execute("SELECT shard, token, member, what, was_valid FROM refused ORDER BY rowid")
        return [Refused(*row) for row in found]

    def owned_twice(self) -> list[Refused]:
        """Who was refused although its tenure was valid. A tenure that was lost, for want of a processor too, is not."""
        return [refused for refused in self.refused() if refused.was_valid]

    def owners(self) -> dict[int, str]:
        """Who began last with each shard."""
        begun = "SELECT shard, member FROM writes WHERE what = 'begin' ORDER BY at"
        return dict(self.books.execute(begun).fetchall())

    def shared_by(self, names: str) -> int:
        """Wait until these own all shards in equal parts; return how often a shard has been begun with, up to then."""

        def is_shared() -> bool:
            owned = Counter(self.owners().values())
            even = owned.total() == self.count and max(owned.values()) - min(owned.values()) < 2
            return even and set(owned) == set(names)

        check_eventually(is_shared, within_s=60)
        return sum(write.what == "begin" for write in self.writes())


@contextmanager
def fleet_on(url: str, folder: Path, count: int = COUNT, ttl_s: float = TTL_S) -> Iterator[Fleet]:
    fleet = Fleet(url, folder, count, ttl_s)
    try:
        yield fleet
    finally:
        for process in fleet.processes.values():
            process.kill()
            process.communicate()
        fleet.books.close()


@pytest.fixture(params=["sqlite", "etcd"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite://{tmp_path}/store.db"
    else:
        with EtcdCluster() as cluster:
            yield cluster.url


def test_from_3_to_5_to_2_members_of_which_one_is_killed_and_one_frozen(url: str, tmp_path: Path) -> None:
    with fleet_on(url, tmp_path) as fleet:
        fleet.start("abc")
        assert fleet.shared_by("abc") == COUNT
        fleet.start("de")
        begun = fleet.shared_by("abcde")
        assert begun - COUNT <= 2 * (COUNT // 5) * SPARE

        before, at_ns = fleet.owners(), time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        fleet.signal("c", signal.SIGKILL)
        fleet.signal("d", signal.SIGUSR1)
        fleet.signal("e", signal.SIGTERM)
        moved = fleet.shared_by("ab") - begun
        orphans = {shard for shard, owner in before.items() if owner in "cde"}
        assert moved <= len(orphans) * SPARE
        assert {shard for shard, owner in fleet.owners().items() if owner != before[shard]} == orphans
        taken_at_ns = [write.at_ns for write in fleet.writes() if write.what == "begin" and write.at_ns > at_ns]
        assert (max(taken_at_ns) - at_ns) / 1e9 < bound_s(url)
        assert fleet.processes["e"].wait(10) == 0

        fleet.signal("d", signal.SIGCONT)
        stdout = fleet.processes["d"].stdout
        assert stdout is not None
        owned_count = Counter(before.values())["d"]
        assert stdout.readline() == f"refused {owned_count} of {owned_count}\n"
        fleet.shared_by("abd")
        check_history(fleet.writes())
        zombies = [refused for refused in fleet.refused() if refused.what == "zombie"]
        assert {refused.shard for refused in zombies} == {shard for shard, owner in before.items() if owner == "d"}
        assert fleet.owned_twice() == []


def test_a_second_owner_beside_one_whose_tenure_is_valid_would_be_noticed(tmp_path: Path) -> None:
    with fleet_on(f"sqlite://{tmp_path}/store.db", tmp_path, count=2, ttl_s=TTL_S) as fleet:
        fleet.start("a")
        fleet.shared_by("a")
        assert fleet.owned_twice() == []
        fence = "(SELECT max(fence) FROM tenure_fence)"
        fleet.books.execute(f"UPDATE tenure_fence SET highest = highest + 1 WHERE fence = {fence}")  # noqa: S608  (our own name)
        check_eventually(fleet.owned_twice, within_s=60)
        assert len({refused.shard for refused in fleet.owned_twice()}) == 1


def bound_s(url: str) -> float:
    """By when a shard of a member that is gone has another owner: as is said in ``docs/how-to/share-shards.md``."""
    with tenure.sync.open_store(url) as store:
        slack_ns = store.store.traits.slack_ns(round(TTL_S * 1e9))
    return TTL_S + slack_ns / 1e9 + TTL_S / 3


def check_history(writes: list[Write]) -> None:
    """No shard was owned twice: each tenure begins once, and nothing of an earlier one comes after that, nor of one that ended."""
    of: dict[int, list[Write]] = {}
    for write in writes:
        of.setdefault(write.shard, []).append(write)
    assert len(of) == COUNT
    for history in of.values():
        token, over = 0, True
        for write in history:
            if write.what == "begin":
                assert write.token > token
                token, over = write.token, False
            assert write.token == token
            assert not over
            over = write.what == "end"
