"""The fences of a folder alone, for whoever has something else than files to fence."""

import os

from tenure.model import Token
from tenure.model import token as checked
from tenure.sinks.files.folder import WAIT_S, Folder


class FileMark:
    """Marks in a folder of a local disk, without a database. Survives a restart and kill -9.

    Several processes of one machine may share the folder. A known token costs a read; only a new one is written.
    """

    blocks = True

    def __init__(self, folder: str | os.PathLike[str], *, wait_s: float = WAIT_S) -> None:
        path = os.fspath(folder)
        self._folder = Folder(path, f"file mark {path}", wait_s)
        self._kept: dict[
            str, Token
        ] = {}  # What is known to be on the disk: whoever raised it may have been killed before.

    def __repr__(self) -> str:
        return f"<{self._folder.name}>"

    def admit(self, fence: str, token: Token, *, known_only: bool = False) -> None:
        """Raise the mark to ``token`` (see ``Mark.admit``)."""
        if self._kept.get(fence) == checked(token) and self._folder.stands_at(fence, token):
            return
        self._folder.seal(fence, token, known_only=known_only)
        self._kept[fence] = token
