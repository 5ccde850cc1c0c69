"""Where inside a folder a path leads, reached step by step so that nothing on the way can lead out of it.

Every folder on the way is opened relative to the one before, and symbolic links are not followed: not even one that
somebody puts there between the check and the write leads anywhere else.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tenure.errors import ConfigError

OWN = ".tenure"  # The folder in which the fences are kept; no path may lead there.

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
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


def parts_of(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the names on the way. Raises ConfigError for a path that could lead out of the folder."""
    text = os.fspath(path)
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


@contextmanager
def place(root: int, parts: tuple[str, ...]) -> Iterator[Place]:
    """Open the folder that the last of ``parts`` is in. Raises ConfigError if one of the others is not a folder."""
    opened: list[int] = []
    try:
        here = root
        for part in parts[:-1]:
            try:
                here = os.open(part, _FOLDER, dir_fd=here)
            except OSError as error:
                if error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
                    raise
                raise ConfigError(
                    "path", "/".join(parts), f"{part} must be a folder that exists, and no link"
                ) from error
            opened.append(here)
        yield Place(here, parts[-1])
    finally:
        for folder in opened:
            os.close(folder)
