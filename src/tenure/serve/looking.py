"""What the sidecar has last seen of all elections: one request to the engine for however many people look.

Nothing is decided by it. Whoever is shown it is told how old it is.
"""

import asyncio
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from heapq import nlargest
from typing import TYPE_CHECKING, Final

from tenure.clock import Clock
from tenure.errors import OutcomeUnknown, StoreError
from tenure.office.opened import OpenStore, run_there
from tenure.stores.base import CanList, ElectionStatus, Store

if TYPE_CHECKING:
    from tenure.model import Holder

LOOK_EVERY_S: Final = 1.0
_WITHIN_S: Final = 5.0  # An engine that has not answered in five seconds will not.
# A look at ten thousand elections may take the engine, and the thread that renews, half a second. It gets nine times as
# much rest.
_REST: Final = 9
_NEAR_MAX: Final = 5
# Comparing a name with ten thousand takes 0.2 s, in which nobody is answered, and probes are not limited: a load balancer that was
# given a wrong name would be enough. So it is compared with those that begin and end like it, and so many names between two looks.
_COMPARED_MAX: Final = 200
_NEAR_PER_LOOK: Final = 5


class View:
    """What was last seen: read by everybody on the loop of the server, written by ``Looker``."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.statuses: dict[str, ElectionStatus] = {}
        self._at_ns: int | None = None
        self._near: dict[str, list[str]] = {}  # what was worked out since the last look
        self.trouble = "has not been asked yet"  # "": its last answer was a good one

    @property
    def age_s(self) -> float | None:
        """How old what was last seen is; None: nothing was seen yet."""
        return None if self._at_ns is None else round((self._clock.now() - self._at_ns) / 1e9, 3)

    def saw(self, statuses: Iterable[ElectionStatus]) -> None:
        """Take note of what the engine said."""
        self.statuses = {status.election: status for status in statuses if _is_text(status)}
        self._at_ns, self.trouble = self._clock.now(), ""
        self._near.clear()

    def near(self, name: str, also: Iterable[str] = ()) -> list[str]:
        """Return the names that somebody who wrote ``name`` may have meant; none, if that was asked of too many lately."""
        if name not in self._near and len(self._near) < _NEAR_PER_LOOK:
            known = {*self.statuses, *also}
            if len(known) > _COMPARED_MAX:
                known = set(nlargest(_COMPARED_MAX, known, key=lambda one: _alike(one, name)))
            self._near[name] = get_close_matches(name, known, n=_NEAR_MAX, cutoff=0.5)
        return self._near.get(name, [])


class Looker:
    """Looks once in a while, for as long as it runs."""

    def __init__(
        self, store: OpenStore, view: View, ours: Callable[[], Iterable[str]], told: Callable[[], object]
    ) -> None:
        """``ours`` are the elections to ask for if the store cannot list its own; ``told`` is called after every look."""
        self._store, self._view, self._ours, self._told = store, view, ours, told

    async def run(self) -> None:
        """Look, until cancelled."""
        clock = self._store.office.clock
        while True:
            begun = clock.now()
            await self.look()
            took_s = (clock.now() - begun) / 1e9
            await asyncio.sleep(max(LOOK_EVERY_S, _REST * took_s))

    async def look(self) -> None:
        """Look once."""
        try:
            self._view.saw(await self._ask())
        except StoreError as error:
            self._view.trouble = str(error)
        self._told()

    async def _ask(self) -> list[ElectionStatus]:
        store = self._store.store
        try:
            async with asyncio.timeout(_WITHIN_S):
                found: list[ElectionStatus] = await run_there(self._store.office, _listed(store, tuple(self._ours())))
        except TimeoutError:
            raise OutcomeUnknown(store.address, "elections", f"no answer within {_WITHIN_S:g} s") from None
        return found


async def _listed(store: Store, ours: Iterable[str]) -> list[ElectionStatus]:
    if isinstance(store, CanList):
        return await store.elections()
    return [ElectionStatus(name, await store.read(name), None, None, resign_asked=False, standbys=()) for name in ours]


def _alike(one: str, other: str) -> int:
    """Return how many letters two names have in common at their beginnings and ends."""
    first = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))
    last = next((at for at, (a, b) in enumerate(zip(one[::-1], other[::-1], strict=False)) if a != b), len(one))
    return first + last


def _is_text(status: ElectionStatus) -> bool:
    """Say whether this can be shown. A file may hold anything where a name should be, if somebody wrote to it by hand."""
    holders: list[Holder] = [*status.standbys]
    texts: list[object] = [status.election]
    if status.incumbent is not None:
        holders.append(status.incumbent.holder)
        texts.append(status.incumbent.advertised)
    texts += [text for holder in holders for text in (holder.host, holder.nonce)]
    return all(isinstance(text, str) for text in texts)
