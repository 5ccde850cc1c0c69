"""The history of an election, as it is read: what was recorded, and who is in office now."""

import asyncio
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tenure.apps.history.places import OnDisk, key_of
from tenure.apps.history.records import Log, loaded
from tenure.apps.history.told import TenureRecord, host_of, told
from tenure.model import Incumbent
from tenure.office.names import check_name
from tenure.office.opened import OpenStore, run_there
from tenure.office.thread import Office
from tenure.office.updating import read
from tenure.stores.base import CanKeepDocuments, Store, Traits

_LOOKS_MAX: Final = 3  # Who changes hands faster than this is looked at in vain.
_SAY_WITHIN_S: Final = 0.25  # A write takes a hundredth of a second in most engines.


@dataclass(frozen=True, slots=True)
class History:
    """The tenures of one election that are known, the first first."""

    election: str
    tenures: Sequence[TenureRecord]
    incumbent: Incumbent | None  # who is in office, as the store says; it need not be one who keeps a history
    at_s: float  # when this was read
    traits: Traits
    folder: str | None  # where on this machine it is kept; None: in the store, for all machines


async def read_history(store: OpenStore | Store, election: str) -> list[TenureRecord]:
    """Return the tenures of an election that are known, the first first. Raises StoreError and ConfigError."""
    return list((await look(store, election)).tenures)


async def look(store: OpenStore | Store, election: str) -> History:
    """Return the history of an election, with where it is kept and who is in office."""
    office = store.office if isinstance(store, OpenStore) else Office.of_this_process()
    engine = store.store if isinstance(store, OpenStore) else store
    return concluded(engine, await run_there(office, ask(engine, election)))


@dataclass(frozen=True, slots=True)
class Answer:
    """What a store says of an election."""

    election: str
    log: Log | None  # None: it keeps none
    incumbent: Incumbent | None

    @property
    def silent(self) -> tuple[int, str] | None:
        """Which tenure is not in office any more and has not said how it ended; None: there is none."""
        last = self.log[-1] if self.log else None
        if last is None or last.ended_s is not None:
            return None
        return None if self.incumbent is not None and self.incumbent.token == last.token else last.key


async def ask(store: Store, election: str) -> Answer:
    """Ask the store, on the office's loop."""
    check_name(election)
    if not isinstance(store, CanKeepDocuments):
        return Answer(election, None, await store.read(election))
    answer = await _look(store, election)
    for _ in range(_LOOKS_MAX):
        silent = answer.silent
        if silent is None:
            break
        # It may have just left: who does says so a moment after the office is free. Both are asked for again then. Another may
        # have come meanwhile, of whom the store had said nothing yet, and who has not vanished.
        await asyncio.sleep(_SAY_WITHIN_S)
        answer = await _look(store, election)
        if answer.silent == silent:
            break
    return answer


async def _look(store: Store, election: str) -> Answer:
    log = await _log(store, election)
    return Answer(election, log, await store.read(election))


async def _log(store: Store, election: str) -> Log:
    found = await read(store, key_of(election))
    return loaded(election, None if found is None else found.value)


def concluded(store: Store, answer: Answer) -> History:
    """Return what follows from a store's answer. Reads a file of this machine if the store keeps no documents."""
    log, folder, now_s = answer.log, None, time.time()
    if log is None:
        on_disk = OnDisk(store.identity)
        log, folder = on_disk.read(answer.election), on_disk.address
    here = socket.gethostname()
    is_here = all(host_of(record.holder) == here for record in log[-1:])
    tenures = told(answer.election, log, store.traits, answer.incumbent, now_s, is_here=is_here)
    return History(answer.election, tuple(tenures), answer.incumbent, now_s, store.traits, folder)
