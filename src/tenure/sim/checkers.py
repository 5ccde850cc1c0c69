"""The checkers: each reads a finished history, and nothing else of the world but what was promised (the plan).

They share no code with what they check. ``mutants`` breaks the machine on purpose to show that they notice.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from tenure.sim.history import History, Kind
from tenure.sim.plan import Plan


class Violation(NamedTuple):
    """A promise that was broken: by whom, when, and in words."""

    checker: str
    at: int
    what: str


Finding = tuple[int, str] | None


def one_valid_tenure(history: History, _: Plan) -> Finding:
    """1: at most one valid tenure at any true instant."""
    until: dict[str, tuple[int, int]] = {}  # who → token, up to when it believes
    for entry in history:
        if entry.kind is Kind.HOLDS or entry.kind is Kind.RECLOCKED:
            if entry.number > entry.at:
                for who, (token, end) in until.items():
                    if end > entry.at and who != entry.who:
                        return entry.at, f"{entry.who} holds {entry.token} while {who} believes in {token} till {end}"
            until[entry.who] = (entry.token, entry.number)
        elif entry.kind is Kind.LEFT or entry.kind is Kind.CRASHED:
            until.pop(entry.who, None)
    return None


def tokens_rise(history: History, _: Plan) -> Finding:
    """2: every tenure that the store grants has a larger token than all before it."""
    highest = 0
    for entry in history:
        if entry.kind is Kind.GRANTED:
            if entry.token <= highest:
                return entry.at, f"{entry.who} was granted {entry.token} after {highest}"
            highest = entry.token
    return None


def fence_holds(history: History, _: Plan) -> Finding:
    """3: no sink accepts a write with a token below one that it accepted or was sealed with."""
    highest = 0
    for entry in history:
        if entry.kind is Kind.ACCEPTED or entry.kind is Kind.SEALED:
            if entry.token < highest:
                return entry.at, f"a write with {entry.token} was accepted after {highest}"
            highest = entry.token
    return None


def no_write_after_successor(history: History, _: Plan) -> Finding:
    """4: no older write lands after a successor's body began."""
    begun = 0
    for entry in history:
        if entry.kind is Kind.BEGAN:
            begun = max(begun, entry.token)
        elif entry.kind is Kind.ACCEPTED and entry.token < begun:
            return entry.at, f"a write with {entry.token} landed after the body of {begun} had begun"
    return None


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


def never_resumed(history: History, _: Plan) -> Finding:
    """6: no tenure is resumed: one body a token, no belief after it ended, no lease renewed after it was free."""
    begun: set[int] = set()
    until: dict[int, int] = {}
    freed: set[int] = set()
    for entry in history:
        token = entry.token
        if entry.kind is Kind.BEGAN:
            if token in begun:
                return entry.at, f"a second body began under {token}"
            begun.add(token)
        elif entry.kind is Kind.HOLDS:
            if token in until and until[token] < entry.at < entry.number:
                return entry.at, f"{entry.who} believes again in {token}, which had ended at {until[token]}"
            until[token] = entry.number
        elif entry.kind is Kind.RECLOCKED:
            until[token] = entry.number
        elif entry.kind is Kind.LEFT:
            until[token] = entry.at
        elif entry.kind is Kind.FREED:
            freed.add(token)
        elif entry.kind is Kind.RENEWED and token in freed:
            return entry.at, f"the store renewed {token} after it had been free"
    return None


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


def no_lost_wake_up(history: History, plan: Plan) -> Finding:
    """8: once faults have ended, nobody goes on waiting for an office that is free."""
    bound = plan.wake_within_ns()
    waiting: dict[str, int] = {}  # who → since when
    free_since: int | None = 0
    healed = False
    for entry in history:
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
            waiting.clear()
        elif entry.kind is Kind.STANDBY and healed:
            waiting[entry.who] = entry.at
        elif entry.kind is Kind.WAITS_NO_MORE or entry.kind is Kind.CRASHED:
            waiting.pop(entry.who, None)
    return None


def orders_in_order(history: History, _: Plan) -> Finding:
    """9: a worker never executes under an older token than it has executed under before."""
    highest = 0
    for entry in history:
        if entry.kind is Kind.EXECUTED:
            if entry.token < highest:
                return entry.at, f"the worker executed under {entry.token} after {highest}"
            highest = entry.token
    return None


CHECKERS: Final[dict[str, Callable[[History, Plan], Finding]]] = {
    "one-valid-tenure": one_valid_tenure,
    "tokens-rise": tokens_rise,
    "fence-holds": fence_holds,
    "no-write-after-successor": no_write_after_successor,
    "release-after-body": release_after_body,
    "never-resumed": never_resumed,
    "office-filled": office_filled,
    "no-lost-wake-up": no_lost_wake_up,
    "orders-in-order": orders_in_order,
}


def check(history: History, plan: Plan) -> list[Violation]:
    """Return every promise that the history breaks, in the order of the checkers."""
    found = []
    for name, checker in CHECKERS.items():
        finding = checker(history, plan)
        if finding is not None:
            found.append(Violation(name, *finding))
    return found
