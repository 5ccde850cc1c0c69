"""A cluster for a story: who times out first, who is cut off and who dies is said, not drawn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tenure.lab.faults import MS, Plan, name_of, names_of
from tenure.lab.raft.machine import Server
from tenure.lab.raft.messages import LogEntry, Role
from tenure.lab.raft.node import RaftNode
from tenure.lab.raft.voting import Settings
from tenure.lab.world import WORLD, Entry, World

# Late enough that whom a story names is first, and far enough apart that there is one second.
_LATER: Final = (0.70, 0.78, 0.86, 0.93, 0.99)


@dataclass(frozen=True, slots=True)
class Story:
    """A scenario by name: what it shows, and what is done to the cluster."""

    name: str
    title: str
    moral: str
    script: Callable[["Stage"], None]
    settings: Settings
    end_ms: int


class Stage:
    """What a story does to its cluster, at instants in ms."""

    def __init__(self, settings: Settings, kind: type[Server] = Server) -> None:
        self.world = World(
            Plan(seed=1, nodes=len(_LATER), delay_min_ns=4 * MS, delay_max_ns=6 * MS),
            lambda world, number: RaftNode(world, number, settings, kind),
        )
        self.world.trace = []
        self.nodes = [node for node in self.world.nodes if isinstance(node, RaftNode)]
        for node in self.nodes:
            node.talks = True
            node.lots = [_LATER[node.number]]

    def lots(self, who: str, *lots: float) -> None:
        """Say what a server draws for its next election timeouts, the last one from then on: 0 is the shortest, 1 the longest."""
        self.nodes[_number(who)].lots = list(lots)

    def at(self, ms: float, do: Callable[..., Any], *arguments: Any) -> None:
        """Do something at an instant."""
        self.world.at(round(ms * MS), do, *arguments)

    def say(self, ms: float, words: str) -> None:
        """Put a sentence into the story."""
        self.at(ms, self.world.note, "said", WORLD, 0, words)

    def command(self, ms: float, who: str, value: str) -> None:
        """Give a command to a server."""
        self.at(ms, self.nodes[_number(who)].propose, value)

    def crash(self, ms: float, who: str) -> None:
        """Let a server die."""
        self.at(ms, self.nodes[_number(who)].crash)

    def start(self, ms: float, who: str, *lots: float) -> None:
        """Start it again."""
        self.at(ms, self._start, _number(who), lots)

    def _start(self, number: int, lots: Sequence[float]) -> None:
        self.nodes[number].lots = list(lots)
        self.nodes[number].start()

    def pause(self, ms: float, who: str, until_ms: float) -> None:
        """Freeze a server."""
        self.at(ms, self.nodes[_number(who)].pause)
        self.at(until_ms, self.nodes[_number(who)].resume)

    def cut(self, ms: float, group: str, until_ms: float) -> None:
        """Cut a group off from the others."""
        self.at(ms, self._cut, [_number(who) for who in group], round(until_ms * MS))

    def _cut(self, group: list[int], until: int) -> None:
        mask = sum(1 << number for number in group)
        self.world.note("fault", WORLD, 0, f"{names_of(mask)} cut off from the others")
        self.world.at(until, self.world.mend, self.world.cut(group))

    def given(self, **logs: str) -> None:
        """Say what is on disks at the beginning: for each server the terms of its entries, as in ``A="112"``."""
        for who, terms in logs.items():
            disk = self.nodes[_number(who)].disk
            disk["log"] = [LogEntry(0, ""), *(LogEntry(int(term), f"{term}.{at}") for at, term in enumerate(terms, 1))]
            disk["term"] = max(map(int, terms), default=0)
            self.world.note("wrote", _number(who), 1, (tuple(disk["log"][1:]), ()))


def perform(story: Story, kind: type[Server] = Server) -> Stage:
    """Play a story to its end, with servers of this kind."""
    stage = Stage(story.settings, kind)
    story.script(stage)
    stage.world.run(until=story.end_ms * MS)
    return stage


def told(history: Sequence[Entry]) -> list[str]:
    """Return the history as lines."""
    return [f"{entry.at / MS:9.1f} ms  {words}" for entry in history if (words := _words(entry))]


def state(stage: Stage) -> list[list[str]]:
    """Return a table of the servers as they are."""
    rows = [["server", "state", "term", "log (term of each entry)", "committed"]]
    for node in stage.nodes:
        log = " ".join(str(entry.term) for entry in node.disk["log"][1:]) or "-"
        role = str(node.server.role) if node.up else "down"
        rows.append(
            [name_of(node.number), role, str(node.disk["term"]), log, str(node.server.commit if node.up else "-")]
        )
    return rows


def _words(entry: Entry) -> str:
    who = name_of(entry.who) if entry.who >= 0 else ""
    teller = _TELLERS.get(entry.kind)
    return teller(who, entry) if teller is not None else ""


def _became(who: str, entry: Entry) -> str:
    role, why = entry.detail
    term = entry.number
    return {
        Role.LEADER: f"{who} LEADS term {term}, {why}",
        Role.CANDIDATE: f"{who} stands for term {term}",
        Role.PRE_CANDIDATE: f"{who} {why}, and asks whether it would win term {term + 1}",
        Role.FOLLOWER: f"{who} steps down: {why}",
    }[role]


def _voted(who: str, entry: Entry) -> str:
    target, granted, pre = entry.detail
    if pre:
        return f"{who} would{'' if granted else ' not'} vote for {name_of(target)}"
    return f"{who} votes for {name_of(target)} in term {entry.number}" if granted else ""


def _asked(who: str, entry: Entry) -> str:
    candidate, objection = entry.detail
    return f"{who} refuses {name_of(candidate)}: {who} {objection}" if objection and "hears" not in objection else ""


def _wrote(who: str, entry: Entry) -> str:
    entries, cut = entry.detail
    if not entry.at:
        return ""
    names = ", ".join(one.value for one in entries)
    removed = ", ".join(one.value for one in cut)
    words = f"{who} writes {names} as entry {entry.number}" if entries else f"{who} writes"
    return f"{who} cuts {removed} from its log, and writes {names or 'nothing'} there" if cut else words


def _applied(who: str, entry: Entry) -> str:
    entries, _ = entry.detail
    return f"{who} knows {', '.join(one.value for one in entries)} to be committed"


def _number(who: str) -> int:
    return ord(who) - ord("A")


_TELLERS: Final[dict[str, Callable[[str, Entry], str]]] = {
    "became": _became,
    "voted": _voted,
    "asked": _asked,
    "wrote": _wrote,
    "applied": _applied,
    "proposed": lambda who, entry: f"{who} is given the command {entry.detail}",
    "crashed": lambda who, _: f"~ {who} crashes",
    "started": lambda who, entry: f"~ {who} is started again" if entry.at else "",
    "paused": lambda who, _: f"~ {who} is frozen",
    "resumed": lambda who, _: f"~ {who} goes on",
    "fault": lambda _, entry: f"~ {entry.detail}",
    "said": lambda _, entry: f"# {entry.detail}",
}
