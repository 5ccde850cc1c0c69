"""Where inside a folder a path leads, reached step by step so that nothing on the way can lead out of it.

Every folder on the way is opened relative to the one before, and symbolic links are not followed: not even one that
somebody puts there between the check and the write leads anywhere else.
"""

import errno
import os
import stat
from functools import lru_cache
from typing import NamedTuple

from tenure.errors import ConfigError

OWN = ".tenure"  # The folder in which the fences are kept; no path may lead there.

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PATHS_MAX = 256
_RULE = "must be relative to the folder, and stay below it"


class Place(NamedTuple):
    """A file by the folder that it is in, open, and its name there."""

    folder: int
    name: str

    def found(self) -> os.stat_result | None:
        """Return what is there, or None. Raises ConfigError for a link, a folder and whatever else is not a file."""
        try:
            status = os.lstat(self.name, dir_fd=self.folder)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError("path", self.name, "must be a file: links are not followed, and folders not replaced")
        return status


@lru_cache(_PATHS_MAX)
def parts_of(text: str) -> tuple[str, ...]:
    """Return the names on the way. Raises ConfigError for a path that could lead out of the folder."""
    parts = tuple(part for part in text.split("/") if part not in {"", "."})
    if not parts or text.startswith("/") or text.endswith("/") or ".." in parts or "\0" in text:
        raise ConfigError("path", repr(text), _RULE)
    if any(part.casefold() == OWN for part in parts):  # Below as well: a folder in this one may have fences of its own.
        raise ConfigError("path", repr(text), f"must not lie in {OWN}, where the fences are")
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        raise ConfigError("path", ascii(text), "must be a name that a file can have") from error
    return parts


class Way:
    """The way to a file: ``with Way(root, parts) as place``. Raises ConfigError if what the last part is in is not a folder."""

    __slots__ = ("_opened", "_parts", "_root")

    def __init__(self, root: int, parts: tuple[str, ...]) -> None:
        self._root, self._parts = root, parts
        self._opened: list[int] = []

    def __enter__(self) -> Place:
        here, parts = self._root, self._parts
        for part in parts[:-1]:
            try:
                here = os.open(part, _FOLDER, dir_fd=here)
            except OSError as error:
                self.__exit__()
                if error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
                    raise
                raise ConfigError(
                    "path", "/".join(parts), f"{part} must be a folder that exists, and no link"
                ) from error
            self._opened.append(here)
        return Place(here, parts[-1])

    def __exit__(self, *_: object) -> None:
        for folder in self._opened:
            os.close(folder)
