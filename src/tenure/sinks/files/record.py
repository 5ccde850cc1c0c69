"""What a folder remembers: its fences, the write that is not finished yet, and who lowered a fence. No IO.

The record is one small JSON file that is replaced as a whole, so that it is the old one or the new one. Rule of this file:
whatever somebody may have edited in there is checked, and refused in one line that says what is wrong. A fence that is
read wrong lets everybody in.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from tenure.errors import UnverifiedToken
from tenure.model import TOKEN_MAX, Token
from tenure.sinks.fence import Fence
from tenure.sinks.repairing import Repair, moved, repairs_in

RECORD_MAX_BYTES: Final = 2**20
_FORMAT: Final = 1
_TEMP: Final = re.compile(r"[0-9a-f]{16}-[0-9]{20}-[0-9a-f]{16}")  # Not a path: what is renamed lies beside the record.


class Rubbish(Exception):
    """What the record says cannot be. The text tells what."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A write that counts already, and of which the last step may be missing.

    ``temp`` is to be renamed to ``path``; without it, ``path`` is to be deleted.
    """

    path: str
    temp: str | None


@dataclass(frozen=True, slots=True)
class Record:
    """All that a folder remembers."""

    highest: Mapping[str, int] = field(default_factory=dict)
    pending: Pending | None = None
    repairs: tuple[Repair, ...] = ()

    def admit(self, fence: str, token: Token, *, known_only: bool = False) -> "Record":
        """Return the record after ``token`` has come: this very one if the fence stands there already.

        Raises StaleToken; and with ``known_only`` UnverifiedToken for a token that would raise the fence.
        """
        highest = self.highest.get(fence, 0)
        Fence(highest).admit(token)
        if token == highest:
            return self
        if known_only:
            raise UnverifiedToken(token, highest)
        return replace(self, highest={**self.highest, fence: token})

    def repaired(self, repair: Repair) -> "Record":
        """Return the record with a fence lowered. Raises ConfigError if the fence does not stand where it was said."""
        highest = self.highest.get(repair.fence, 0)
        if highest != repair.was:
            raise moved(repair, highest)
        lowered = {**self.highest, repair.fence: repair.now}
        return replace(self, highest=lowered, repairs=(*self.repairs, repair))


def written(record: Record) -> bytes:
    """Return the record as the file has it."""
    page: dict[str, Any] = {"tenure": _FORMAT, "highest": dict(record.highest)}
    if record.pending is not None:
        page["pending"] = asdict(record.pending)
    if record.repairs:
        page["repairs"] = [asdict(repair) for repair in record.repairs]
    return (json.dumps(page, indent=1) + "\n").encode()


def read(text: bytes) -> Record:
    """Return the record that a file has. Raises Rubbish."""
    if len(text) > RECORD_MAX_BYTES:
        raise Rubbish(f"it has more than {RECORD_MAX_BYTES} bytes")
    try:
        page = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise Rubbish(f"it is not JSON: {error}") from error
    if not isinstance(page, dict) or page.get("tenure") != _FORMAT:
        raise Rubbish(f'it does not say "tenure": {_FORMAT}')
    fences = page.get("highest")
    if not isinstance(fences, dict):
        raise Rubbish('it has no "highest"')
    for fence, highest in fences.items():
        if type(highest) is not int or not 0 <= highest <= TOKEN_MAX:
            raise Rubbish(f"the fence {fence} stands at {str(highest)[:40]!r}, which is no token")
    return Record(fences, _pending(page.get("pending")), _repairs(page.get("repairs", [])))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse what says something twice: which of both is meant, nobody knows."""
    page = dict(pairs)
    if len(page) != len(pairs):
        raise ValueError("a name stands in it twice")
    return page


def _pending(found: object) -> Pending | None:
    match found:
        case None:
            return None
        case {"path": str(path), "temp": None}:
            return Pending(path, None)
        case {"path": str(path), "temp": str(temp)} if _TEMP.fullmatch(temp):
            return Pending(path, temp)
        case _:
            raise Rubbish('its "pending" has no path, or a file that is not of ours')


def _repairs(found: object) -> tuple[Repair, ...]:
    try:
        return repairs_in(found)
    except ValueError as error:
        raise Rubbish(f'its "repairs" {error}') from error
