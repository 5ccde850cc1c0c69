"""The environment of a user who has settled nothing yet, whatever is settled where the tests run."""

import os
from pathlib import Path

# The build server wants no colours in its log and says so by NO_COLOR: a test of a terminal would see what it was told,
# not what a user sees.
_SETTLED = ("TENURE_", "XDG_", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")


def at_home(folder: Path, **variables: str) -> dict[str, str]:
    """The environment of a user who lives in ``folder``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_SETTLED)}
    return kept | {"HOME": str(folder)} | variables
