"""What the fences of stores of keys have in common: where the record of repairs is, and how it is written."""

import json
from dataclasses import asdict

from tenure.errors import Refused
from tenure.sinks.repairing import Repair, repairs_in


def repairs_key(fences: str) -> str:
    """Return the key of the record: not below the prefix of the fences, so that leaders need no right to it."""
    return fences.rstrip(":/.-_ ") + "-repairs"


def digits_to(token: int) -> str:
    """Return a fence as it is written when it is lowered, which may be to 0: nobody was ever there."""
    return f"{token:020d}"


def as_text(repair: Repair) -> str:
    """Return one repair as it is recorded."""
    return json.dumps(asdict(repair))


def repairs_from(text: bytes, key: str, address: str) -> tuple[Repair, ...]:
    """Return the repairs that a list of JSON has. Raises Refused for what somebody edited."""
    try:
        return repairs_in(json.loads(text or b"[]"))
    except (ValueError, RecursionError) as error:
        raise Refused(address, "read", f"{key} was edited, and its repairs cannot be read: {error}") from error
