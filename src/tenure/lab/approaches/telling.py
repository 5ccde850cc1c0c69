"""A run as a story: a line for each thing that happened, in a column for each candidate, the servers and the sink."""

from collections.abc import Iterator
from typing import Final

from tenure.lab.approaches.arena import Approach, Played
from tenure.lab.approaches.cast import CANDIDATES, SERVERS
from tenure.lab.faults import S, name_of, names_of
from tenure.lab.world import Entry
from tenure.sim.checkers import Violation

_WIDTH: Final = 27
_HEADS: Final = (*(name_of(number) for number in CANDIDATES), "servers", "sink")
_SERVERS, _SINK = len(CANDIDATES), len(CANDIDATES) + 1
# Kind → the words for it. {number} and {detail} are those of the entry.
_WORDS: Final = {
    "leads": "LEADS, number {detail}",
    "left": "leaves: {detail}",
    "began": "begins task {detail}",
    "wrote": "writes task {detail}",
    "dropped": "drops task {detail}",
    "resumed": "goes on",
    "granted": "{detail} grants {number} to {who}",
    "cleared": "the flag of {who} is cleared",
    "role": "{who} is the {detail} now",
    "accepted": "takes task {task} of {who}",
    "refused": "REFUSES {who}, number {number}",
}
_COLUMN: Final = {"granted": _SERVERS, "cleared": _SERVERS, "role": _SERVERS, "accepted": _SINK, "refused": _SINK}


def cast_of(approach: Approach) -> str:
    """Return who is who."""
    servers = (f"{name_of(number)} is the {name}" for number, name in zip(SERVERS, approach.servers, strict=False))
    return ", ".join(["A, B and C stand", *servers])


def tell(approach: Approach, played: Played, upto: int | None = None) -> Iterator[str]:
    """Yield the lines of a table with a head. ``upto``: the story ends at that instant."""
    present = {*CANDIDATES, *SERVERS[: len(approach.servers)]}
    yield cast_of(approach)
    yield ""
    yield _line("time", *_HEADS)
    yield "-+-".join(["-" * 10, *("-" * _WIDTH for _ in _HEADS)])
    for entry in played.history:
        if upto is not None and entry.at > upto:
            return
        time = f"{entry.at / 1e9:10.3f}"
        if entry.kind == "healed":
            yield f"{time} | ~ nothing fails from here on"
        elif entry.kind == "fault":
            words = _fault(entry, played, approach, present)
            if words:
                yield f"{time} | ~ {words}"
        elif entry.kind == "started":
            if entry.number > 1 and entry.who in present:
                yield f"{time} | ~ {name_of(entry.who)} starts again"
        elif entry.kind in _WORDS:
            yield _line(time, *_cells(entry))


def _fault(entry: Entry, played: Played, approach: Approach, present: set[int]) -> str:
    """Return what struck, or nothing if it struck nobody who has a part in this: the others of the cast do nothing."""
    for strike in played.plan.strikes:
        if strike.at == entry.at and strike.who == entry.number:
            if strike.kind not in ("partition", "one-way"):
                return str(entry.detail) if strike.who in present else ""
            sides = cut_in_words(strike.mask, approach)
            how = "parted" if strike.kind == "partition" else "the right hears nothing of the left"
            return f"{how}: {sides}, for {strike.for_ns / S:.3f} s" if sides else ""
    return str(entry.detail)  # The end of a partition.


def _parts(mask: int, present: set[int]) -> bool:
    inside = sum(mask >> number & 1 for number in present)
    return 0 < inside < len(present)


def _cells(entry: Entry) -> list[str]:
    column = _COLUMN.get(entry.kind, entry.who)
    task = entry.detail[0] if isinstance(entry.detail, tuple) else ""
    template = "LEADS" if entry.kind == "leads" and not entry.detail else _WORDS[entry.kind]  # one without a number
    words = template.format(number=entry.number, detail=entry.detail, who=name_of(entry.who), task=task)
    return [words if number == column else "" for number in range(len(_HEADS))]


def _line(time: str, *cells: str) -> str:
    return " | ".join([f"{time:>10}", *(f"{cell:<{_WIDTH}}" for cell in cells)]).rstrip()


def moral(violation: Violation) -> str:
    """Return a violation as the last line of a story."""
    return f"{violation.checker} is broken at {violation.at / 1e9:.3f} s: {violation.what}"


def cut_in_words(mask: int, approach: Approach) -> str:
    """Return the two sides of a partition, of those who have a part in this; empty if it does not part them."""
    present = {*CANDIDATES, *SERVERS[: len(approach.servers)]}
    everybody = sum(1 << number for number in present)
    return f"{names_of(mask & everybody)} | {names_of(everybody & ~mask)}" if _parts(mask, present) else ""
