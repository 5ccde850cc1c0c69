"""Who may be the primary: the rule by itself, the record in a store, and both in replica sets that are broken at random."""

import random
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import anyio
import pytest

import tenure
from tenure.apps.replicas import Fit, Record, Replicas, Report, Unfit, fitness
from tenure.clock import VirtualClock
from tenure.errors import ConfigError, StaleToken
from tenure.model import Token

RECORD = Record(Token(7), "a", frozenset({"b", "c"}))
MEMBERS = ("a", "b", "c", "d")


def term(token: int) -> SimpleNamespace:
    return SimpleNamespace(token=token, fence="x")


@pytest.mark.parametrize(
    ("member", "position", "others", "why"),
    [
        ("a", 5, {"b": 9}, ""),  # nobody has been the primary since
        ("b", 9, {"c": 8, "d": 99}, ""),  # d may be anywhere: it cannot be chosen
        ("b", 8, {"c": 9}, "c is ahead of b: 9 and 8"),
        ("c", 9, {"b": 9}, "b is ahead of c: 9 and 9"),  # equals: the first by name
        ("b", 9, {"c": 9}, ""),
        ("b", 8, {}, ""),  # c is dead
        ("d", 99, {}, "d may miss commits that a has acknowledged"),
    ],
)
def test_the_most_advanced_of_those_who_have_all_that_was_acknowledged(
    member: str, position: int, others: dict[str, int], why: str
) -> None:
    reports = {name: Report(position) for name, position in others.items()}
    assert fitness(member, position, reports, RECORD) == (Unfit(why) if why else Fit())


def test_the_first_primary_is_the_most_advanced_of_all() -> None:
    assert fitness("d", 9, {"a": Report(8)}, None) == Fit()
    assert fitness("a", 8, {"d": Report(9)}, None) == Unfit("d is ahead of a: 9 and 8")


@pytest.mark.parametrize("url", ["memory://", "sqlite://{}/x.db"])
def test_a_primary_that_was_succeeded_cannot_change_the_record_and_a_successor_takes_over_by_it(
    url: str, tmp_path: Path
) -> None:
    async def test() -> None:
        async with tenure.open_store(url.format(tmp_path)) as store:
            a, b, c = (Replicas(store, "db", name, MEMBERS) for name in "abc")
            with pytest.raises(ConfigError, match="take over first"):
                await a.record(term(1), {"b"})
            assert await a.take_over(term(1)) == Record(Token(1), "a", frozenset())
            assert await a.record(term(1), {"b"}) == await b.record_now()
            assert isinstance(await c.take_over(term(2)), Unfit)
            assert await b.take_over(term(3)) == Record(Token(3), "b", frozenset())
            with pytest.raises(StaleToken):
                await a.record(term(1), {"c"})  # It was frozen, and has not heard of it.
            with pytest.raises(StaleToken):
                await a.take_over(term(2))
            with pytest.raises(ConfigError, match="take over first"):
                await b.record(term(4), {"c"})

    anyio.run(test)


def test_who_has_stopped_to_report_is_not_waited_for() -> None:
    async def test() -> None:
        clock = VirtualClock()
        async with tenure.open_store("memory://") as store:
            a, b = (Replicas(store, "db", name, "ab", alive_within=2, clock=clock) for name in "ab")
            await b.report(9)
            await a.report(8)
            assert isinstance(await a.fitness(8), Unfit)
            clock.advance(1_999_999_999)
            assert isinstance(await a.fitness(8), Unfit)
            clock.advance(1)
            assert await a.fitness(8) == Fit()
            await b.report(9)
            assert isinstance(await a.fitness(8), Unfit)

    anyio.run(test)


@pytest.mark.parametrize("member", ["", "a/b"])
def test_a_member_that_could_not_be_told_apart_is_refused(member: str) -> None:
    with pytest.raises(ConfigError, match="without a slash"):
        Replicas(tenure.open_store("memory://"), "db", "a", [member, "b"])


Mistake = Literal["", "stops waiting before it records", "records before it waits", "takes over without looking"]


@dataclass
class Database:
    """A primary or a replica as a log of numbered commits, and what it is told to do."""

    log: list[int] = field(default_factory=list)
    follows: str | None = None
    waits_for: set[str] = field(default_factory=set)
    token: int = 0  # in which it believes to be the primary; 0: it is none


class Cluster:
    """Databases, agents that do one step at a time, and everything that can go wrong between two steps."""

    def __init__(self, seed: int, mistake: Mistake) -> None:
        self.lot, self.mistake = random.Random(seed), mistake
        self.databases = {name: Database() for name in MEMBERS}
        self.record: Record | None = None
        self.acknowledged: list[int] = []
        self.lost: list[int] = []
        self.token = self.number = 0

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.lot.choice(
                (self.commit, self.commit, self.replicate, self.replicate, self.elect, self.add, self.leave_out)
            )()

    def primary(self) -> str | None:
        """Any that believes to be one, the present or an old one."""
        found = [name for name, database in self.databases.items() if database.token]
        return self.lot.choice(found) if found else None

    def replicate(self) -> None:
        name = self.lot.choice(MEMBERS)
        database = self.databases[name]
        if database.follows is not None and not database.token:
            database.log = list(self.databases[database.follows].log)

    def commit(self) -> None:
        if (name := self.primary()) is None:
            return
        self.number += 1
        primary = self.databases[name]
        primary.log.append(self.number)
        if self.lot.random() < 0.5:  # else the client has gone before the answer
            for other in primary.waits_for:
                if self.databases[other].follows == name and self.lot.random() < 0.9:
                    self.databases[other].log = list(primary.log)
            if primary.waits_for and all(self.databases[other].log == primary.log for other in primary.waits_for):
                self.acknowledged.append(self.number)

    def elect(self) -> None:
        """Somebody is granted office, whoever led before; the old primary may go on without knowing."""
        name = self.lot.choice(MEMBERS)
        self.token += 1
        others = {other: Report(len(self.databases[other].log)) for other in MEMBERS if self.lot.random() < 0.5}
        looked = fitness(name, len(self.databases[name].log), others, self.record)
        if isinstance(looked, Unfit) and self.mistake != "takes over without looking":
            return
        self.record = Record(Token(self.token), name, frozenset())
        chosen = self.databases[name]
        self.lost += sorted(set(self.acknowledged) - set(chosen.log))
        chosen.token, chosen.follows, chosen.waits_for = self.token, None, {other for other in MEMBERS if other != name}
        for other, database in self.databases.items():
            if other != name and self.lot.random() < 0.7:  # The rest has not heard of it yet.
                database.follows, database.token = name, 0

    def add(self) -> None:
        if (name := self.primary()) is None or (record := self.record) is None:
            return
        primary, other = self.databases[name], self.lot.choice([other for other in MEMBERS if other != name])
        caught_up = self.databases[other].follows == name and self.databases[other].log == primary.log
        early = self.mistake == "records before it waits"
        if early or (other in primary.waits_for and caught_up):
            self.write(primary, record, record.synchronous | {other})
        primary.waits_for |= set() if early and self.lot.random() < 0.5 else {other}

    def leave_out(self) -> None:
        if (name := self.primary()) is None or (record := self.record) is None:
            return
        primary = self.databases[name]
        if len(primary.waits_for) > 1:
            other = self.lot.choice(sorted(primary.waits_for))
            late = self.mistake == "stops waiting before it records" and self.lot.random() < 0.5  # frozen in between
            if late or self.write(primary, record, record.synchronous - {other}):
                primary.waits_for.discard(other)

    def write(self, primary: Database, record: Record, synchronous: frozenset[str]) -> bool:
        """What ``Replicas.record`` does: a stale primary learns that it is one, and does not go on."""
        if record.token != primary.token:
            return False
        self.record = Record(record.token, record.primary, synchronous)
        return True


def lost_in(mistake: Mistake, seeds: int) -> tuple[int, int]:
    """How many commits were acknowledged, and how many of them a new primary lacked."""
    clusters = [Cluster(seed, mistake) for seed in range(seeds)]
    for cluster in clusters:
        cluster.run(200)
    return sum(len(cluster.acknowledged) for cluster in clusters), sum(len(cluster.lost) for cluster in clusters)


def test_in_random_histories_no_new_primary_lacks_a_commit_that_was_acknowledged() -> None:
    acknowledged, lost = lost_in("", 400)
    assert acknowledged > 1000
    assert lost == 0


@pytest.mark.parametrize(
    "mistake", ["stops waiting before it records", "records before it waits", "takes over without looking"]
)
def test_each_mistake_in_the_order_of_steps_loses_commits(mistake: Mistake) -> None:
    assert lost_in(mistake, 400)[1] > 0
