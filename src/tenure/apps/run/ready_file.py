"""A file that is there exactly while this process leads and its command runs.

The file that is shown is a second name of one that is hidden beside it. The supervisor makes the hidden one, and holds a lock
on it, so no two supervisors share a path. The guardian gives and takes the name that is shown: it alone knows, at the instant
of doing so, that the time is not up, also if the supervisor was frozen a moment ago.
"""

import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from tenure.errors import ConfigError

_OPTION: Final = "--ready-file"


class ReadyFile:
    """One path, for as long as it is open."""

    def __init__(self, path: Path) -> None:
        self.shown = Path(os.path.abspath(path))  # noqa: PTH100  (resolve would follow a link that stands there)
        self.hidden = self.shown.with_name(f".{self.shown.name}.tenure")
        self._lock: int | None = None

    def open(self) -> None:
        """Make sure that the file can be shown, and is not. Raises ConfigError, and then nothing has changed."""
        self._check_shown()
        try:
            self._lock = self._locked()
            trial = self.hidden.with_name(f"{self.hidden.name}.trial")
            trial.unlink(missing_ok=True)
            trial.hardlink_to(self.hidden)  # Some file systems have no second names: better to hear of it now.
            trial.unlink()
            self.shown.unlink(missing_ok=True)  # of one that was killed together with its guardian
        except BlockingIOError:
            raise ConfigError(_OPTION, self.shown, "is another supervisor's: give each a path of its own") from None
        except OSError as error:
            self._let_go()  # and leave what is shown alone: it may be anybody's
            raise ConfigError(_OPTION, self.shown, f"cannot be made there: {error.strerror}") from None

    @property
    def is_shown(self) -> bool:
        with suppress(OSError):
            return self.shown.samefile(self.hidden)
        return False

    def hide(self) -> None:
        """Take the name away, whoever gave it, if the path is ours at all."""
        if self._lock is not None:
            with suppress(OSError):
                self.shown.unlink()

    def close(self) -> None:
        """Leave nothing behind of what is ours."""
        self.hide()
        self._let_go()

    def _check_shown(self) -> None:
        try:
            found = self.shown.lstat()
        except OSError:
            return  # Nothing is there; or the folder is not, and that is told when the hidden one is made.
        if not stat.S_ISREG(found.st_mode) or found.st_size:
            rule = "is there already, and is no empty file that could be an earlier one of ours: give another path"
            raise ConfigError(_OPTION, self.shown, rule)

    def _locked(self) -> int:
        while True:
            lock = os.open(self.hidden, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with suppress(FileNotFoundError):
                    if os.path.samestat(self.hidden.stat(), os.fstat(lock)):
                        return lock
            except OSError:
                os.close(lock)
                raise
            os.close(lock)  # Another one has left, and taken it away, between our opening and our locking.

    def _let_go(self) -> None:
        if self._lock is not None:
            with suppress(OSError):
                self.hidden.unlink()
            os.close(self._lock)
            self._lock = None
