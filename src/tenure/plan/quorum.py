"""How many members decide, and what a decision costs between regions. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from tenure.errors import ConfigError

SIZES: Final = (1, 2, 3, 4, 5, 6, 7)
GOOD_SIZES: Final = (3, 5, 7)
_MEMBERS_MAX: Final = 99
NEAR_S: Final = 0.001  # between zones of one region


@dataclass(frozen=True, slots=True)
class Quorum:
    """Members of an engine that decides by majority."""

    members: int

    def __post_init__(self) -> None:
        if not 1 <= self.members <= _MEMBERS_MAX:
            raise ConfigError(
                "--members", self.members, f"must be from 1 to {_MEMBERS_MAX}; 3, 5 or 7 is what people run"
            )

    @property
    def majority(self) -> int:
        """How many have to agree."""
        return self.members // 2 + 1

    @property
    def tolerates(self) -> int:
        """How many may fail: floor((N - 1) / 2)."""
        return (self.members - 1) // 2

    @property
    def advice(self) -> str:
        """What is wrong with that many; empty: nothing."""
        if self.members == 1:
            return "none may fail: for a laptop, or where its failure is acceptable; otherwise 3"
        if self.members == 2:  # noqa: PLR2004  (two)
            return "never 2: if either fails nothing is decided, and there are two to fail in place of one"
        if self.members % 2 == 0:
            fewer = self.members - 1
            return (
                f"never {self.members}: {fewer} tolerate {Quorum(fewer).tolerates} as well, need {Quorum(fewer).majority} in place of "
                f"{self.majority} for each write, and have one less to fail"
            )
        if self.members > max(GOOD_SIZES):
            return f"every write waits for {self.majority}: 5 tolerate 2, and 7 tolerate 3"
        return ""


Trips = Mapping[frozenset[str], float]


@dataclass(frozen=True, slots=True)
class Option:
    """One way to spread an engine and its leaders over regions, with what it costs in round trips, in seconds."""

    name: str
    place: str
    commit_s: (
        float | None
    )  # a decision of the engine: from its leader to a majority and back; None: it is no way at all
    renew_s: float | None  # a renewal by the farthest candidate: to the engine's leader, and a decision
    elect_s: float | None  # told of it, a claim, a seal: two and a half trips and two decisions
    survives: str
    sums: str


@dataclass(frozen=True, slots=True)
class Regions:
    """Regions and the round trips between each two of them."""

    names: Sequence[str]
    trips: Trips

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str, float]]) -> "Regions":
        """Return the regions of these pairs. Raises ConfigError if a pair is missing, or has two regions of one name."""
        trips: dict[frozenset[str], float] = {}
        names: list[str] = []
        for one, other, trip_s in pairs:
            if one == other:
                raise ConfigError("--rtt", f"{one}-{other}", "must be between two regions")
            if trips.setdefault(frozenset((one, other)), trip_s) != trip_s:
                both = f"{trips[frozenset((one, other))] * 1e3:g} ms and {trip_s * 1e3:g} ms"
                raise ConfigError("--rtt", f"{one}-{other}", f"must be said once, or alike: it was said to be {both}")
            names += [name for name in (one, other) if name not in names]
        for one, other in combinations(names, 2):
            if frozenset((one, other)) not in trips:
                raise ConfigError("--rtt", f"{one}-{other}", "is missing: say the round trip between each two regions")
        return cls(tuple(names), trips)

    def trip_s(self, one: str, other: str) -> float:
        """Return the round trip between two regions, or within one."""
        return NEAR_S if one == other else self.trips[frozenset((one, other))]

    def options(self, members: int | None = None) -> Sequence[Option]:
        """Return the ways to spread an engine over them; by default as many members as there are regions, if that is odd, or one less."""
        count = max(3, len(self.names) - (1 - len(self.names) % 2)) if members is None else members
        return [self._single(), *self._stretched(Quorum(count)), self._regional()]

    def _farthest(self, home: str) -> float:
        return max(self.trip_s(home, name) for name in self.names)

    def _single(self) -> Option:
        home = min(self.names, key=self._farthest)
        far_s = self._farthest(home)
        return _option(
            "single-region quorum",
            f"all members in {home}, in three zones",
            NEAR_S,
            far_s,
            f"a zone; not {home} itself: then nobody is elected anywhere",
        )

    def _stretched(self, quorum: Quorum) -> Iterable[Option]:
        """Members over all regions, the nearest first. The engine's own leader may be with any: the best place, and the worst."""
        nearest = sorted(self.names, key=lambda name: sum(self.trip_s(name, other) for other in self.names))
        places = [nearest[number % len(nearest)] for number in range(quorum.members)]
        crowd = max(places.count(name) for name in places)
        if quorum.members - crowd < quorum.majority:
            rule = f"a majority of {quorum.members} over {len(self.names)} regions is {quorum.majority}, and one region has {crowd}"
            survives = "not every region: the loss of one may be the loss of all. It takes 3 regions, if only for one member, and 3 members"
            yield Option("stretched quorum", "not like this", None, None, None, survives, rule)
            return
        homes = sorted(set(places), key=lambda home: (self._commit_s(home, places), self._farthest(home), home))
        spread = ", ".join(f"{places.count(name)} in {name}" for name in dict.fromkeys(places))
        for home, which in ((homes[0], "at best"), (homes[-1], "at worst")):
            yield _option(
                f"stretched quorum, {which}",
                f"{spread}; the engine's leader in {home}",
                self._commit_s(home, places),
                self._farthest(home),
                f"any one region, or any {quorum.tolerates} of {quorum.members} members",
            )

    def _commit_s(self, home: str, places: Sequence[str]) -> float:
        others = list(places)
        others.remove(home)  # The engine's leader is one of the majority itself.
        return sorted(self.trip_s(home, name) for name in others)[Quorum(len(places)).majority - 2]

    def _regional(self) -> Option:
        return _option(
            "regional leaders",
            "an engine, an election and a leader in each region, for the work of that region",
            NEAR_S,
            NEAR_S,
            "a zone; with a region its own share of the work stops, and nothing else",
        )


def _option(name: str, place: str, commit_s: float, far_s: float, survives: str) -> Option:
    elect_s = 0.5 * far_s + 2 * (far_s + commit_s)
    far, commit = f"{far_s * 1e3:g}", f"{commit_s * 1e3:g}"
    sums = f"renew {far} + {commit} = {(far_s + commit_s) * 1e3:g} ms; elect {far}/2 + 2 x ({far} + {commit}) = {elect_s * 1e3:g} ms"
    return Option(name, place, commit_s, far_s + commit_s, elect_s, survives, sums)
