"""A history as a story: one line per thing that happened, in columns for leader, store, standby and sink."""

from collections.abc import Iterator
from typing import Final

from tenure.sim.history import EVERY, Entry, History, Kind

COLUMNS: Final = ("time", "leader", "store", "standby", "sink")
_WIDTHS: Final = (10, 38, 26, 30, 26)


_WORDS: Final = {
    Kind.HOLDS: "{who} believes in {token} till {instant:.3f}",
    Kind.RECLOCKED: "{who} believes in {token} till {instant:.3f}",
    Kind.STANDBY: "{who} waits",
    Kind.LEFT: "{who} leaves {token}",
    Kind.BEGAN: "{who} body of {token} begins",
    Kind.STOPPING: "{who} body of {token} told to stop: {note}",
    Kind.ENDED: "{who} body of {token} has ended",
    Kind.RELEASED: "{who} sends release of bid {serial}",
    Kind.OVERSTAYED: "{who} body of {token} OVERSTAYS",
    Kind.GRANTED: "grants {token} to {who}",
    Kind.RENEWED: "renews {token}",
    Kind.LEASED: "keeps {token} till {instant:.3f}",
    Kind.DELETED: "record of {token} deleted",
    Kind.DEPOSED: "{who} hears: {token} is over",
    Kind.FREED: "{token} is over, office free",
    Kind.ASKED: "claim of {who}, bid {serial}",
    Kind.SEALED: "sealed with {token}",
    Kind.ACCEPTED: "write with {token} accepted",
    Kind.REFUSED: "write with {token} REFUSED",
    Kind.EXECUTED: "worker executes {token}",
    Kind.FAULT: "~ {note}",
    Kind.HEALED: "~ no more faults from here on",
    Kind.FINISHED: "~ the end",
}


def story(history: History) -> Iterator[str]:
    """Yield the lines of a table with a head."""
    yield _line(COLUMNS)
    yield "-+-".join("-" * width for width in _WIDTHS)
    holding: set[str] = set()
    for entry in history:
        if entry.kind is Kind.HOLDS:
            holding.add(entry.who)
        time = f"{entry.at / 1e9:.6f}"
        words = _words(entry)
        if entry.who == "world" or entry.kind is Kind.FAULT:
            yield f"{time:>{_WIDTHS[0]}} | {words}"
        else:
            column = _column(entry, holding)
            yield _line([time, *("" if name != column else words for name in COLUMNS[1:])])
        if entry.kind in (Kind.LEFT, Kind.CRASHED):
            holding.discard(entry.who)


def _line(cells: tuple[str, ...] | list[str]) -> str:
    time, *others = cells
    padded = [f"{time:>{_WIDTHS[0]}}", *(f"{cell:<{width}}" for cell, width in zip(others, _WIDTHS[1:], strict=True))]
    return " | ".join(padded).rstrip()


def _column(entry: Entry, holding: set[str]) -> str:
    if entry.who == "store" or entry.kind in (Kind.GRANTED, Kind.ASKED):
        return "store"
    if entry.who in ("sink", "worker"):
        return "sink"
    return "leader" if entry.who in holding else "standby"


def _words(entry: Entry) -> str:
    template = _WORDS.get(entry.kind, "{who} {kind}")
    return template.format(
        who=entry.who if entry.election in (0, EVERY) else f"{entry.who}/{entry.election}",
        kind=entry.kind.value,
        token=entry.token,
        serial=entry.number,
        instant=entry.number / 1e9,
        note=entry.note,
    )
