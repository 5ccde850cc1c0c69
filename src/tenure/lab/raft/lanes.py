"""A story as a picture: a lane for each server, coloured by what it is, and an arrow for each message."""

from collections.abc import Callable, Iterator
from typing import Final
from xml.sax.saxutils import escape

from tenure.lab.chart import svg_head
from tenure.lab.faults import MS, name_of
from tenure.lab.raft.messages import Append, Appended, RequestVote, Role, Vote
from tenure.lab.raft.stage import Stage, Story
from tenure.lab.world import NEVER, Sent

_WIDTH, _LEFT, _TOP, _LANE, _RIGHT = 960, 40, 70, 70, 30
_COLOURS: Final = {
    Role.FOLLOWER: "#cfd8dc",
    Role.PRE_CANDIDATE: "#f0e442",
    Role.CANDIDATE: "#e69f00",
    Role.LEADER: "#0072b2",
}
_ARROWS: Final = {  # the colour of an arrow, and what it is
    "ask": ("#d55e00", "request for a vote"),
    "vote": ("#009e73", "vote"),
    "refusal": ("#cc79a7", "refusal"),
    "entries": ("#000000", "entries"),
    "heartbeat": ("#b0bec5", "heartbeat, and answers"),
}


def lanes_svg(story: Story, stage: Stage) -> str:
    """Return the picture of a story that has been played."""
    began = min(entry.at for entry in stage.world.history if entry.kind == "became") - 10 * MS
    ended = story.end_ms * MS
    height = _TOP + _LANE * len(stage.nodes) + 50

    def x(instant: int) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (min(max(instant, began), ended) - began) / (ended - began)

    def y(server: int) -> float:
        return _TOP + _LANE * server + _LANE / 2

    parts = [
        svg_head(_WIDTH, height, f"{story.title}. {story.moral}"),
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
    ]
    parts.append(f'<text x="{_LEFT}" y="20" font-size="15">{escape(story.title)}</text>')
    for server, role, since, until in _spans(stage, ended):
        if until > began and role is not None:
            box = f'x="{x(since):.1f}" y="{y(server) - 7}" width="{max(x(until) - x(since), 1):.1f}" height="14"'
            parts.append(f'<rect {box} fill="{_COLOURS[role]}"/>')
    parts += [_arrow(sent, x, y) for sent in stage.world.trace or () if began <= sent.at <= ended]
    lanes = range(len(stage.nodes))
    parts += [f'<text x="12" y="{y(lane) + 5}" font-size="15">{name_of(lane)}</text>' for lane in lanes]
    parts += _axis(began, ended, x, height)
    return "\n".join([*parts, *_legend(), "</svg>", ""])


def _spans(stage: Stage, ended: int) -> Iterator[tuple[int, Role | None, int, int]]:
    """Yield from when to when each server was what; None: it was down."""
    now: dict[int, tuple[Role | None, int]] = {node.number: (Role.FOLLOWER, 0) for node in stage.nodes}
    for entry in stage.world.history:
        became = {"became": entry.detail and entry.detail[0], "crashed": None, "started": Role.FOLLOWER}
        if entry.kind in became:
            role, since = now[entry.who]
            yield entry.who, role, since, entry.at
            now[entry.who] = became[entry.kind], entry.at
    for server, (role, since) in now.items():
        yield server, role, since, ended


def _kind(message: object) -> str:
    match message:
        case RequestVote():
            return "ask"
        case Vote(granted=granted):
            return "vote" if granted else "refusal"
        case Append(entries=entries) if entries:
            return "entries"
        case Appended(ok=False):
            return "refusal"
        case _:
            return "heartbeat"


def _arrow(sent: Sent, x: Callable[[int], float], y: Callable[[int], float]) -> str:
    kind = _kind(sent.message)
    colour, _ = _ARROWS[kind]
    lost = sent.arrives_at == NEVER
    x1, y1, y2 = x(sent.at), y(sent.source), y(sent.target)
    x2 = x(sent.at + 5 * MS if lost else sent.arrives_at)
    if lost:  # It ends on the way.
        x2, y2 = (x1 + x2) / 2, (y1 + y2) / 2
        return f'<path d="M{x1:.1f} {y1}L{x2:.1f} {y2}m-3 -3l6 6m0 -6l-6 6" stroke="{colour}" fill="none"/>'
    line = f'<path d="M{x1:.1f} {y1}L{x2:.1f} {y2}" stroke="{colour}" stroke-width="{0.7 if kind == "heartbeat" else 1.4}"/>'
    return line + f'<circle cx="{x2:.1f}" cy="{y2}" r="{1.5 if kind == "heartbeat" else 3}" fill="{colour}"/>'


def _axis(began: int, ended: int, x: Callable[[int], float], height: int) -> Iterator[str]:
    step = 50 * MS if ended - began <= 600 * MS else 100 * MS
    for tick in range(-(-began // step) * step, ended + 1, step):
        yield f'<path d="M{x(tick):.1f} {_TOP}V{height - 36}" stroke="#eee"/>'
        yield f'<text x="{x(tick):.1f}" y="{height - 18}" text-anchor="middle">{tick // MS} ms</text>'


def _legend() -> Iterator[str]:
    at = _LEFT
    for role, colour in _COLOURS.items():
        yield f'<rect x="{at}" y="32" width="14" height="14" fill="{colour}"/><text x="{at + 19}" y="44">{role}</text>'
        at += 34 + 7 * len(role)
    for colour, what in _ARROWS.values():
        yield f'<circle cx="{at + 6}" cy="39" r="4" fill="{colour}"/><text x="{at + 15}" y="44">{what}</text>'
        at += 28 + 6 * len(what)
