"""Servers that refuse to run as root: where the harness is root, they are given to a user who may do nothing else."""

import os
import shutil
from pathlib import Path

_NOBODY = 65534


def as_nobody() -> list[str]:
    """What a command begins with that must not run as root; nothing if we are somebody else already."""
    if os.geteuid() != 0:
        return []
    # Who changes the user loses the order to die with its parent, which the keeper has given.
    return ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", "--pdeathsig=KILL", "--"]


def reachable() -> Path | None:
    """A folder that such a server can find its way into; None: the usual one for temporary files will do."""
    return Path("/tmp") if os.geteuid() == 0 else None  # noqa: S108  (what is made there has a name that nobody can guess)


def hand_over(path: Path) -> None:
    """Let such a server have this file or folder, and pass through the folder that it is in."""
    if os.geteuid() == 0:
        shutil.chown(path, _NOBODY, _NOBODY)
        path.parent.chmod(path.parent.stat().st_mode | 0o011)
