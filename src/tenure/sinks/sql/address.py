"""How a sink is called in errors and logs: by the address of its server, without whatever may be secret."""

import re
from typing import Final

_HOST = r"(?:\[[0-9a-fA-F:.]+\]|[\w.-]*)(?::\d+)?"
_PLACE: Final = re.compile(rf"{_HOST}(?:,{_HOST})*(?:/[\w.%-]*)?")
UNREADABLE: Final = (
    "the address cannot be read: write what is special in its user and its password as %23, %2F, %3F, %40"
)


def address_of(kind: str, url: str) -> str:
    """Return a name for what a URL, or a DSN of any other form, leads to."""
    scheme, mark, rest = url.partition("://")
    # A password may hold anything, and goes on to the last @ before the host.
    place = rest.rpartition("@")[2].partition("?")[0]
    # An @ behind a ? is in a password or in an option, and who can say. What does not look like a place may be a secret.
    is_plain = "?" not in rest.rpartition("@")[0] and _PLACE.fullmatch(place)
    return f"{kind} sink {place}" if mark and scheme.isidentifier() and is_plain else f"{kind} sink"
