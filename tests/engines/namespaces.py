"""The network namespaces of this machine, while tests that run beside this one make and remove their own.

A name is given out again as soon as it is free, so whether a namespace is still there is not told by its name. Its inode
tells, for as long as somebody has it open: until then no other one is given that number.
"""

from collections.abc import Iterator
from pathlib import Path

NAMED = Path("/run/netns")


def inodes() -> Iterator[int]:
    """The namespaces that have a name."""
    for path in NAMED.iterdir():
        try:
            yield path.stat().st_ino
        except FileNotFoundError:  # Another test has just removed it.
            continue
