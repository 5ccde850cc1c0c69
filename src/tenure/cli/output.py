"""How elections are shown: as a table on a terminal, as columns in a pipe, as objects in JSON.

What a store says of others (their hosts, the addresses that they advertise) was written by somebody else, so characters
that a terminal would obey are replaced before they are shown. JSON escapes them by itself.
"""

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tenure.errors import redact
from tenure.stores.base import ElectionStatus

if TYPE_CHECKING:
    from rich.table import Table

COLUMNS: Final = ("election", "leader", "token", "since", "remaining", "standbys", "address", "note")
# Shown on a terminal only if some row has something there.
_OPTIONAL: Final = ("address", "note")
_NUMBERS: Final = ("token", "since", "remaining", "standbys")
_NONE: Final = "-"
Notes = Mapping[str, str]
_NO_NOTES: Final[Notes] = {}


def is_terminal() -> bool:
    """Say whether a person watches, on a terminal that can move its cursor."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def shown(text: str) -> str:
    """Return ``text`` with whatever cannot be printed replaced."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def duration(ns: int | None) -> str:
    """Return a duration in the form that options take, to about two digits: 3.2s, 1m05s, 2h03m, 4d01h."""
    if ns is None:
        return _NONE
    seconds = ns / 1e9
    if seconds < 59.95:  # noqa: PLR2004  (rounded, this is the first that is a minute)
        return f"{seconds:.1f}s"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}d{hour:02}h"
    return f"{hours}h{minute:02}m" if hours else f"{minute}m{second:02}s"


def as_object(status: ElectionStatus) -> dict[str, Any]:
    """Return an election as ``--json`` shows it. Durations are in seconds."""
    incumbent = status.incumbent
    leader = None
    if incumbent is not None:
        holder = incumbent.holder
        leader = {"holder": str(holder), "host": holder.host, "pid": holder.pid, "nonce": holder.nonce}
    return {
        "election": status.election,
        "leader": leader,
        "token": None if incumbent is None else incumbent.token,
        "since_s": _seconds(status.held_for_ns),
        "remaining_s": _seconds(status.remaining_ns),
        "standbys": [str(holder) for holder in status.standbys],
        "advertised": (redact(incumbent.advertised) or None) if incumbent is not None else None,
        "resign_asked": status.resign_asked,
    }


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Return lines of cells as columns, cut nowhere."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def columns(statuses: Sequence[ElectionStatus], address: str, notes: Notes = _NO_NOTES) -> str:
    """Return elections as aligned columns, cut nowhere, for a pipe. ``notes`` are by election."""
    lines = [
        [name.upper() for name in (*COLUMNS, "store")],
        *([cell or _NONE for cell in (*_row(status, notes), address)] for status in statuses),
    ]
    return aligned(lines)


def table(
    statuses: Sequence[ElectionStatus],
    address: str,
    notes: Notes = _NO_NOTES,
    *,
    fresh: Collection[str] = (),
    note: str = "",
) -> "Table":
    """Return elections as a table for a terminal, with ``notes`` by election. ``fresh`` ones stand out; ``note`` stands below."""
    from rich.table import Table  # noqa: PLC0415  (only a terminal pays for it)
    from rich.text import Text  # noqa: PLC0415

    rows = [_row(status, notes, brief=True) for status in statuses]
    kept = [at for at, name in enumerate(COLUMNS) if name not in _OPTIONAL or any(row[at] for row in rows)]
    # Text and not str: in a str, rich takes "[red]" for an order, and an election may be called so.
    caption = Text(note or ("" if rows else "no elections yet"), style="yellow" if note else "dim")
    made = Table(title=Text(address, style="dim"), caption=caption, box=None, pad_edge=False)
    made.title_justify = made.caption_justify = "left"
    for at in kept:
        made.add_column(COLUMNS[at], justify="right" if COLUMNS[at] in _NUMBERS else "left", overflow="fold")
    for status, row in zip(statuses, rows, strict=True):
        style = "bold reverse" if status.election in fresh else "" if status.incumbent else "yellow"
        made.add_row(*(Text(row[at] or _NONE) for at in kept), style=style)
    return made


def _row(status: ElectionStatus, notes: Notes, *, brief: bool = False) -> tuple[str, ...]:
    incumbent = status.incumbent
    leader = "nobody"
    if incumbent is not None:
        holder = incumbent.holder
        leader = f"{holder.host}/{holder.pid}" if brief else str(holder)  # The nonce tells a person nothing.
    return (
        shown(status.election),
        shown(leader),
        str(incumbent.token) if incumbent else "",
        duration(status.held_for_ns),
        duration(status.remaining_ns),
        str(len(status.standbys)),
        shown(redact(incumbent.advertised)) if incumbent else "",
        ", ".join(filter(None, ("resign-asked" if status.resign_asked else "", notes.get(status.election)))),
    )


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e9
