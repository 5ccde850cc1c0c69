"""What a candidate of any approach decides, and what it asks for: a machine that performs nothing.

A machine takes what happens, one method each, and returns what is to be done, in that order. ``node`` performs it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from tenure.lab.approaches.cast import HEARTBEAT_NS
from tenure.lab.world import NEVER


class Send(NamedTuple):
    """Tell another node something."""

    target: int
    message: Any


class Lead(NamedTuple):
    """Begin to work. ``token``: the number of this tenure; 0 if the approach has none."""

    token: int


class Stop(NamedTuple):
    """Work no more."""

    why: str


Effect = Send | Lead | Stop


class Machine:
    """One candidate, from one start of its process to the end of it. ``lot`` draws from [0, 1)."""

    __slots__ = ("leading", "life", "lot", "number", "out", "wake_at")

    def __init__(self, number: int, life: int, lot: Callable[[], float]) -> None:
        self.number, self.life, self.lot = number, life, lot
        self.leading = False
        self.wake_at = NEVER
        self.out: list[Effect] = []

    # What an approach says.

    def start(self, now: int) -> None:
        """Begin."""

    def hear(self, source: int, message: Any, now: int) -> None:
        """Take a message of another node."""

    def tick(self, now: int) -> None:
        """Do what was due at ``wake_at``."""

    def refused(self, now: int) -> None:
        """Hear of the sink that somebody newer was there."""

    def worked(self, now: int) -> None:
        """Hear that a task is done: the moment to leave for one who wants to."""

    def may_work(self, now: int) -> bool:  # noqa: ARG002  (one without a lease has no use for the time)
        """Say whether it leads as far as it can know: what a careful body asks before every task."""
        return self.leading

    # What it uses.

    def take_effects(self) -> list[Effect]:
        """Return what is to be done since this was last asked."""
        out, self.out = self.out, []
        return out

    def send(self, target: int, message: Any) -> None:
        self.out.append(Send(target, message))

    def lead(self, token: int = 0) -> None:
        self.leading = True
        self.out.append(Lead(token))

    def stop(self, why: str) -> None:
        if self.leading:
            self.leading = False
            self.out.append(Stop(why))

    def soon(self, now: int) -> int:
        """Return when to ask again: after a heartbeat and up to another one, and not when all others do."""
        return now + HEARTBEAT_NS + int(self.lot() * HEARTBEAT_NS)
