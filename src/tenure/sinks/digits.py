"""How a fence is written down where it is a text of its own: the highest token seen, as twenty digits."""

from typing import Final

from tenure.errors import Refused
from tenure.model import token as checked

_DIGITS: Final = 20
_SHOWN_MAX: Final = 40


def digits_of(token: int) -> str:
    """Return a token as a fence has it. Raises ConfigError for what cannot be one."""
    return f"{checked(token):0{_DIGITS}d}"


def number_in(value: bytes, fence: str, address: str) -> int:
    """Return the number that a fence has, in whatever spelling somebody has mended it.

    Raises Refused for anything else: ``-5``, which Python would read, would let everybody in.
    """
    text = value.strip()
    if text.isdigit() and len(text) <= _DIGITS:
        return int(text)
    shown = value[:_SHOWN_MAX].decode("utf-8", "replace")
    raise Refused(address, "seal", f"the fence {fence} has {shown!r} where a number must be: mend it")
