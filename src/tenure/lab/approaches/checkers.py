"""What is counted: each checker reads the history of a run, and nothing of the approach.

They judge by the true order of things, which no candidate knows: a tenure is older than another one if the sink heard of it
earlier. Not if it began to work earlier: one may be paused between the two, and is then stale from its first write on.
"""

from collections.abc import Callable
from typing import Final

from tenure.lab.approaches.cast import SETTLED_NS
from tenure.lab.faults import Plan, name_of
from tenure.lab.world import Entry
from tenure.sim.checkers import Violation
from tenure.sim.reading import Finding

History = list[Entry]
_AT_REST: Final = frozenset({"wrote", "dropped", "paused", "crashed"})


class _AtWork:
    """Who is at work, by tenure. Who is paused is not; it is again when it goes on."""

    def __init__(self) -> None:
        self.running: dict[int, int] = {}
        self._paused: dict[int, int] = {}  # in the middle of it

    def begins(self, entry: Entry) -> int | None:
        """Return in which tenure this entry lets somebody be at work, or None: it does not."""
        if entry.kind == "began":
            return entry.number
        return self._paused.pop(entry.who, None) if entry.kind == "resumed" else None

    def ends(self, entry: Entry) -> None:
        if entry.kind in _AT_REST:
            tenure = self.running.pop(entry.who, None)
            if entry.kind == "paused" and tenure is not None:
                self._paused[entry.who] = tenure
            elif entry.kind == "crashed":
                self._paused.pop(entry.who, None)


def exclusion(history: History, _: Plan) -> Finding:
    """Two were at work at once."""
    work = _AtWork()
    for entry in history:
        work.ends(entry)
        tenure = work.begins(entry)
        if tenure is None:
            continue
        for other, older in work.running.items():
            if other != entry.who:
                words = f"{name_of(entry.who)} works in tenure {tenure} while {name_of(other)} does in {older}"
                return entry.at, words
        work.running[entry.who] = tenure
    return None


def stale(history: History, _: Plan) -> Finding:
    """The sink took a write of a tenure after a newer one had begun to work."""
    newest = 0
    for at, kind, who, number, detail in history:
        if kind == "leads":
            newest = max(newest, number)
        elif kind == "accepted" and number < newest:
            return (
                at,
                f"task {detail[0]} of {name_of(who)} in tenure {number} was taken after tenure {newest} had begun",
            )
    return None


def twice(history: History, _: Plan) -> Finding:
    """The sink took the result of one task twice."""
    done: dict[int, int] = {}
    for at, kind, who, number, detail in history:
        if kind == "accepted":
            if detail[0] in done:
                return at, f"task {detail[0]} of {name_of(who)} counts in tenure {number} and did in {done[detail[0]]}"
            done[detail[0]] = number
    return None


def redone(history: History, _: Plan) -> Finding:
    """Two tenures worked on one task: what it does outside of the sink is done twice, whatever the sink takes."""
    begun: dict[int, int] = {}
    for at, kind, who, number, task in history:
        if kind == "began" and begun.setdefault(task, number) != number:
            return at, f"{name_of(who)} begins task {task} in tenure {number}, which tenure {begun[task]} had begun"
    return None


def stuck(history: History, plan: Plan) -> Finding:
    """Nothing fails any more, and nobody gets anything done for five leases and a half."""
    deadline = plan.heal_at + SETTLED_NS
    if any(entry.kind == "accepted" and entry.at > deadline for entry in history):
        return None
    return plan.end_at, f"nobody has done anything since {deadline / 1e9:.3f} s"


CHECKERS: Final[dict[str, Callable[[History, Plan], Finding]]] = {
    "exclusion": exclusion,
    "stale": stale,
    "twice": twice,
    "redone": redone,
    "stuck": stuck,
}


def check(history: History, plan: Plan) -> list[Violation]:
    """Return the first violation of each kind that there is."""
    found = ((name, checker(history, plan)) for name, checker in CHECKERS.items())
    return [Violation(name, *finding) for name, finding in found if finding is not None]
