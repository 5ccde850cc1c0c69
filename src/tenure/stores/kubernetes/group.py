"""Leases that are renewed together, some at once: each by a request of its own, so that each may fail by itself."""

import asyncio
from typing import Final, Protocol

from tenure.clients.kubernetes.client import AT_ONCE
from tenure.errors import Unreachable
from tenure.model import Bid, Ended, Grant
from tenure.stores.base import No, Ok, Roll, Unknown, outcome_of
from tenure.stores.groups import Listing

# All of it must be over before the holders look after themselves, so that who was renewed hears of it. The others ask again.
_ROUND_PART: Final = 0.9
# What a ttl leaves for it, to whoever does not say how long to wait.
_ROUNDS_PER_TTL: Final = 6
# The last that is sent has this part of it for its answer: one that has no time for it would be a connection lost for nothing.
_ANSWER_PART: Final = 0.1


class Renewable(Protocol):
    """A store of which each tenure is renewed by itself."""

    @property
    def address(self) -> str:
        """What it is called."""
        ...

    async def renew_by(self, grant: Grant, until_s: float) -> Grant | Ended:
        """Renew one tenure by this time of the event loop."""
        ...

    def resign_asked(self, grant: Grant) -> bool:
        """Say whether its last renewal found a word that asks it to leave."""
        ...


class LeaseGroup(Listing):
    """Tenures that are renewed together, again and again."""

    def __init__(self, store: Renewable, within_ns: int) -> None:
        super().__init__()
        self._store, self._lasts_s = store, _ROUND_PART * within_ns / 1e9

    async def renew(self) -> Roll:
        grants = list(self._grants.values())
        if not grants:
            return Roll(frozenset(), ())
        renewal = _Renewal(self._store, grants, self._lasts_s)
        await renewal.run()
        asked = tuple(grant for grant in grants if self._store.resign_asked(grant))
        return Roll(renewal.ended, asked, renewal.missed)


async def renewed_together(store: Renewable, grants: list[Grant]) -> list[Grant | Ended]:
    """Renew each, and return the answers in the same order. Raises what has gone wrong with the first that was missed."""
    group = LeaseGroup(store, min((grant.bid.ttl_ns for grant in grants), default=0) // _ROUNDS_PER_TTL)
    for grant in grants:
        group.add(grant)
    roll = await group.renew()
    for missed in roll.missed.values():
        raise missed.error
    return [Ended(grant.bid, grant.token) if grant.bid in roll.ended else grant for grant in grants]


class _Renewal:
    """One renewal of all of them."""

    def __init__(self, store: Renewable, grants: list[Grant], lasts_s: float) -> None:
        self._store, self._count = store, len(grants)
        self._left = iter(grants)
        self._until_s = asyncio.get_running_loop().time() + lasts_s
        self._send_until_s = self._until_s - _ANSWER_PART * lasts_s
        self.ended: set[Bid] = set()
        self.missed: dict[Bid, No | Unknown] = {}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(AT_ONCE, self._count)):
                tasks.create_task(self._work())

    async def _work(self) -> None:
        """Renew one after the other, while there is time and somebody who was not renewed."""
        clock = asyncio.get_running_loop().time
        for grant in self._left:
            if clock() >= self._send_until_s:
                late = Unreachable(self._store.address, "renew", "too many renewals were before this one")
                self.missed[grant.bid] = No(late)
                continue
            outcome = await outcome_of(self._store.renew_by(grant, self._until_s))
            if not isinstance(outcome, Ok):
                self.missed[grant.bid] = outcome
            elif isinstance(outcome.value, Ended):
                self.ended.add(grant.bid)
