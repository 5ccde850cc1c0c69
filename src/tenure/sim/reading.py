"""How checkers read a history: each says which kinds of entries it reads, and is shown those and no others."""

from collections.abc import Callable
from typing import NamedTuple

from tenure.sim.history import History, Kind
from tenure.sim.plan import Plan

Finding = tuple[int, str] | None
"""When a promise was broken and how, or None."""


class Checker(NamedTuple):
    """A function from a history to what is wrong with it."""

    kinds: frozenset[Kind]
    find: Callable[[History, Plan], Finding]

    def __call__(self, history: History, plan: Plan) -> Finding:
        return self.find(history, plan)


def reads(*kinds: Kind) -> Callable[[Callable[[History, Plan], Finding]], Checker]:
    """Return a decorator that makes a Checker of a function."""
    return lambda find: Checker(frozenset(kinds), find)
