"""All candidacies that are held for clients, by their ids."""

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Final

from tenure.clock import Clock
from tenure.election import Election
from tenure.errors import Reason
from tenure.lock import Lock
from tenure.serve.answers import Fault, busy, leaving
from tenure.serve.candidacy import SHUTDOWN, Candidacy
from tenure.serve.crowd import CANDIDACIES_MAX, FILES
from tenure.serve.offices import Offices

_RECORDED_MAX: Final = 1000  # Each has a history of its own in the store, and clients choose the names.
# How long one that is over can be asked about: a client that was away for longer has lost it, and knows that by its clock.
_REMEMBERED_S: Final = 60.0
_REMEMBERED_MAX: Final = 1000


class Register:
    """Who stands for whom. Used on the loop of the server."""

    def __init__(self, clock: Clock) -> None:
        self.offices = Offices()
        self._clock = clock
        self.most = CANDIDACIES_MAX  # less, where the system has fewer files: the streams of all must find room
        self._known: dict[str, Candidacy] = {}
        self._over: dict[str, int] = {}  # when to forget, in the order in which that comes
        self._closed = False
        # Elections that clients have stood in, locks aside: their tenures are recorded. Read on other threads, and only added to.
        self.stood_in: set[str] = set()

    def begin(self, standing: Election | Lock, keep_s: float, wait_s: float | None = None) -> Candidacy:
        """Stand for a client. Raises Fault if there is no room for one more."""
        self._forget()
        if self._closed:
            raise leaving()
        if len(self._known) - len(self._over) >= self.most:
            raise self._full()
        if isinstance(standing, Election) and len(self.stood_in) < _RECORDED_MAX:
            self.stood_in.add(standing.name)
        one = Candidacy(standing, self.offices, keep_s, wait_s)
        self._known[one.id] = one
        one.begin(lambda: self._over.setdefault(one.id, self._clock.now() + int(_REMEMBERED_S * 1e9)))
        return one

    def get(self, id_: str, kind: str | None = None) -> Candidacy:
        """Return the one with this id, and take note that its client is there. Raises Fault if there is none."""
        self._forget()
        one = self._known.get(id_)
        if one is None or (kind is not None and one.kind != kind):
            detail = "there is no such id here: it ended over a minute ago, or is of a sidecar that was stopped"
            raise Fault(404, "unknown-id", detail, fix="Take the tenure for lost, and stand again.")
        one.alive()
        return one

    def names(self) -> set[str]:
        """Return the elections that somebody stands in here, or did a minute ago: the store may not have been looked at since."""
        return {one.standing.name for one in self._known.values()}

    def clients(self) -> Counter[str]:
        """Return how many stand in each election here: of all at once, as asking for each would look at all for each."""
        return Counter(one.standing.name for one in self._known.values() if not one.over)

    def stands(self, election: str) -> bool:
        """Whether anybody stands or leads there."""
        return any(one.standing.name == election and not one.over for one in self._known.values())

    async def close(self, within_s: float) -> None:
        """Tell every client to stop, and return when all is released; after ``within_s`` without waiting for anybody."""
        self._closed = True
        open_ones = [one for one in self._known.values() if not one.over]
        for one in open_ones:
            one.dismiss(SHUTDOWN)
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                for one in open_ones:
                    await one.released()
        for one in open_ones:
            one.resign(Reason.RESIGNED.value)
        for one in open_ones:  # Bounded by the office: an attempt's time at the most.
            await one.released()

    def _full(self) -> Fault:
        detail, fix = f"{self.most} candidacies are held for clients already", ""
        if self.most < CANDIDACIES_MAX:
            detail += ", and the system's limit on open files leaves room for no more"
            fix = (
                f"Start the sidecar with room for {CANDIDACIES_MAX}: "
                f"ulimit -n {FILES}, or LimitNOFILE={FILES} in its unit of systemd."
            )
        return busy("too-many-candidacies", detail, fix=fix, status=429, retry_after_s=5)

    def _forget(self) -> None:
        now = self._clock.now()
        while self._over:
            id_ = next(iter(self._over))
            if self._over[id_] > now and len(self._over) <= _REMEMBERED_MAX:
                break
            del self._over[id_], self._known[id_]
