"""What is wrong with an election, in one word and one sentence; and with all of them, in a headline. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tenure.apps.history.told import UNKNOWN, VANISHED
from tenure.errors import Reason
from tenure.plan import Budget
from tenure.serve.board_rows import Row
from tenure.serve.board_timeline import Stint

# A renewal that came with less than this share of the usual margin was one or two misses from losing the office.
AT_RISK_SHARE: Final = 1 / 3
# Four tenures in five minutes that nobody chose to end: one failover and its repetition are two.
FLAPS: Final = 4
FLAPS_WITHIN_S: Final = 300.0
REFUSED_WITHIN_S: Final = 600.0  # as the alert has it


class State(StrEnum):
    """What is the matter with an election, the worst first."""

    TWO_LEADERS = "two-leaders"
    VACANT = "vacant"
    OVERSTAY = "overstay"
    AT_RISK = "at-risk"
    FLAPPING = "flapping"
    STALE_WRITES = "stale-writes"  # The fence has held. Somebody who led goes on as if it did.
    IDLE = "idle"  # left by choice, and nobody stands: a lock that is free, or a service that was shut down
    OK = "ok"


SEVERITY: Final = {state: rank for rank, state in enumerate(State)}
_BAD: Final = (State.TWO_LEADERS, State.VACANT, State.OVERSTAY)
# For one election, and for several.
_HEADLINES: Final = {
    State.TWO_LEADERS: ("has two leaders", "have two leaders"),
    State.VACANT: ("has no leader", "have no leader"),
    State.OVERSTAY: ("has a leader past its time", "have leaders past their time"),
    State.AT_RISK: ("is about to lose its leader", "are about to lose their leaders"),
    State.FLAPPING: ("keeps changing its leader", "keep changing their leaders"),
    State.STALE_WRITES: ("had stale writes refused", "had stale writes refused"),
}
_ALSO: Final = {
    State.TWO_LEADERS: "with two leaders",
    State.VACANT: "without a leader",
    State.OVERSTAY: "past its time",
    State.AT_RISK: "at risk",
    State.FLAPPING: "flapping",
    State.STALE_WRITES: "with stale writes refused",
    State.IDLE: "idle, left by choice",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state of an election, and why in one sentence."""

    state: State
    why: str


@dataclass(frozen=True, slots=True)
class Headline:
    """What somebody reads first: the worst, and what else there is."""

    level: str  # "bad", "warn" or "ok"
    text: str
    also: tuple[str, ...] = ()


def judge(row: Row, now_s: float, budget: Budget) -> Verdict:
    """Say what is the matter with an election."""
    rivals = _rivals(row)
    if rivals is not None:
        return rivals
    if row.leader is None:
        return _without_leader(row, now_s, budget)
    name = _short(str(row.leader.holder))
    if row.overstaying:
        token = max(row.overstaying)
        return Verdict(State.OVERSTAY, f"The work of {name} (token {token}) still runs though its lease is over.")
    return _risk(row, name) or _flaps(row, now_s) or _stale(row, now_s) or Verdict(State.OK, _fine(row))


def headline(
    states: Sequence[State], *, store_ok: bool, nodes: tuple[int, int] | None = None, refused_elsewhere: int = 0
) -> Headline:
    """Say what is the matter with all of them; ``nodes`` are those of the store that are up, and all.

    ``refused_elsewhere``: stale writes that were refused lately, of elections that cannot be told apart.
    """
    total = len(states)
    counts = {state: states.count(state) for state in State}
    wrong = [state for state in _HEADLINES if counts[state]]
    if not store_ok:
        also = [f"{counts[state]} {_ALSO[state]}" for state in wrong]
        return Headline("bad", "The store does not answer", (f"when last seen {', '.join(also)}",) if also else ())
    store = _store_trouble(nodes)
    also = [f"{counts[state]} {_ALSO[state]}" for state in (*wrong[1:], State.IDLE) if counts[state]]
    if refused_elsewhere and wrong:
        also.append(_refused(refused_elsewhere).lower())
    if wrong:
        count = counts[wrong[0]]
        of = f"{count} of {total} elections" if total > 1 else "The only election"
        text = f"{of} {_HEADLINES[wrong[0]][count > 1]}"
        also += [] if store is None else [store.also[0]]
        return Headline("bad" if wrong[0] in _BAD else "warn", text, tuple(also))
    well = _all_is_well(total, counts[State.IDLE])
    if refused_elsewhere:
        return Headline("warn", _refused(refused_elsewhere), (well, *also, *(() if store is None else store.also)))
    if store is not None:
        return Headline(store.level, store.text, (well, *also))
    return Headline("ok", well, tuple(also))


def _store_trouble(nodes: tuple[int, int] | None) -> Headline | None:
    """Say what is the matter with the servers of a store that answers: whoever is on call has to know before it does not."""
    if nodes is None or nodes[0] >= nodes[1]:
        return None
    up, total = nodes
    spare, down, are = up - majority(total), f"{total - up} of {total}", "is" if total - up == 1 else "are"
    if spare < 0:  # And it answers: so those that the URL names are not all that there are.
        named = f"{total - up} of the {total} nodes that the URL names"
        return Headline("warn", f"{named} {are} down", (f"{named} down",))
    return Headline(
        "warn",
        f"The store has {'no' if spare == 0 else spare} node{'s' if spare > 1 else ''} to spare: {down} {are} down",
        (f"{down} nodes of the store down",),
    )


def majority(total: int) -> int:
    """Return how many of so many nodes decide."""
    return total // 2 + 1


def _refused(count: int) -> str:
    return f"{count} stale write{'s' if count > 1 else ''} refused"


def _all_is_well(total: int, idle: int) -> str:
    led = total - idle
    if not total:
        return "No elections yet"
    if total == 1:
        return "The only election has a leader" if led else "The only election was left by choice"
    if not idle:
        return f"All {total} elections have a leader"
    return f"{led or 'None'} of {total} elections {'has' if led <= 1 else 'have'} a leader"


def _rivals(row: Row) -> Verdict | None:
    tokens = sorted({*row.leading, *([] if row.leader is None else [int(row.leader.token)])})
    behind = [token for token in tokens[:-1] if token in row.leading]
    if not behind:
        return None
    older, newest = behind[0], tokens[-1]
    new = row.leading.get(newest) or ("" if row.leader is None else str(row.leader.holder))
    why = f"{_short(row.leading[older])} still works with token {older}, though {_short(new)} leads with {newest}."
    return Verdict(State.TWO_LEADERS, why)


def _without_leader(row: Row, now_s: float, budget: Budget) -> Verdict:
    last, count = row.timeline.last, len(row.standbys)
    if last is not None and last.was_left_by_choice and not count and not row.standing:
        return Verdict(State.IDLE, f"{_short(last.holder)} left by choice, and nobody stands for it.")
    planned_s = budget.detect_s + budget.elect_s
    late = row.vacant_since_s is not None and now_s - row.vacant_since_s > planned_s
    waiting = "nobody stands by" if not count else f"{count} stand{'s' if count == 1 else ''} by"
    beyond = f", for longer than the {planned_s:g} s that are planned" if late else ""
    before = "" if last is None else f" {_how_it_ended(last)}"
    return Verdict(State.VACANT, f"Nobody leads{beyond}, and {waiting}.{before}")


_ENDS: Final = {
    "": "The last one was {name}.",
    Reason.LAPSED.value: "The lease of {name} ran out.",
    Reason.DEPOSED.value: "{name} was deposed.",
    Reason.RESIGNED.value: "{name} left by choice.",
    Reason.STORE_GONE.value: "{name} could not reach the store.",
    Reason.STALLED.value: "{name} made no progress.",
    VANISHED: "{name} vanished.",
    UNKNOWN: "How {name} left is not on record.",
}


def _how_it_ended(last: Stint) -> str:
    name = f"{_short(last.holder)} (token {last.token})"
    known = _ENDS.get(last.reason)
    # A reason that is none of ours was written by somebody else, and is no text to put something into.
    return f"{name} was {last.reason}." if known is None else known.format(name=name)


def _risk(row: Row, name: str) -> Verdict | None:
    if row.lease_is_late:
        return Verdict(State.AT_RISK, f"{name} has not renewed its lease when it should have.")
    if len(row.margins) > 1 and row.margins[-1] < AT_RISK_SHARE * max(row.margins):
        why = f"The last renewal of {name} came {row.margins[-1]:.1f} s before the end; {max(row.margins):.1f} s is usual."
        return Verdict(State.AT_RISK, why)
    return None


def _flaps(row: Row, now_s: float) -> Verdict | None:
    count = row.timeline.begun_since(now_s - FLAPS_WITHIN_S)
    if count < FLAPS:
        return None
    return Verdict(
        State.FLAPPING, f"{count} leaders in {FLAPS_WITHIN_S / 60:g} minutes, and none of them left by choice."
    )


def _stale(row: Row, now_s: float) -> Verdict | None:
    refused = [mark for mark in row.marks if mark.kind == "refused" and mark.at_s >= now_s - REFUSED_WITHIN_S]
    if not refused:
        return None
    why = f"Somebody still writes with token {refused[-1].token}, which is over. Nothing of it was accepted."
    return Verdict(State.STALE_WRITES, why)


def _fine(row: Row) -> str:
    if row.resign_asked:
        return "It was asked to leave, and will at its next renewal."
    if not row.standbys and row.listed:
        return "Nobody stands by."
    return ""


def _short(holder: str) -> str:
    """Leave out the nonce: people know hosts and pids."""
    host, _, rest = holder.partition("/")
    pid = rest.partition("/")[0]
    return f"{host}/{pid}" if pid else host or "somebody"
