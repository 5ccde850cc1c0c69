"""Exit codes that are ours, and not the command's."""

from typing import Final

NO_STORE: Final = 69  # EX_UNAVAILABLE of sysexits.h
NOT_ELECTED: Final = 75  # EX_TEMPFAIL
LOST: Final = 124  # what timeout(1) says of a command that it had to end
