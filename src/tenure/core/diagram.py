"""The machine as pictures: text for the docs, made from ``core/table`` and from nothing else.

Every function is pure. ``tools/generate_docs.py`` writes what they return into the page that shows it, and a test
fails when the two are out of step.
"""

from tenure.core.events import Event
from tenure.core.table import IDLE, IGNORED, TRANSITIONS, State


def mermaid() -> str:
    """Return a Mermaid state diagram of every way from one state to another.

    Leaves out events that are handled without moving: ``grid`` has them.
    """
    moves: dict[tuple[State, State], list[str]] = {}
    for (state, event), row in TRANSITIONS.items():
        for target in row.to:
            if target is not state:
                moves.setdefault((state, target), []).append(event.__name__)
    lines = [f"    {state} --> {target}: {', '.join(events)}" for (state, target), events in moves.items()]
    return "\n".join(["stateDiagram-v2", f"    [*] --> {IDLE}", *lines])


def grid() -> str:
    """Return a Markdown table of every state × event pair: where it may lead, or that it is ignored."""
    rows = [["", *State], ["---"] * (len(State) + 1)]
    rows += [[event.__name__, *(_cell(state, event) for state in State)] for event in _events()]
    return _table(rows)


def ignored_table() -> str:
    """Return a Markdown table of the ignored pairs, those of one reason in one line."""
    pairs: dict[str, dict[str, list[str]]] = {}
    for (state, event), reason in IGNORED.items():
        pairs.setdefault(reason, {}).setdefault(event.__name__, []).append(state)
    rows = [["Event", "ignored in", "because"], ["---"] * 3]
    rows += [[event, ", ".join(states), reason] for reason, events in pairs.items() for event, states in events.items()]
    return _table(rows)


def _events() -> list[type[Event]]:
    return list(Event.__args__)  # the order in which ``core/events`` declares them


def _cell(state: State, event: type[Event]) -> str:
    if (state, event) in IGNORED:
        return "·"
    return ", ".join("stays" if target is state else f"→ {target}" for target in TRANSITIONS[state, event].to)


def _table(rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
