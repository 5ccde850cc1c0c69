"""Whether a leader that was asked to leave has left: decided here, for whoever waits on a thread or on an event loop."""

from typing import Final

from tenure.errors import StoreError
from tenure.model import Incumbent

LOOK_EVERY_S: Final = 0.1


def has_left(asked: Incumbent, seen: Incumbent | StoreError | None, rest_s: float) -> bool | None:
    """Say so by what the store was last seen to say, with ``rest_s`` left to wait; None: look again.

    A store that fails meanwhile is asked again for as long as there is time, and then its error is raised.
    """
    if not isinstance(seen, StoreError) and (seen is None or seen.token != asked.token):
        return True
    if rest_s > 0:
        return None
    if isinstance(seen, StoreError):
        raise seen
    return False
