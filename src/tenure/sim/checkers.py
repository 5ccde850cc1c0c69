"""The checkers: each reads a finished history, and nothing else of the world but what was promised (the plan).

They share no code with what they check. ``mutants`` breaks the machine on purpose to show that they notice.
"""

from typing import Final, NamedTuple

from tenure.sim.habits import (
    belief_within_lease,
    deposed_stops,
    keeps_office,
    overstay_is_told,
    refusals_are_earned,
    released_promptly,
    stopped_in_time,
)
from tenure.sim.history import Entry, History, Kind
from tenure.sim.plan import Plan
from tenure.sim.reading import Checker, Finding, reads


class Violation(NamedTuple):
    """A promise that was broken: by whom, when, and in words."""

    checker: str
    at: int
    what: str


@reads(Kind.DELETED, Kind.HOLDS, Kind.RECLOCKED, Kind.LEFT, Kind.CRASHED)
def one_valid_tenure(history: History, _: Plan) -> Finding:
    """1: at most one valid tenure at any true instant (but for one whose record was deleted by hand)."""
    until: dict[str, tuple[int, int]] = {}  # who → token, up to when it believes
    deleted: set[int] = set()
    for entry in history:
        if entry.kind is Kind.DELETED:
            deleted.add(entry.token)
        elif entry.kind is Kind.HOLDS or entry.kind is Kind.RECLOCKED:
            if entry.number > entry.at and entry.token not in deleted:
                for who, (token, end) in until.items():
                    if end > entry.at and who != entry.who and token not in deleted:
                        return entry.at, f"{entry.who} holds {entry.token} while {who} believes in {token} till {end}"
            until[entry.who] = (entry.token, entry.number)
        elif entry.kind is Kind.LEFT or entry.kind is Kind.CRASHED:
            until.pop(entry.who, None)
    return None


@reads(Kind.GRANTED)
def tokens_rise(history: History, _: Plan) -> Finding:
    """2: every tenure that the store grants has a larger token than all before it."""
    highest = 0
    for entry in history:
        if entry.kind is Kind.GRANTED:
            if entry.token <= highest:
                return entry.at, f"{entry.who} was granted {entry.token} after {highest}"
            highest = entry.token
    return None


@reads(Kind.ACCEPTED, Kind.SEALED)
def fence_holds(history: History, _: Plan) -> Finding:
    """3: no sink accepts a write with a token below one that it accepted or was sealed with."""
    highest = 0
    for entry in history:
        if entry.kind is Kind.ACCEPTED or entry.kind is Kind.SEALED:
            if entry.token < highest:
                return entry.at, f"a write with {entry.token} was accepted after {highest}"
            highest = entry.token
    return None


@reads(Kind.BEGAN, Kind.ACCEPTED)
def no_write_after_successor(history: History, _: Plan) -> Finding:
    """4: no older write lands after a successor's body began."""
    begun = 0
    for entry in history:
        if entry.kind is Kind.BEGAN:
            begun = max(begun, entry.token)
        elif entry.kind is Kind.ACCEPTED and entry.token < begun:
            return entry.at, f"a write with {entry.token} landed after the body of {begun} had begun"
    return None


@reads(Kind.BEGAN, Kind.ENDED, Kind.CRASHED, Kind.RELEASED)
def release_after_body(history: History, _: Plan) -> Finding:
    """5: a release is never sent before the body has ended."""
    running: dict[str, int] = {}  # who → serial of the bid whose body runs
    for entry in history:
        if entry.kind is Kind.BEGAN:
            running[entry.who] = entry.number
        elif entry.kind is Kind.ENDED or entry.kind is Kind.CRASHED:
            running.pop(entry.who, None)
        elif entry.kind is Kind.RELEASED and running.get(entry.who) == entry.number:
            return entry.at, f"{entry.who} released bid {entry.number} while its body ran"
    return None


def _comes_back(entry: Entry, before: int | None, stopping: bool) -> str:
    if before is not None and before < entry.at < entry.number:
        return f"{entry.who} believes again in {entry.token}, which had ended at {before}"
    if before is not None and stopping and entry.number > before:
        return f"{entry.who} believes in {entry.token} for longer after its body was told to stop"
    return ""


@reads(Kind.BEGAN, Kind.HOLDS, Kind.RECLOCKED, Kind.STOPPING, Kind.LEFT, Kind.FREED, Kind.RENEWED)
def never_resumed(history: History, _: Plan) -> Finding:
    """6: no tenure is resumed: one body a token, no belief that grows once its body was told to stop or comes back once it
    had ended, no lease renewed after it was free.
    """
    begun: set[int] = set()
    stopping: set[int] = set()
    until: dict[int, int] = {}
    freed: set[int] = set()
    for entry in history:
        token = entry.token
        if entry.kind is Kind.BEGAN:
            if token in begun:
                return entry.at, f"a second body began under {token}"
            begun.add(token)
        elif entry.kind is Kind.HOLDS:
            if why := _comes_back(entry, until.get(token), token in stopping):
                return entry.at, why
            until[token] = entry.number
        elif entry.kind is Kind.STOPPING:
            stopping.add(token)
        elif entry.kind in (Kind.RECLOCKED, Kind.LEFT):
            until[token] = entry.number if entry.kind is Kind.RECLOCKED else entry.at
        elif entry.kind is Kind.FREED:
            freed.add(token)
        elif entry.kind is Kind.RENEWED and token in freed:
            return entry.at, f"the store renewed {token} after it had been free"
    return None


@reads(Kind.BEGAN, Kind.ENDED, Kind.CRASHED, Kind.HEALED, Kind.FINISHED)
def office_filled(history: History, plan: Plan) -> Finding:
    """7: once faults have ended, the office is never without a body for longer than Timing predicts."""
    bound = plan.office_filled_within_ns()
    vacant_since: int | None = None
    running: dict[str, int] = {}
    healed = False
    for entry in history:
        if entry.kind is Kind.BEGAN:
            running[entry.who] = entry.token
        elif entry.kind is Kind.ENDED or entry.kind is Kind.CRASHED:
            running.pop(entry.who, None)
        elif entry.kind is Kind.HEALED:
            healed = True
        if healed:
            if vacant_since is not None and entry.at - vacant_since > bound:
                return (
                    entry.at,
                    f"no body ran for {(entry.at - vacant_since) / 1e9:.3f} s, more than {bound / 1e9:.3f} s",
                )
            if running:
                vacant_since = None
            elif vacant_since is None:
                vacant_since = entry.at
    return None


@reads(Kind.GRANTED, Kind.FREED, Kind.HEALED, Kind.STANDBY, Kind.WOKEN, Kind.WAITS_NO_MORE, Kind.CRASHED, Kind.FINISHED)
def no_lost_wake_up(history: History, plan: Plan) -> Finding:  # noqa: C901  (one line a kind)
    """8: who waits and is woken claims at once; once faults have ended, nobody waits for an office that is free."""
    bound = plan.wake_within_ns()
    waiting: dict[str, int] = {}  # who → since when, with a watch that no fault can have taken
    standing_by: set[str] = set()
    woken: dict[str, int] = {}
    free_since: int | None = 0
    healed = False
    for entry in history:
        for who, at in woken.items():
            if entry.at > at:
                return entry.at, f"{who} was woken at {at} and waits on"
        if healed and free_since is not None and waiting:
            since = max(free_since, min(waiting.values()))
            if entry.at - since > bound:
                return entry.at, f"{min(waiting)} waited {(entry.at - since) / 1e9:.3f} s for an office that was free"
        if entry.kind is Kind.GRANTED:
            free_since = None
        elif entry.kind is Kind.FREED:
            free_since = entry.at
        elif entry.kind is Kind.HEALED:
            # Who began to wait before may have lost its watch to a fault: it asks again by itself, later.
            healed = True
        elif entry.kind is Kind.STANDBY:
            standing_by.add(entry.who)
            if healed:
                waiting[entry.who] = entry.at
        elif entry.kind is Kind.WOKEN and entry.who in standing_by:
            woken[entry.who] = entry.at
        elif entry.kind is Kind.WAITS_NO_MORE or entry.kind is Kind.CRASHED:
            standing_by.discard(entry.who)
            waiting.pop(entry.who, None)
            woken.pop(entry.who, None)
    return None


@reads(Kind.EXECUTED)
def orders_in_order(history: History, _: Plan) -> Finding:
    """9: a worker never executes under an older token than it has executed under before."""
    highest = 0
    for entry in history:
        if entry.kind is Kind.EXECUTED:
            if entry.token < highest:
                return entry.at, f"the worker executed under {entry.token} after {highest}"
            highest = entry.token
    return None


CHECKERS: Final[dict[str, Checker]] = {
    "one-valid-tenure": one_valid_tenure,
    "tokens-rise": tokens_rise,
    "fence-holds": fence_holds,
    "no-write-after-successor": no_write_after_successor,
    "release-after-body": release_after_body,
    "never-resumed": never_resumed,
    "office-filled": office_filled,
    "no-lost-wake-up": no_lost_wake_up,
    "orders-in-order": orders_in_order,
    "belief-within-lease": belief_within_lease,
    "stopped-in-time": stopped_in_time,
    "overstay-is-told": overstay_is_told,
    "deposed-stops": deposed_stops,
    "released-promptly": released_promptly,
    "keeps-office": keeps_office,
    "refusals-are-earned": refusals_are_earned,
}
# What rests on clocks that keep their bound, and on nothing else.
OF_CLOCKS: Final = frozenset({"one-valid-tenure", "belief-within-lease", "stopped-in-time", "overstay-is-told"})


def check(history: History, plan: Plan) -> list[Violation]:
    """Return every promise that the history breaks, election by election, in the order of the checkers."""
    return [broken for election in range(plan.elections) for broken in _check(history.of(election), plan)]


def _check(history: History, plan: Plan) -> list[Violation]:
    shown = {name: History() for name in CHECKERS}
    readers = {kind: [shown[name] for name, checker in CHECKERS.items() if kind in checker.kinds] for kind in Kind}
    for entry in history:
        for part in readers[entry.kind]:
            part.append(entry)
    found = []
    for name, checker in CHECKERS.items():
        finding = checker(shown[name], plan)
        if finding is not None:
            found.append(Violation(name, *finding))
    return found


def table() -> str:
    """Return all checkers in Markdown, for the docs: the first line of each one's own docstring."""
    rows = ["| checker | what must hold |", "|---|---|"]
    for name, checker in CHECKERS.items():
        number, promise = (checker.find.__doc__ or "").split(": ", 1)
        rows.append(f"| {number}: `{name}` | {promise.splitlines()[0].rstrip('.')} |")
    return "\n".join(rows) + "\n"
