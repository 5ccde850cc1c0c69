"""The thread on which a store's requests are carried out, so that a disk that hangs stops no event loop.

Rules of this file
1. First come, first served: a release that is sent after a claim is carried out after it, also if the claim's task was
   cancelled meanwhile.
2. A request whose task was cancelled before its turn is not carried out. One that is under way is carried out in full.
3. Requests that have gathered are one batch (``session``, rule 2). Nothing waits for a batch to fill.
4. The queue has a limit, past which requests are turned away unsent.
"""

import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from tenure.errors import OutcomeUnknown, TenureError, Unreachable
from tenure.stores.sqlite.faults import fault_of
from tenure.stores.sqlite.reply import Reply, give_all
from tenure.stores.sqlite.session import Request, Session

# A transaction keeps the file locked for others, so it must not grow without bound: 256 renewals take about 5 ms.
_BATCH_MAX = 256
# Four requests for each of a thousand elections. A queue of that length is a disk that does not answer.
_QUEUE_MAX = 4096


class _Job(NamedTuple):
    request: Request
    reply: Reply


class Worker:
    """One thread with one session. ``start`` opens the file; ``stop_soon`` has it closed after what was sent before."""

    def __init__(self, session: Session, join_lookout: Callable[[], None] = lambda: None) -> None:
        self._session = session
        self._join_lookout = join_lookout
        self._jobs: queue.SimpleQueue[_Job | Reply] = queue.SimpleQueue()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="tenure-sqlite-worker", daemon=True)

    async def start(self) -> None:
        """Open the file. Raises ConfigError for what cannot be opened, StoreError for what failed."""
        self._opened = Reply.here()
        self._thread.start()
        await self._opened.outcome()

    async def call(self, request: Request) -> object:
        """Have ``request`` carried out and return its answer."""
        if self._jobs.qsize() >= _QUEUE_MAX:
            raise self._unsent(request, f"the disk does not answer, and {_QUEUE_MAX} requests wait already")
        reply = Reply.here()
        self._jobs.put(_Job(request, reply))
        if self._ended:
            # Perhaps nobody reads this any more. If somebody did, the true answer is on its way and comes first.
            reply.give(self._unsent(request, "the store is closed"))
        return await reply.outcome()

    def stop_soon(self) -> Reply:
        """Have the thread end after what was sent; the reply comes when the file is closed."""
        stopped = Reply.here()
        self._jobs.put(stopped)
        if self._ended or self._thread.ident is None:
            stopped.give(None)
        return stopped

    def join(self) -> None:
        """Wait for the thread, which has nothing left to do once its reply has come."""
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        under_way: Sequence[_Job] = ()
        stopped: Reply | None = None
        try:
            if not self._open():
                return
            while stopped is None:
                under_way, stopped = self._gather()
                if under_way:
                    outcomes = self._session.carry_out([job.request for job in under_way])
                    give_all(zip((job.reply for job in under_way), outcomes, strict=True))
                    under_way = ()
                    self._session.tidy()
        finally:
            self._end(under_way, stopped)

    def _open(self) -> bool:
        address = self._session.desk.address
        outcome: TenureError | None = None
        try:
            self._session.desk.open_first()
        except TenureError as error:
            outcome = error
        except sqlite3.Error as error:
            outcome = fault_of(error, address, "open")
        except OSError as error:
            outcome = Unreachable(address, "open", str(error))
        self._opened.give(outcome)
        return outcome is None

    def _gather(self) -> tuple[list[_Job], Reply | None]:
        """Wait for a job and take along what waits behind it; the second value ends the thread."""
        batch: list[_Job] = []
        with suppress(queue.Empty):
            job = self._jobs.get()
            while isinstance(job, _Job):
                if not job.reply.unwanted:
                    batch.append(job)
                if len(batch) >= _BATCH_MAX:
                    return batch, None
                job = self._jobs.get_nowait()
            return batch, job
        return batch, None

    def _end(self, under_way: Sequence[_Job], stopped: Reply | None) -> None:
        # However the thread ends, nobody waits for ever. A mistake of ours may have ended it in mid-transaction.
        why = "the thread of the store has ended"
        address = self._session.desk.address
        give_all((job.reply, OutcomeUnknown(address, job.request.operation, why)) for job in under_way)
        self._opened.give(OutcomeUnknown(address, "open", why))  # Unless it was answered already.
        if stopped is not None:
            # Of two connections that close at the same moment neither is the last one, which clears the log away.
            self._join_lookout()
        self._session.desk.close()
        self._ended = True  # Whoever sends from now on looks here; what was sent before is answered below.
        with suppress(queue.Empty):
            while True:
                job = self._jobs.get_nowait()
                if isinstance(job, _Job):
                    job.reply.give(self._unsent(job.request, "the store is closed"))
                else:
                    job.give(None)
        if stopped is not None:
            stopped.give(None)

    def _unsent(self, request: Request, why: str) -> Unreachable:
        return Unreachable(self._session.desk.address, request.operation, why)
