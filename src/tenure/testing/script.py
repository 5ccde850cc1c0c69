"""Stories: scripts that step one candidate and say, line by line, what it must do.

::

    # A leader that hears nothing stops before its lease can be taken.
    timing ttl=8s
    stand at=0                 → claim 1 bid=1 [claiming wake=1.75s]
    granted 1 token=7 at=40ms  → seal 2 token=7 [sealing until=7.92s wake=1.79s]

A line is an event, ``at=`` its time and, if wanted, ``chance=`` its lot (0.5 unless said); then ``→`` or ``->``, the
effects in their order (``—``: none) and, in brackets, where the candidate then stands, until when its office may be
believed in, and its timer. Brackets that are not written are not compared; ``rewrite`` writes them. ``timing`` takes
the keywords of ``Timing.of``. ``#`` starts a comment. Events: ``stand``, ``resign``, ``give-up``, ``tick``, ``granted ATTEMPT
token=T``, ``must-wait ATTEMPT behind=T``, ``deposed T``, ``failed ATTEMPT definite|unknown``, ``changed ATTEMPT``,
``sealed T``, ``ended T``. An answer belongs to the bid that its attempt was sent for, unless ``bid=`` names another.

Rules of this file
1. What is compared is effects, as text made from their values. Never a log.
2. Each transition that happens must stand in the table, also the tick that a passed deadline makes before the event.
3. A script that cannot be read is a ConfigError of one line with its place, the word and the rule.

Promises nothing about drivers: a story is what the machine does if this happens, not that it can happen.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tenure.core import effects as out
from tenure.core import events as into
from tenure.core.candidate import Candidate
from tenure.core.table import TRANSITIONS, Row, State
from tenure.errors import ConfigError, Reason
from tenure.model import Bid, Grant, Holder, Incumbent, Token, Wait
from tenure.testing.wording import (
    read_count,
    read_outcome,
    read_share,
    read_time,
    read_token,
    require,
    write_effect,
    write_standing,
    write_time,
)
from tenure.timing import Timing

SCRIPT_BYTES_MAX = 2**20  # A story is read by people. A larger file is a mistake, such as a device.

_ELECTION = "story"
_HOLDER = Holder("script", 1, "self")
_RIVAL = Holder("script", 2, "rival")
_ARROW = re.compile(r"→|->")
_NONE = frozenset({"", "—", "-"})

Walk = tuple[State, type[into.Event], State]
Table = Mapping[tuple[State, type[into.Event]], Row]


@dataclass(frozen=True, slots=True)
class Line:
    """One step: the event as written and as read, and what is expected of it."""

    number: int
    words: str
    verb: str
    said: Mapping[str, int]
    at: int
    chance: float
    effects: tuple[str, ...]
    standing: str | None
    comment: str


@dataclass(frozen=True, slots=True)
class Script:
    """A story that was read and not yet run."""

    path: str
    timing: Timing
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A line at which the candidate did something else. ``str`` of it is one line that begins with the place."""

    where: str
    expected: str
    actual: str

    def __str__(self) -> str:
        return f"{self.where}: expected {self.expected}, got {self.actual}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What running a story showed: each line's actual right-hand side, what differs, every transition made."""

    actual: list[str] = field(default_factory=list)
    mismatches: list[Mismatch] = field(default_factory=list)
    walked: set[Walk] = field(default_factory=set)


# Reading


def load(path: Path | str) -> Script:
    """Read and parse the story at ``path``. Raises ConfigError also if the file cannot be read or is not UTF-8."""
    try:
        if not Path(path).is_file():  # A pipe would keep us waiting for ever.
            Path(path).stat()
            raise ConfigError("script", path, "must be a regular file")
        with Path(path).open("rb") as file:
            content = file.read(SCRIPT_BYTES_MAX + 1)
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError("script", path, f"must be UTF-8, and byte {error.start} is not") from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigError("script", path, f"must be a file that can be read: {why}") from error
    if len(content) > SCRIPT_BYTES_MAX:
        raise ConfigError("script", path, f"must have at most {SCRIPT_BYTES_MAX} bytes")
    return parse(text, str(path))


def parse(text: str, path: str = "script") -> Script:
    """Return the story in ``text``; ``path`` names it in errors. Raises ConfigError for a script that cannot be read."""
    timing: Timing | None = None
    lines: list[Line] = []
    for number, raw in enumerate(text.split("\n"), start=1):
        story, comment = _part(raw, "#")
        try:
            if story.split()[:1] == ["timing"]:
                require(timing is None and not lines, "timing", story, "must stand once, before the first event")
                timing = _parse_timing(story.split()[1:])
            elif story:
                lines.append(_parse_line(number, story, comment, lines[-1].at if lines else 0))
        except ConfigError as error:
            raise _placed(path, number, error) from error
    if not lines:
        raise ConfigError("script", path, "must have at least one event")
    return Script(path, timing or Timing.of(), tuple(lines))


def _parse_line(number: int, story: str, comment: str, before: int) -> Line:
    arrow = _ARROW.search(story)
    left, right = (story[: arrow.start()], story[arrow.end() :]) if arrow else (story, "")
    verb, *words = left.split() or [""]
    require(verb in _VERBS, "event", verb or story, f"must be one of {', '.join(sorted(_VERBS))}")
    positions, keys, _ = _VERBS[verb]
    given = [word for word in words if "=" not in word]
    rule = f"must be followed by {' and '.join(positions) or 'no word'} before its options"
    require(len(given) == len(positions), verb, " ".join(given) or "nothing", rule)
    options = _options([word for word in words if "=" in word], (*keys, "at", "chance"))
    require("at" in options, verb, "at", "must say at=, the time of the event")
    at = read_time("at", options.pop("at"))
    require(at >= before, "at", write_time(at), f"must not be earlier than the line before, {write_time(before)}")
    chance = read_share("chance", options.pop("chance", "0.5"))
    said = {name: _READERS[name](name, word) for name, word in [*zip(positions, given, strict=True), *options.items()]}
    effects, standing = _part(right, "[")
    require(not standing or standing.find("]") == len(standing) - 1, "state", standing, "must end the line with one ]")
    expected = tuple(" ".join(effect.split()) for effect in effects.split(",")) if effects not in _NONE else ()
    return Line(
        number, " ".join(left.split()), verb, said, at, chance, expected, " ".join(standing.split()) or None, comment
    )


def _parse_timing(words: list[str]) -> Timing:
    settings: dict[str, Any] = {key: _TIMING[key](key, word) for key, word in _options(words, tuple(_TIMING)).items()}
    return Timing.of(**settings)


def _read_seconds(name: str, word: str) -> float:
    return read_time(name, word) / 1e9


def _part(text: str, mark: str) -> tuple[str, str]:
    """Return what stands before ``mark``, and the rest with the mark."""
    before, found, after = text.partition(mark)
    return before.strip(), (found + after).strip()


def _options(words: list[str], keys: tuple[str, ...]) -> dict[str, str]:
    options: dict[str, str] = {}
    for word in words:
        key, _, value = word.partition("=")
        require(key in keys, "option", key or word, f"must be one of {', '.join(keys)}")
        require(key not in options, "option", key, "must be said once")
        options[key] = value
    return options


def _placed(path: str, number: int, error: ConfigError) -> ConfigError:
    return ConfigError("script", f"{path}:{number} {error.value}", f"{error.setting} {error.rule}")


_READERS: dict[str, Callable[[str, str], int]] = {
    "attempt": read_count,
    "behind": read_token,
    "bid": read_count,
    "outcome": read_outcome,
    "token": read_token,
}
_TIMING: dict[str, Callable[[str, str], float]] = {
    "ttl": _read_seconds,
    "heartbeat": _read_seconds,
    "misses": read_count,
    "attempt_timeout": _read_seconds,
    "grace": _read_seconds,
    "drift": read_share,
    "local_share": read_share,
}


# Running


class _Teller(Candidate):
    """A candidate that remembers which transitions it made, and what each attempt asked for."""

    def __init__(self, timing: Timing) -> None:
        super().__init__(Bid(_ELECTION, _HOLDER, 0, timing.ttl_ns), timing)
        self.ttl_ns = timing.ttl_ns
        self.walked: list[Walk] = []
        self.asked: dict[int, out.Claim | out.Renew] = {}

    def tell(self, line: Line) -> list[out.Effect]:
        effects = self.step(_VERBS[line.verb].make(self, line.said), line.at, line.chance)
        self.asked.update({effect.attempt: effect for effect in effects if isinstance(effect, out.Claim | out.Renew)})
        return effects

    def bid(self, said: Mapping[str, int]) -> Bid:
        """Return the bid that an answer speaks of."""
        if "bid" in said:
            return Bid(_ELECTION, _HOLDER, said["bid"], self.ttl_ns)
        match self.asked.get(said["attempt"]):
            case out.Claim(bid=bid) | out.Renew(grant=Grant(bid=bid)):
                return bid
        raise ConfigError("attempt", said["attempt"], "was never sent as a claim or renewal, so bid= must be said")

    def granted(self, said: Mapping[str, int]) -> into.Granted:
        match self.asked.get(said["attempt"]):
            case out.Renew(grant=grant) if not {"token", "bid"} & set(said):
                return into.Granted(said["attempt"], grant)
        require("token" in said, "granted", str(said["attempt"]), "must name its token unless it answers a renewal")
        return into.Granted(said["attempt"], Grant(self.bid(said), Token(said["token"])))

    def must_wait(self, said: Mapping[str, int]) -> into.MustWait:
        behind = said.get("behind")
        incumbent = None if behind is None else Incumbent(_ELECTION, _RIVAL, Token(behind))
        return into.MustWait(said["attempt"], Wait(self.bid(said), incumbent))

    def _dispatch(self, event: into.Event) -> None:
        before = self.state
        super()._dispatch(event)
        self.walked.append((before, type(event), self.state))


class _Verb(NamedTuple):
    """The words and keys that an event takes, and how it is made of them."""

    words: tuple[str, ...]
    keys: tuple[str, ...]
    make: Callable[[_Teller, Mapping[str, int]], into.Event]


_VERBS = {
    "stand": _Verb((), (), lambda _, __: into.Stand()),
    "resign": _Verb((), (), lambda _, __: into.Resign()),
    "give-up": _Verb((), (), lambda _, __: into.GiveUp(Reason.STALLED)),
    "tick": _Verb((), (), lambda _, __: into.Tick()),
    "granted": _Verb(("attempt",), ("token", "bid"), _Teller.granted),
    "must-wait": _Verb(("attempt",), ("behind", "bid"), _Teller.must_wait),
    "deposed": _Verb(("token",), (), lambda _, said: into.Deposed(Token(said["token"]))),
    "failed": _Verb(("attempt", "outcome"), (), lambda _, said: into.Failed(said["attempt"], bool(said["outcome"]))),
    "changed": _Verb(("attempt",), (), lambda _, said: into.Changed(said["attempt"])),
    "sealed": _Verb(("token",), (), lambda _, said: into.Sealed(Token(said["token"]))),
    "ended": _Verb(("token",), (), lambda _, said: into.BodyEnded(Token(said["token"]))),
}


def run(script: Script, table: Table = TRANSITIONS) -> Outcome:
    """Step a fresh candidate through ``script`` and compare. Does not stop at the first line that differs.

    Raises ConfigError for an answer that leaves open which bid or token it speaks of.
    """
    outcome, candidate = Outcome(), _Teller(script.timing)
    for line in script.lines:
        candidate.walked.clear()
        try:
            effects = tuple(write_effect(effect) for effect in candidate.tell(line))
        except ConfigError as error:
            raise _placed(script.path, line.number, error) from error
        where, standing = f"{script.path}:{line.number}", write_standing(candidate)
        outcome.actual.append(f"{', '.join(effects) or '—'} {standing}")
        outcome.walked.update(candidate.walked)
        if effects != line.effects:
            outcome.mismatches.append(Mismatch(where, ", ".join(line.effects) or "—", ", ".join(effects) or "—"))
        if line.standing not in {None, standing}:
            outcome.mismatches.append(Mismatch(where, str(line.standing), standing))
        for before, event, after in candidate.walked:
            row = table.get((before, event))
            allowed = row.to if row else (before,)
            if after not in allowed:
                expected = f"the table's {before} --{event.__name__}--> {' or '.join(allowed)}"
                outcome.mismatches.append(Mismatch(where, expected, str(after)))
    return outcome


def rewrite(text: str, path: str = "script") -> str:
    """Return ``text`` with what the candidate really does on the right of every arrow. Comments and events are kept."""
    script = parse(text, path)
    rows = text.rstrip("\n").split("\n")
    width = max(len(line.words) for line in script.lines)
    for line, actual in zip(script.lines, run(script).actual, strict=True):
        rows[line.number - 1] = f"{line.words:<{width}} → {actual}" + (f"  {line.comment}" if line.comment else "")
    return "\n".join(row.rstrip() for row in rows) + "\n"
