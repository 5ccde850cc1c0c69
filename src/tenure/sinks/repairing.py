"""How a fence that was raised by mistake is lowered again, and who did it when and why.

A fence only rises, and that is the whole of its worth: to lower it lets everybody in whose token lies between. So it is
lowered only by somebody who says what it stands at (a fence that has moved since is left alone), and the record of it is
written in the same step as the fence, beside it.
"""

import getpass
import os
import socket
from dataclasses import dataclass
from datetime import UTC, datetime

from tenure.errors import ConfigError
from tenure.model import TOKEN_MAX

_WORDS_MAX = 500


@dataclass(frozen=True, slots=True)
class Repair:
    """One fence that was lowered by hand."""

    fence: str
    was: int
    now: int
    who: str
    when: str
    why: str


def repair_of(fence: str, *, was: int, to: int, why: str, who: str | None = None) -> Repair:
    """Return what is to be done, in the words in which it is recorded. Raises ConfigError for what makes no sense."""
    if not fence or "\0" in fence:
        raise ConfigError("fence", repr(fence), "must have a name, without a NUL in it")
    if not 0 <= to < was <= TOKEN_MAX:
        raise ConfigError("to", to, f"must be lower than {was}, which the fence stands at, and not below 0")
    if not why.strip() or len(why) > _WORDS_MAX:
        raise ConfigError("why", repr(why[:40]), f"must say in up to {_WORDS_MAX} characters why the fence is wrong")
    who = (who or _somebody())[:_WORDS_MAX]
    for name, text in (("fence", fence), ("why", why), ("who", who)):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ConfigError(name, ascii(text[:40]), "must be text that UTF-8 can say") from error
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Repair(fence, was, to, who, now, why.strip())


def moved(repair: Repair, highest: int) -> ConfigError:
    """Return the error of a repair that found the fence elsewhere. Nothing was changed."""
    return ConfigError("was", repair.was, f"must be what the fence stands at, which is {highest}: look again")


def _somebody() -> str:
    try:
        name = getpass.getuser()
    except (OSError, KeyError):  # a user without an entry, as in many containers
        name = f"uid {os.getuid()}"
    return f"{name}@{socket.gethostname()}"
