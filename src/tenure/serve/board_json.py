"""A board as JSON has it: instants in UTC, durations in seconds, who is whom as text. Pure."""

from typing import Any

from tenure.apps.history.told import instant
from tenure.serve.board_judging import State, Verdict
from tenure.serve.board_rows import Row
from tenure.serve.board_timeline import Stint


class Past:
    """The tenures of one election as JSON, made anew only if they have changed: most changes are renewals."""

    __slots__ = ("_version", "failovers", "timeline")

    def __init__(self) -> None:
        self._version = -1
        self.timeline: list[dict[str, Any]] = []
        self.failovers: list[dict[str, Any]] = []

    def look(self, row: Row) -> None:
        """See whether something has changed."""
        if self._version == row.timeline.version:
            return
        self._version = row.timeline.version
        self.timeline = [stint_json(stint) for stint in row.timeline]
        self.failovers = [
            {"election": row.election, "token": found.token, "at": at, "gap_s": round(found.gap_s or 0.0, 3)}
            for found in row.timeline.failovers()
            if (at := iso(found.from_s))
            is not None  # By a clock that is off by thousands of years nothing was measured.
        ]


def shown_row(row: Row, verdict: Verdict, began_s: float | None, past: Past) -> dict[str, Any]:
    """Return what is shown of an election, which is in this state since ``began_s``; without what moves by itself."""
    leader, margins = row.leader, list(row.margins)
    return {
        "election": row.election,
        "state": verdict.state.value,
        "why": verdict.why,
        "state_since": iso(began_s),
        "leader": None
        if leader is None
        else {"holder": str(leader.holder), "token": int(leader.token), "advertised": leader.advertised},
        "since": iso(row.since_s),
        "standbys": list(row.standbys),
        "resign_asked": row.resign_asked,
        "here": row.here,
        "margin_s": margins[-1] if margins else None,
        "margins": margins,
        "renewals": row.renewals,  # so that a margin that comes by two ways is drawn once
        "margins_from": None if not margins else "here" if row.margins_are_ours else "store",
        "refused": row.refused,
        "marks": [
            {"at": iso(mark.at_s), "kind": mark.kind, "text": mark.text, "token": mark.token} for mark in row.marks
        ],
        "timeline": past.timeline,
    }


def moving(row: Row, now_s: float) -> dict[str, Any]:
    """Return what moves by itself. It goes along with what is told, and is no news of its own."""
    return {
        "held_for_s": None if row.since_s is None else round(max(0.0, now_s - row.since_s), 3),
        "remaining_s": None if row.until_s is None else round(max(0.0, row.until_s - now_s), 3),
        "as_of": iso(now_s),
    }


def since_s(row: Row, state: State, now_s: float) -> float | None:
    """Say since when it is so, for states that have a beginning of their own."""
    last = row.timeline.last
    if state in (State.VACANT, State.IDLE):
        return row.vacant_since_s
    if state is State.TWO_LEADERS and last is not None and last.from_s is not None:
        return last.from_s
    return now_s


def stint_json(stint: Stint) -> dict[str, Any]:
    """Return one tenure."""
    return {
        "token": stint.token,
        "holder": stint.holder,
        "from": iso(stint.from_s),
        "to": iso(stint.to_s),
        "reason": stint.reason,
        "gap_s": None if stint.gap_s is None else round(stint.gap_s, 3),
        "margin_min_s": None if stint.margin_min_s is None else round(stint.margin_min_s, 3),
        "unrecorded": stint.unrecorded,
    }


def iso(at_s: float | None) -> str | None:
    """Return an instant of the wall clock, as facts spell it. It may be one that another machine has put on record."""
    return instant(at_s)
