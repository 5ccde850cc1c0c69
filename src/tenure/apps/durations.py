"""Durations as people write them, in files and on the command line."""

import re
from typing import Final

from tenure.errors import ConfigError

_DURATION_MAX_S: Final = 10**9  # Some thirty years: beyond this somebody has slipped on a key.
_NUMBER: Final = r"([0-9]+(?:\.[0-9]+)?)"
_PLAIN: Final = re.compile(_NUMBER)
_PARTS: Final = re.compile(f"(?:{_NUMBER}d)?(?:{_NUMBER}h)?(?:{_NUMBER}m(?!s))?(?:{_NUMBER}s)?(?:{_NUMBER}ms)?")
_PART_S: Final = (86_400, 3600, 60, 1, 0.001)
_DURATION_RULE: Final = f"must be a duration such as 500ms, 30s, 1m30s or 8 (seconds), from 0 to {_DURATION_MAX_S} s"


def duration_s(setting: str, value: object) -> float:
    """Return a duration as people write it in seconds; ``setting`` names it in the error."""
    seconds = -1.0
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value
    elif isinstance(value, str):
        text = value.strip()
        if _PLAIN.fullmatch(text):
            seconds = float(text)
        elif text and (parts := _PARTS.fullmatch(text)):
            seconds = sum(float(part or 0) * part_s for part, part_s in zip(parts.groups(), _PART_S, strict=True))
    if not 0 <= seconds <= _DURATION_MAX_S:
        raise ConfigError(setting, str(value)[:40], _DURATION_RULE)
    return float(seconds)
