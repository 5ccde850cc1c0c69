"""A worker: takes orders from whoever leads, and goes on with the last ones while nobody does.

What it knows is in its journal, so it needs neither the leader nor the store to go on, nor to begin again after a crash.
"""

import logging
import os
import sqlite3
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Final, NamedTuple

import anyio
from anyio import to_thread

from tenure.apps.control.journal import Connect, Journal, Key, Limits
from tenure.apps.control.order import AcceptedOrder, Delivery, Receipt
from tenure.clock import BootClock, Clock
from tenure.errors import StoreError, UnverifiedToken, redact
from tenure.model import Token
from tenure.model import token as checked
from tenure.office.mailbox import LoopMailbox
from tenure.sinks.base import Bound, Verify
from tenure.sinks.refusals import Refusals
from tenure.sinks.verifying import confirmed
from tenure.stores.sqlite.host import this_host

OPEN_ORDERS_MAX: Final = 10_000
REMEMBERED: Final = 100_000  # Names of orders that are over: some ten megabytes.
LOOK_EVERY_S: Final = 1.0  # for what another process has written into the journal
_LOG: Final = logging.getLogger("tenure")


class _Told(NamedTuple):
    """A token and its fence, alone."""

    token: int
    fence: str


class Worker:
    """Orders that outlive the leader that gave them, and the worker that took them.

    ``database`` is the file of the journal, or a function that opens it; ``verify`` confirms a token higher than any seen.
    ``orders_max`` may be in force for each fence, and of those that are over the ids of the last ``remembered`` are kept.

    Promises that nothing older is taken once a newer leader was heard, across restarts and kill -9, that what was acknowledged is
    not forgotten, and that an id which is over is not begun again while it is remembered. Does not promise that an order is
    carried out once: a worker that dies before ``finish`` begins it again. Nor that nobody carries out an old order: whoever is
    cut off goes on with what it was told last, so what it writes needs a fence of its own (``sink.bind(order)``).
    """

    blocks = True  # as a Mark: it writes to a disk

    def __init__(
        self,
        database: str | os.PathLike[str] | Connect,
        *,
        verify: Verify | None = None,
        orders_max: int = OPEN_ORDERS_MAX,
        remembered: int = REMEMBERED,
        clock: Clock | None = None,
    ) -> None:
        self._journal = Journal(database, Limits(orders_max, remembered))
        self._verify, self._clock, self.refused = verify, clock or BootClock(), Refusals(type(self).__name__)
        host = this_host()
        self._clock_name = f"{host.boot_id} {host.time_namespace}"
        self._listeners: list[Callable[[], object]] = []

    def __repr__(self) -> str:
        return f"<{self._journal.name}>"

    def take(self, term: Bound, delivery: Delivery) -> Receipt:
        """Take what was delivered, or nothing of it. It is on disk when this returns. Blocks: for threads.

        Raises StaleToken or UnverifiedToken for a leader that does not count; Refused for a delivery that comes late, for an id
        that was used with another payload, and for more than may be in force; StoreError if the disk would not have it. After
        Refused this leader was heard all the same, and nothing older is taken; after StoreError nobody can say.
        """
        receipt = self._judged(term, lambda known_only: self._take(term, delivery, known_only))
        if receipt.accepted or receipt.withdrawn:
            self._tell()
        return receipt

    def admit(self, fence: str, token: Token, *, known_only: bool = False) -> None:
        """Raise the mark without an order, so that nothing older is taken from now on (see ``Mark``)."""
        self._journal.admit(_Told(checked(token), fence), self._now(), known_only=known_only)

    def orders(self) -> list[AcceptedOrder]:
        """Return what is in force, in the order in which it came. Blocks: for threads."""
        return self.changes(())[1]

    def changes(self, known: Collection[Key]) -> tuple[list[Key], list[AcceptedOrder]]:
        """Return which of ``known`` are no longer in force, and what is and is not among them. Blocks: for threads."""
        in_force = self._journal.keys()
        found = [self._journal.order(key) for key in in_force if key not in known]
        return list(set(known) - set(in_force)), [order for order in found if order is not None]

    def finish(self, order: AcceptedOrder, work: Callable[[sqlite3.Connection], object] | None = None) -> bool:
        """Note, durably, that an order is done; False if it was done or withdrawn before. Blocks: for threads.

        ``work`` may write what came of it to tables of its own in the same file, in the same step: there are both or neither, and
        once. If it is False, ``work`` was not called.
        """
        finished = self._journal.finish(order, work)
        if finished:
            self._tell()
        return finished

    def staleness_s(self) -> Mapping[str, float]:
        """Return for every fence how many seconds ago a leader with a valid token was last heard.

        After a boot nobody can know how long the machine was off: then it is at least this long, the time since the boot.
        """
        now = self._clock.now()
        heard = self._journal.all_heard()
        return {
            fence: (now - (last.at_ns if last.clock == self._clock_name else 0)) / 1e9 for fence, last in heard.items()
        }

    def alone(self) -> AbstractContextManager[None]:
        """Return a context manager in which no other process carries out this journal. Raises ConfigError if one does."""
        return self._journal.alone()

    def close(self) -> None:
        """Close the journal. The worker cannot be used again."""
        self._journal.close()

    @contextmanager
    def listening(self, listener: Callable[[], object]) -> Iterator[None]:
        """Have a function called, in any thread, when other orders are in force, for as long as the block runs."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    def _tell(self) -> None:
        for listener in tuple(self._listeners):
            listener()

    def _take(self, term: Bound, delivery: Delivery, known_only: bool) -> Receipt:
        return self._journal.take(term, delivery, self._now(), known_only=known_only)

    def _judged(self, term: Bound, attempt: Callable[[bool], Receipt]) -> Receipt:
        verify, token = self._verify, checked(term.token)
        with self.refused.counting(term.fence):
            try:
                return attempt(verify is not None)
            except UnverifiedToken:
                # Nothing is locked meanwhile. An ``async`` one gets an event loop of its own in this thread.
                if verify is None or not anyio.run(confirmed, verify, term.fence, token):
                    raise
            return attempt(False)

    def _now(self) -> tuple[str, int]:
        return self._clock_name, self._clock.now()


async def carry_out(
    worker: Worker, execute: Callable[[AcceptedOrder], Awaitable[object]], *, at_once: int = OPEN_ORDERS_MAX
) -> None:
    """Carry out what is in force, for ever, whether or not there is a leader: one task for each order.

    At most ``at_once`` are carried out at the same time, and others wait for one that is done. An order is done when ``execute`` returns; one that never returns is carried out until it is withdrawn, and then cancelled.
    After a restart whatever was not done is begun again. One process does: a second one gets ConfigError. What ``execute`` raises ends
    this, as one exception of a group, and the order stays in force.
    """
    mail: LoopMailbox[None] = LoopMailbox()
    running: dict[Key, anyio.CancelScope] = {}
    room = anyio.CapacityLimiter(at_once)

    async def run(order: AcceptedOrder, scope: anyio.CancelScope) -> None:
        with scope:
            async with room:
                await execute(order)
                await _finish(worker, order)

    with worker.alone(), worker.listening(lambda: mail.put(None)):
        async with anyio.create_task_group() as tasks:
            while True:
                for order in await _changes(worker, running):
                    scope = running[Key(order.fence, order.id)] = anyio.CancelScope()
                    tasks.start_soon(run, order, scope)
                with anyio.move_on_after(LOOK_EVERY_S):
                    await mail.get()
                mail.letters.clear()


async def _changes(worker: Worker, running: dict[Key, anyio.CancelScope]) -> list[AcceptedOrder]:
    """Cancel what is no longer in force, and return what is to be begun."""
    try:
        gone, new = await to_thread.run_sync(worker.changes, frozenset(running))
    except StoreError as error:
        # A disk that cannot be read is no reason to stop what is being done.
        _LOG.warning("%r goes on with what it knows: %s", worker, redact(str(error)))
        return []
    for key in gone:
        running.pop(key).cancel()
    return new


async def _finish(worker: Worker, order: AcceptedOrder) -> None:
    while True:
        try:
            await to_thread.run_sync(worker.finish, order)
        except StoreError as error:  # It is done, and must not be begun again: say so until the disk has it.
            _LOG.warning("%r cannot note that %r is done: %s", worker, order.id, redact(str(error)))
            await anyio.sleep(LOOK_EVERY_S)
        else:
            return
