"""What listens to facts. Every hook is called on the office's thread: it must be quick and must not raise."""

import logging
from typing import Final

from tenure.core.effects import Elected, Fact, Left, Overstayed

_LOG: Final = logging.getLogger("tenure")


def log_fact(fact: Fact) -> None:
    """Write a fact to the log ``tenure``: an overstay as a warning, the rest as information."""
    match fact:
        case Elected(token):
            _LOG.info("elected: tenure %d begins", token)
        case Left(token, reason):
            _LOG.info("left: tenure %d is over: %s", token, reason.value)
        case Overstayed(token, late_by_ns):
            _LOG.warning(
                "overstay: the body of tenure %d still runs %.3f s after its validity ended", token, late_by_ns / 1e9
            )
