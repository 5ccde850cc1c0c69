"""Which requests are guarded by which fence. Pure.

A path is guarded if it matches as it came or as a lenient server would read it: doubled slashes, ``.``, ``..`` and a slash
that is missing at the start lead around no guard. Nor does a prefix that the server has: a route counts with it and without.
"""

import posixpath
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

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

    def guards(self, method: str | None, paths: Sequence[str]) -> bool:
        """Whether a request has to present a token; without a method, whether any may have to."""
        if method is not None:
            method = method.upper()  # As frameworks do, though HTTP does not.
            if method in SAFE_METHODS if self.methods is None else method not in self.methods:
                return False
        return any(_lies_below(self.path, path) for path in paths)

    def accepts(self, fence: str) -> bool:
        """Whether a token of this fence is of any worth here."""
        return fence == self.fence if isinstance(self.fence, str) else bool(self.fence(fence))


class TwoRoutes(Exception):
    """A path means one route as it came and another one as a lenient server reads it: nobody can say which fence counts."""


class Paths(NamedTuple):
    """All that a path may be called: as it came, and as a lenient server reads it."""

    came: tuple[str, ...]
    tidy: tuple[str, ...]


def paths_of(prefix: str, path: str) -> Paths:
    """Return all that a path may be called, where the server has a prefix that may be part of it or not."""
    came = _with_and_without(prefix.rstrip("/"), path)
    tidy = tuple(map(_tidy, came))
    if tidy == came:
        return Paths(came, came)
    # A prefix that is found only once a path is tidy is removed as well: /./svc/bills, where the prefix is /svc.
    return Paths(came, (*tidy, *map(_tidy, _with_and_without(_tidy(prefix).rstrip("/"), tidy[0]))))


def _with_and_without(prefix: str, path: str) -> tuple[str, ...]:
    return (path, f"{prefix}/{path.lstrip('/')}", path.removeprefix(prefix)) if prefix else (path,)


def route_of(routes: Sequence[Route], method: str | None, paths: Paths) -> Route | None:
    """Return the first route that guards a request, or None if it may pass without a token. Raises TwoRoutes."""
    found = _first(routes, method, paths.came)
    if paths.tidy == paths.came:
        return found
    other = _first(routes, method, paths.tidy)
    if found is not None and other is not None and found is not other:
        raise TwoRoutes
    return found or other


def _first(routes: Sequence[Route], method: str | None, paths: Sequence[str]) -> Route | None:
    return next((route for route in routes if route.guards(method, paths)), None)


def _lies_below(folder: str, path: str) -> bool:
    folder = folder.rstrip("/")
    return path == folder or path.startswith(f"{folder}/")


def _tidy(path: str) -> str:
    is_tidy = path.startswith("/") and "//" not in path and "/." not in path
    return path if is_tidy else posixpath.normpath(f"/{path.lstrip('/')}")
