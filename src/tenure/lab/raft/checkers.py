"""What Raft promises (figure 3 of the paper), read from the history of a run and from nothing else of it.

It shares no code with the machine. Two more say that a healthy cluster makes progress and keeps its leader: without them a
server that never stands would pass.
"""

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Final

from tenure.lab.faults import Plan, name_of
from tenure.lab.raft.messages import LogEntry, Role
from tenure.lab.world import Entry
from tenure.sim.checkers import Violation

SENTINEL: Final = LogEntry(0, "")
# After the last one has come back with its late terms, a leader has this many election timeouts to be left alone.
SETTLED_AFTER: Final = 6


class _Reading:
    """The state of the cluster as the history tells it, entry by entry."""

    def __init__(self) -> None:
        self.logs: dict[int, list[LogEntry]] = {}
        self.leading: dict[int, int] = {}  # server → the term in which it leads
        self.leaders: dict[int, tuple[int, tuple[LogEntry, ...], int]] = {}  # term → server, its log then, since when
        self.predecessors: dict[
            tuple[int, int], tuple[LogEntry, LogEntry]
        ] = {}  # index, term → entry and the one before
        self.applied: dict[int, tuple[LogEntry, int, int]] = {}  # index → entry, the least term that knew it, by whom
        self.found: list[Violation] = []

    def broken(self, checker: str, at: int, what: str) -> None:
        self.found.append(Violation(checker, at, what))

    def read(self, entry: Entry) -> None:
        reader = _READERS.get(entry.kind)
        if reader is not None:
            reader(self, entry)

    def became(self, entry: Entry) -> None:
        who, term = entry.who, entry.number
        role, _ = entry.detail
        if role is not Role.LEADER:
            self.leading.pop(who, None)
            return
        self.leading[who] = term
        other = self.leaders.get(term)
        if other is not None and other[0] != who:
            what = f"{name_of(other[0])} and {name_of(who)} were both elected in term {term}"
            self.broken("election-safety", entry.at, what)
        log = tuple(self.logs.get(who, (SENTINEL,)))
        self.leaders[term] = who, log, entry.at
        for index, (known, since, _) in self.applied.items():
            if since < term and (index >= len(log) or log[index] != known):
                self.lacks(entry.at, term, who, index, known)

    def lacks(self, at: int, term: int, who: int, index: int, known: LogEntry) -> None:
        what = f"{name_of(who)} leads term {term} without entry {index} ({known.value}), which was committed before"
        self.broken("leader-completeness", at, what)

    def wrote(self, entry: Entry) -> None:
        log = self.logs.setdefault(entry.who, [SENTINEL])
        entries, cut = entry.detail
        if cut and entry.who in self.leading:
            what = (
                f"{name_of(entry.who)} cut {len(cut)} entries from its log while it led term {self.leading[entry.who]}"
            )
            self.broken("leader-append-only", entry.at, what)
        log[entry.number :] = entries
        for index, (before, new) in enumerate(pairwise(log[entry.number - 1 :]), entry.number):
            known = self.predecessors.setdefault((index, new.term), (new, before))
            if known[0] != new or known[1].term != before.term:
                what = f"two logs have an entry {index} of term {new.term}, and differ there or before"
                self.broken("log-matching", entry.at, what)

    def handed(self, entry: Entry) -> None:
        entries, term = entry.detail
        for index, new in enumerate(entries, entry.number):
            known = self.applied.get(index)
            if known is not None and known[0] != new:
                what = (
                    f"{name_of(entry.who)} applied {new.value} as entry {index}, {name_of(known[2])} {known[0].value}"
                )
                self.broken("state-machine-safety", entry.at, what)
            elif known is None or term < known[1]:
                self.applied[index] = new, term, entry.who
                # Who was elected for a later term, earlier in time, must have it too.
                for later, (who, log, _) in self.leaders.items():
                    if later > term and (index >= len(log) or log[index] != new):
                        self.lacks(entry.at, later, who, index, new)

    def stopped(self, entry: Entry) -> None:
        self.leading.pop(entry.who, None)


_READERS: Final[dict[str, Callable[[_Reading, Entry], None]]] = {
    "became": _Reading.became,
    "wrote": _Reading.wrote,
    "applied": _Reading.handed,
    "crashed": _Reading.stopped,
}

CHECKERS: Final = {
    "election-safety": "at most one leader is elected in a term",
    "leader-append-only": "a leader never cuts or overwrites its own log",
    "log-matching": "two logs with an entry of the same index and term are the same up to there",
    "leader-completeness": "what was committed in a term is in the logs of all leaders of later terms",
    "state-machine-safety": "no two servers apply different entries at the same index",
    "progress": "once faults have ended, a majority applies a command that was given after that",
    "leader-kept": "once a healthy cluster has settled, nobody else is elected",
}


def check(history: Iterable[Entry], plan: Plan, timeout_ns: int) -> list[Violation]:
    """Return every promise that was broken in this history, in the order of time; of each kind the first few."""
    reading = _Reading()
    entries = list(history)
    for entry in entries:
        reading.read(entry)
    # A clock that was set back puts an alarm off for as long: nothing is promised about when it rings.
    if plan.heal_at and not any(strike.kind == "jump" and strike.mask < 0 for strike in plan.strikes):
        settled_at = when_settled(entries, plan)
        if settled_at is None:
            reading.broken(
                "progress", entries[-1].at, "nothing that was given after the faults was applied by a majority"
            )
        else:
            for entry in entries:
                if entry.at > settled_at + SETTLED_AFTER * timeout_ns and entry.kind == "became":
                    role, _ = entry.detail
                    what = f"{name_of(entry.who)} became {role} of term {entry.number} though nothing had failed"
                    reading.broken("leader-kept", entry.at, what)
    return sorted(reading.found, key=lambda violation: violation.at)


def when_settled(history: Iterable[Entry], plan: Plan) -> int | None:
    """Return when a majority had applied a command given after the faults; None if that has not happened."""
    fresh: set[str] = set()
    who_applied: dict[str, set[int]] = {}
    for entry in history:
        if entry.at < plan.heal_at:
            continue
        if entry.kind == "proposed":
            fresh.add(entry.detail)
        elif entry.kind == "applied":
            for new in entry.detail[0]:
                if new.value in fresh:
                    who = who_applied.setdefault(new.value, set())
                    who.add(entry.who)
                    if len(who) > plan.nodes // 2:
                        return entry.at
    return None


def table() -> str:
    """Return the table of what is checked, in Markdown."""
    return "\n".join(
        ["| promise | what must hold |", "|---|---|", *(f"| `{name}` | {rule} |" for name, rule in CHECKERS.items())]
    )
