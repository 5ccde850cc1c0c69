"""What is kept of one configuration, and how it changes. Pure: nothing here speaks to a store.

Rules of this file
1. Editions are numbered 1, 2, 3 … and a number is never given twice, also if its edition was withdrawn.
2. Whoever proposes names the edition that it has seen. If there is another by now, nothing is proposed, and it is told.
3. A leader applies and rejects under a token that is not lower than any that was here: one that was succeeded does neither.
   A person withdraws without one.
"""

import json
import sys
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, NoReturn

from tenure.errors import ConfigError, StaleToken, TenureError
from tenure.stores.trail import VALUE_BYTES_MAX

# Two of them, proposed and applied, leave half of a document for those of before.
EDITION_BYTES_MAX: Final = VALUE_BYTES_MAX // 4
HISTORY_MAX: Final = 50
# Far from where any reader or writer of JSON runs out of stack: what one can propose, every leader can read.
DEPTH_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class Edition:
    """One content of a configuration; ``at`` is when it was proposed, for people: nothing is decided by it."""

    version: int
    value: Any
    by: str
    at: str
    token: int | None = None  # of the tenure that applied it


@dataclass(frozen=True, slots=True)
class State:
    """A configuration as it stands."""

    applied: Edition | None = None
    proposed: Edition | None = None
    history: tuple[Edition, ...] = ()  # what was applied before, oldest first
    last_version: int = 0
    fence: str = ""  # whose tokens count; empty: nobody has led yet
    highest_token: int = 0
    withdrawn: dict[str, str] = field(default_factory=dict)  # the last that was withdrawn, by version, and why

    @property
    def version(self) -> int:
        """The edition that the next proposal has to name: what is proposed, or else applied; 0: there is none."""
        current = self.proposed or self.applied
        return 0 if current is None else current.version

    def edition(self, version: int) -> Edition | None:
        """Return an edition that is kept."""
        kept = (self.applied, self.proposed, *self.history)
        return next((one for one in kept if one is not None and one.version == version), None)


class Outdated(TenureError):
    """Another edition came first. Nothing was changed; ``state`` is what there is now."""

    def __init__(self, name: str, seen: int, state: State) -> None:
        self.name, self.seen, self.state = name, seen, state
        super().__init__(name, seen, state)

    def __str__(self) -> str:
        return f"{self.name} is at version {self.state.version} and not at {self.seen}: look at what it says now"


def proposed(name: str, state: State, edition: Edition, seen: int) -> State:
    """Return the state with a proposal on top of the edition ``seen``; its number is given here."""
    if state.version != seen:
        raise Outdated(name, seen, state)
    version = state.last_version + 1
    gone = {} if state.proposed is None else {str(state.proposed.version): f"version {version} took its place"}
    return replace(state, proposed=replace(edition, version=version), last_version=version, withdrawn=gone)


def sealed(name: str, state: State, fence: str, token: int) -> State:
    """Return the state in which nothing older than ``token`` applies anything."""
    if state.fence not in {"", fence}:
        rule = f"is led by the election of fence {state.fence!r}, not {fence!r}: give each election a configuration of its own"
        raise ConfigError("config", name, rule)
    if state.highest_token > token:
        raise StaleToken(token, state.highest_token)
    return replace(state, fence=fence, highest_token=token)


def applied(name: str, state: State, version: int, fence: str, token: int) -> State:
    """Return the state in which the proposal ``version`` is applied under this token."""
    state = sealed(name, state, fence, token)
    if state.applied is not None and state.applied.version == version:
        return state
    if state.proposed is None or state.proposed.version != version:
        raise Outdated(name, version, state)
    history = state.history if state.applied is None else (*state.history, state.applied)
    return replace(
        state, applied=replace(state.proposed, token=token), proposed=None, history=history[-HISTORY_MAX:], withdrawn={}
    )


def withdrawn(name: str, state: State, version: int, why: str) -> State:
    """Return the state without the proposal ``version``. A leader's withdrawal is one of a state that it has ``sealed``."""
    if state.proposed is None or state.proposed.version != version:
        raise Outdated(name, version, state)
    return replace(state, proposed=None, withdrawn={str(version): why})


def parse(text: bytes | str, what: str) -> Any:
    """Return the value of a JSON text. Raises ConfigError in one line for what is none, or is not clear."""

    def refuse(constant: str) -> NoReturn:
        raise ConfigError(what, constant, "is no JSON: write null, or a number")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise ConfigError(what, repr(key), "stands twice in one object, and one of them would be lost")
            found[key] = value
        return found

    try:
        words = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        value = json.loads(words, parse_constant=refuse, object_pairs_hook=unique)
    except UnicodeDecodeError as error:
        raise ConfigError(what, f"byte {error.start}", "is not UTF-8, and so no JSON") from None
    except json.JSONDecodeError as error:
        rule = f"is not JSON: {error.msg[:1].lower()}{error.msg[1:]}"
        raise ConfigError(what, f"line {error.lineno}, column {error.colno}", rule) from None
    except ValueError:  # The only other one: a number that is too long to be read in reasonable time.
        rule = f"may have at most {sys.get_int_max_str_digits()} digits: write it as a string"
        raise ConfigError(what, "a number", rule) from None
    except RecursionError:
        raise _too_deep(what) from None
    check_value(value, what)
    return value


def check_value(value: Any, what: str) -> None:
    """Raise ConfigError for what cannot be an edition."""
    _check_depth(value, what)
    try:
        length = len(json.dumps(value, allow_nan=False).encode())
    except (TypeError, ValueError) as error:
        raise ConfigError(what, type(value).__name__, f"cannot be written as JSON: {error}") from None
    if length > EDITION_BYTES_MAX:
        rule = f"must have at most {EDITION_BYTES_MAX} as JSON: keep what is large elsewhere, and here where it is"
        raise ConfigError(what, f"{length} bytes", rule)


def _check_depth(value: Any, what: str) -> None:
    level = [value]
    for _ in range(DEPTH_MAX + 1):
        containers = [one for one in level if isinstance(one, dict | list | tuple)]
        if not containers:
            return
        within = [part for one in containers for part in (one.values() if isinstance(one, dict) else one)]
        level = list(
            {id(part): part for part in within}.values()
        )  # One that holds itself twice would double each time.
    raise _too_deep(what)


def _too_deep(what: str) -> ConfigError:
    rule = f"may have at most {DEPTH_MAX} levels of objects and lists inside each other"
    return ConfigError(what, "too deep", rule)


def plain(record: State | Edition) -> dict[str, Any]:
    """Return a record as JSON can write it. (``asdict`` would also copy what the user gave, level by level.)"""
    found = {one.name: getattr(record, one.name) for one in fields(record)}
    if isinstance(record, State):
        for part in ("applied", "proposed"):
            found[part] = None if found[part] is None else plain(found[part])
        found["history"] = [plain(one) for one in record.history]
    return found


def dumped(state: State) -> bytes:
    """Return the document of a state. If it is too large, the oldest of its history goes."""
    while True:
        text = json.dumps(plain(state), separators=(",", ":")).encode()
        if len(text) <= VALUE_BYTES_MAX or not state.history:
            return text
        state = replace(state, history=state.history[1:])


def loaded(name: str, text: bytes | None) -> State:
    """Return the state of a document. Raises ConfigError for one that no ``dumped`` has made."""
    if text is None:
        return State()
    try:
        found = json.loads(text)
        for part in ("applied", "proposed"):
            found[part] = None if found[part] is None else Edition(**found[part])
        return State(**found | {"history": tuple(Edition(**one) for one in found["history"])})
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ConfigError("config", name, "is kept in a form that this version does not know") from error
