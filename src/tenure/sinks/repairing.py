"""How a fence that was raised by mistake is lowered again, and who did it when and why.

A fence only rises, and that is the whole of its worth: to lower it lets everybody in whose token lies between. So it is
lowered only by somebody who says what it stands at (a fence that has moved since is left alone), and the record of it is
written in the same step as the fence, beside it.
"""

import getpass
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple, Protocol

from tenure.errors import ConfigError
from tenure.model import TOKEN_MAX

_WORDS_MAX: Final = 500
_KINDS: Final = {"fence": str, "was": int, "now": int, "who": str, "when": str, "why": str}


@dataclass(frozen=True, slots=True)
class Repair:
    """One fence that was lowered by hand."""

    fence: str
    was: int
    now: int
    who: str
    when: str
    why: str


class Fences(NamedTuple):
    """Where the fences of one target stand, and which of them were lowered by hand."""

    highest: Mapping[str, int]
    repairs: tuple[Repair, ...]


class Mendable(Protocol):
    """A place that keeps fences. Blocks, and is used once."""

    def look(self) -> Fences:
        """Return its fences. Raises ConfigError if it has none, and StoreError if they cannot be read."""
        ...

    def lower(self, repair: Repair) -> None:
        """Lower a fence and record that, in one step of the place itself, if the fence stands where it was said.

        Raises ConfigError if it stands elsewhere and StoreError if it cannot be done. Nothing was changed then, unless that
        is OutcomeUnknown.
        """
        ...


def repair_of(fence: str, *, was: int, to: int, why: str, who: str | None = None) -> Repair:
    """Return what is to be done, in the words in which it is recorded. Raises ConfigError for what makes no sense."""
    if not fence or "\0" in fence:
        raise ConfigError("fence", repr(fence), "must have a name, without a NUL in it")
    if not 1 <= was <= TOKEN_MAX:
        raise ConfigError("was", was, f"must be what the fence stands at, which lies between 1 and {TOKEN_MAX}")
    if not 0 <= to < was:
        raise ConfigError("to", to, f"must be lower than {was}, which the fence stands at, and not below 0")
    if not why.strip() or len(why) > _WORDS_MAX:
        raise ConfigError("why", repr(why[:40]), f"must say in up to {_WORDS_MAX} characters why the fence is wrong")
    who = (who or _somebody())[:_WORDS_MAX]
    for name, text in (("fence", fence), ("why", why), ("who", who)):
        if "\0" in text:
            raise ConfigError(name, ascii(text[:40]), "must be text without a NUL in it")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ConfigError(name, ascii(text[:40]), "must be text that UTF-8 can say") from error
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Repair(fence, was, to, who, now, why.strip())


def moved(repair: Repair, highest: int) -> ConfigError:
    """Return the error of a repair that found the fence elsewhere. Nothing was changed."""
    return ConfigError("was", repair.was, f"must be what the fence stands at, which is {highest}: look again")


def no_fences(target: str) -> ConfigError:
    """Return the error of a place that keeps no fences."""
    return ConfigError("target", target, "has no fences: no sink has written there yet, or it is another place")


def repairs_in(found: object) -> tuple[Repair, ...]:
    """Return the repairs that a list of JSON has. Raises ValueError, in words, for what somebody edited."""
    if not isinstance(found, list):
        raise ValueError("are not a list")  # noqa: TRY004  (of what was read, and not of what was called)
    try:
        repairs = tuple(Repair(**repair) for repair in found)
    except TypeError as error:
        raise ValueError("lack something, or have too much") from error
    if all(type(getattr(one, name)) is kind for one in repairs for name, kind in _KINDS.items()):
        return repairs
    raise ValueError("have something that is not of its kind")


def _somebody() -> str:
    try:
        name = getpass.getuser()
    except (OSError, KeyError):  # a user without an entry, as in many containers
        name = f"uid {os.getuid()}"
    return f"{name}@{socket.gethostname()}"
