"""Where every random number of a simulation comes from: one seed, the same numbers on every machine.

Only ``Random.random()`` is used, whose sequence Python keeps for ever, and only arithmetic that every machine rounds
alike (no logarithm: libraries differ in its last bit).
"""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Chance:
    """A stream of draws. ``lot`` is a number in [0, 1)."""

    __slots__ = ("lot",)

    def __init__(self, seed: int) -> None:
        self.lot = Random(seed).random

    def hit(self, share: float) -> bool:
        """Return True in ``share`` of all cases."""
        return self.lot() < share

    def between(self, low: int, high: int) -> int:
        """Return a whole number from ``low`` to ``high``, both included."""
        return low + int(self.lot() * (high - low + 1))

    def pick(self, choices: Sequence[T]) -> T:
        """Return one of ``choices``."""
        return choices[int(self.lot() * len(choices))]
