"""More checkers: what a candidate owes besides safety. Each reads a finished history, as those of ``checkers`` do.

They were written because mutants survived without them: a machine that never renews, or never releases, breaks no rule
of safety, and elections go on.
"""

from tenure.errors import Reason
from tenure.sim.history import REASONS, History, Kind
from tenure.sim.plan import Plan
from tenure.sim.reading import Finding, reads

_DEPOSED = REASONS.index(Reason.DEPOSED)
_LOSSES = {REASONS.index(reason) for reason in (Reason.LAPSED, Reason.STORE_GONE, Reason.DEPOSED)}


@reads(Kind.LEASED, Kind.HOLDS, Kind.RECLOCKED)
def belief_within_lease(history: History, _: Plan) -> Finding:
    """10: nobody believes in a tenure for longer than the store has promised to keep it."""
    lease_end: dict[int, int] = {}
    for entry in history:
        if entry.kind is Kind.LEASED:
            lease_end[entry.token] = max(entry.number, lease_end.get(entry.token, 0))
        elif entry.kind in (Kind.HOLDS, Kind.RECLOCKED) and entry.number > lease_end.get(entry.token, 0):
            end = lease_end.get(entry.token, 0)
            return entry.at, f"{entry.who} believes in {entry.token} till {entry.number}, and its lease ends at {end}"
    return None


@reads(
    Kind.HOLDS,
    Kind.RECLOCKED,
    Kind.BEGAN,
    Kind.STOPPING,
    Kind.ENDED,
    Kind.CRASHED,
    Kind.FROZE,
    Kind.STARTED,
    Kind.THAWED,
    Kind.FINISHED,
)
def stopped_in_time(history: History, plan: Plan) -> Finding:
    """11: a process that runs tells its body to stop before validity ends."""
    grace_ns = int(plan.timing.grace_ns * (1 - plan.timing.drift))
    running: dict[str, int] = {}
    until: dict[int, int] = {}
    awake_since: dict[str, int] = {}  # missing: frozen
    told: set[int] = set()
    for entry in history:
        awake = [(who, token) for who, token in running.items() if who in awake_since and token not in told]
        for who, token in awake:
            due = max(until.get(token, entry.at) - grace_ns, awake_since[who])
            if entry.at > due:
                return entry.at, f"the body of {token} was not told to stop by {due}"
        if entry.kind in (Kind.HOLDS, Kind.RECLOCKED):
            until[entry.token] = entry.number
        elif entry.kind is Kind.BEGAN:
            running[entry.who] = entry.token
        elif entry.kind is Kind.STOPPING:
            told.add(entry.token)
        elif entry.kind in (Kind.ENDED, Kind.CRASHED):
            running.pop(entry.who, None)
        elif entry.kind is Kind.FROZE:
            awake_since.pop(entry.who, None)
        elif entry.kind in (Kind.STARTED, Kind.THAWED):
            awake_since[entry.who] = entry.at
    return None


@reads(Kind.HOLDS, Kind.RECLOCKED, Kind.OVERSTAYED, Kind.DEPOSED, Kind.STOPPING, Kind.ENDED, Kind.LEFT)
def overstay_is_told(history: History, _: Plan) -> Finding:
    """12: a body that ran on after its validity had ended is published as an overstay."""
    until: dict[int, int] = {}
    late: set[int] = set()
    told: set[int] = set()
    for entry in history:
        if entry.kind in (Kind.HOLDS, Kind.RECLOCKED):
            until[entry.token] = entry.number
        elif entry.kind in (Kind.OVERSTAYED, Kind.DEPOSED) or (
            entry.kind is Kind.STOPPING and entry.number == _DEPOSED
        ):
            told.add(entry.token)  # Who was deposed gets the grace first.
        elif entry.kind is Kind.ENDED and entry.at > until.get(entry.token, entry.at):
            late.add(entry.token)
        elif entry.kind is Kind.LEFT and entry.token in late - told:
            return entry.at, f"the body of {entry.token} overstayed and nobody was told"
    return None


@reads(Kind.BEGAN, Kind.STOPPING, Kind.ENDED, Kind.CRASHED, Kind.DEPOSED, Kind.FINISHED)
def deposed_stops(history: History, _: Plan) -> Finding:
    """13: who hears that its tenure is over stops its body in the same instant."""
    running: dict[str, int] = {}
    told: set[int] = set()
    due: dict[int, int] = {}  # token → when its holder heard
    for entry in history:
        for token, heard_at in due.items():
            if entry.at > heard_at:
                return entry.at, f"the body of {token} runs on though its holder heard that it is over"
        if entry.kind is Kind.BEGAN:
            running[entry.who] = entry.token
        elif entry.kind is Kind.STOPPING:
            told.add(entry.token)
            due.pop(entry.token, None)
        elif entry.kind is Kind.ENDED or entry.kind is Kind.CRASHED:
            due.pop(running.pop(entry.who, 0), None)
        elif entry.kind is Kind.DEPOSED and running.get(entry.who) == entry.token and entry.token not in told:
            due[entry.token] = entry.at
    return None


@reads(Kind.HEALED, Kind.GRANTED, Kind.FREED, Kind.ENDED, Kind.FINISHED)
def released_promptly(history: History, plan: Plan) -> Finding:
    """14: in a healthy world the office is free as soon as its body has ended and the message has arrived."""
    healed = False
    held: int | None = None
    due: dict[int, int] = {}
    for entry in history:
        for token, at in due.items():
            if entry.at > at:
                return entry.at, f"the office of {token} was still taken at {at}, after its body had ended"
        if entry.kind is Kind.HEALED:
            healed = plan.fragile is None  # a store that falls over may lose a release
        elif entry.kind is Kind.GRANTED:
            held = entry.token
        elif entry.kind is Kind.FREED:
            due.pop(entry.token, None)
            held = None
        elif entry.kind is Kind.ENDED and healed and held == entry.token:
            due[entry.token] = entry.at + plan.delay_max_ns
    return None


@reads(Kind.HEALED, Kind.GRANTED, Kind.STOPPING)
def keeps_office(history: History, plan: Plan) -> Finding:
    """15: in a healthy world nobody loses an office that it was granted there."""
    healed = False
    granted: set[int] = set()
    for entry in history:
        if entry.kind is Kind.HEALED:
            healed = plan.fragile is None
        elif entry.kind is Kind.GRANTED and healed:
            granted.add(entry.token)
        elif entry.kind is Kind.STOPPING and entry.token in granted and entry.number in _LOSSES:
            return entry.at, f"{entry.who} lost {entry.token} without a fault: {REASONS[entry.number].value}"
    return None


@reads(Kind.ACCEPTED, Kind.SEALED, Kind.REFUSED)
def refusals_are_earned(history: History, _: Plan) -> Finding:
    """16: a sink refuses nothing but tokens older than one it has seen."""
    highest = 0
    for entry in history:
        if entry.kind is Kind.ACCEPTED or entry.kind is Kind.SEALED:
            highest = max(highest, entry.token)
        elif entry.kind is Kind.REFUSED and entry.token >= highest:
            return entry.at, f"a write with {entry.token} was refused though nothing newer than {highest} was seen"
    return None
