"""Which requests are guarded by which fence. Pure.

A path is guarded if it matches as it came or as a lenient server would read it: doubled slashes, ``.`` and ``..`` lead
around no guard.
"""

import posixpath
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tenure.errors import ConfigError

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})

FenceRule = str | Callable[[str], bool]
"""The name of the one fence that counts, or a function that says whether a fence of this name does."""


@dataclass(frozen=True, slots=True)
class Route:
    """What lies at ``path`` and below it accepts only the leader whose fence is ``fence``.

    ``methods`` are those that are guarded; by default all but GET, HEAD, OPTIONS and TRACE. Where ``fence`` is a function,
    whoever asks chooses among the fences that it lets pass, each with a mark of its own.
    """

    path: str
    fence: FenceRule
    methods: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if not self.path.startswith("/"):
            raise ConfigError("path", self.path, "must begin with a slash")
        if isinstance(self.fence, str) and not self.fence:
            raise ConfigError("fence", "''", "must have a name")
        if self.methods is not None and any(method != method.upper() for method in self.methods):
            raise ConfigError("methods", sorted(self.methods), "must be in capitals, as HTTP has them")

    def guards(self, method: str, path: str) -> bool:
        """Whether a request has to present a token."""
        guarded = method not in SAFE_METHODS if self.methods is None else method in self.methods
        return guarded and any(_lies_below(self.path, shape) for shape in (path, _tidy(path)))

    def accepts(self, fence: str) -> bool:
        """Whether a token of this fence is of any worth here."""
        return fence == self.fence if isinstance(self.fence, str) else bool(self.fence(fence))


def route_of(routes: Sequence[Route], method: str, path: str) -> Route | None:
    """Return the first route that guards a request, or None if it may pass without a token."""
    return next((route for route in routes if route.guards(method, path)), None)


def _lies_below(folder: str, path: str) -> bool:
    folder = folder.rstrip("/")
    return path == folder or path.startswith(f"{folder}/")


def _tidy(path: str) -> str:
    return posixpath.normpath(f"/{path.lstrip('/')}") if "//" in path or "/." in path else path
