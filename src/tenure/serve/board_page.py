"""The files of the page, and what a browser is told with them. Whoever serves them answers exactly this.

Nothing comes from anywhere else, and nothing that is not a file of ours is run: election names are written by strangers, and a
page that can resign leaders must not run what they wrote.
"""

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Final

INDEX: Final = "index.html"
_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
}
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Asked again each time: a page of an old release beside a board of a new one would show rubbish at 3 a.m.
    "Cache-Control": "no-cache",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of the page."""

    body: bytes
    content_type: str

    @property
    def headers(self) -> dict[str, str]:
        """All that it is answered with."""
        return {**HEADERS, "Content-Type": self.content_type}


@lru_cache(maxsize=64)
def _read(name: str) -> Asset:
    kind = _TYPES[name.rpartition(".")[2]]
    return Asset((files("tenure.serve") / "page" / name).read_bytes(), kind)


@lru_cache(maxsize=1)
def names() -> frozenset[str]:
    """Every file that there is. Whatever else is asked for is not found, whichever way it is spelled."""
    found = (files("tenure.serve") / "page").iterdir()
    return frozenset(path.name for path in found if path.name.rpartition(".")[2] in _TYPES)


def asset(name: str) -> Asset | None:
    """Return a file of the page; None: there is none of that name."""
    return _read(name) if name in names() else None
