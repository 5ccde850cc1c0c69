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
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias, TypeVar, cast

from tenure.errors import OutcomeUnknown, TenureError, Unreachable
from tenure.stores.sqlite.faults import fault_of
from tenure.stores.sqlite.reply import Reply, give, give_all, new_reply, outcome_of
from tenure.stores.sqlite.session import Operation, Request, Session
from tenure.stores.sqlite.thread import MESSAGES_MAX, MessageThread

S = TypeVar("S")
A = TypeVar("A")

# A transaction keeps the file locked for others, so it must not grow without bound: 256 claims take some 20 ms.
_BATCH_MAX = 256
# When to tidy up again if others were in the way.
_TIDY_AGAIN_S = 0.5

_Job: TypeAlias = tuple[Request, Reply]


class Worker(MessageThread[_Job]):
    """One thread with one session. ``start`` opens the file; ``stop_soon`` has it closed after what was sent before."""

    def __init__(self, session: Session, join_lookout: Callable[[], None]) -> None:
        super().__init__("worker")
        self._session = session
        self._join_lookout = join_lookout
        self._under_way: list[_Job] = []
        self._is_tidy = True

    async def start(self) -> None:
        """Open the file. Raises ConfigError for what cannot be opened, StoreError for what failed."""
        self._opened = new_reply()
        self._start(self._session.desk.address, "open")
        await outcome_of(self._opened)

    async def call(self, operation: Operation[S, A], subject: S) -> A:
        """Have a request carried out and return its answer."""
        request = Request(operation, subject)
        if self.is_stuck:
            raise self._unsent(request, f"the disk does not answer, and {MESSAGES_MAX} requests wait already")
        reply = new_reply()
        self._send((request, reply))
        return cast("A", await outcome_of(reply))

    def _turn(self) -> None:
        self._under_way, self._stopped = self._gather(None if self._is_tidy else _TIDY_AGAIN_S)
        self._is_tidy = True  # as far as is known: what fails is not tried over and over while nobody asks for anything
        if self._under_way:
            outcomes = self._session.carry_out([request for request, _ in self._under_way])
            give_all(zip((reply for _, reply in self._under_way), outcomes, strict=True))
        self._is_tidy = self._session.tidy()

    def _recover(self, why: str) -> None:
        self._session.desk.close()  # And with it what was written and not committed.
        address = self._session.desk.address
        give_all((reply, OutcomeUnknown(address, asked.operation.name, why)) for asked, reply in self._under_way)

    def _open(self) -> bool:
        address = self._session.desk.address
        outcome: TenureError | None = OutcomeUnknown(address, "open", "the thread of the store has ended")
        try:
            self._session.desk.open_first()
            outcome = None
        except TenureError as error:
            outcome = error
        except sqlite3.Error as error:
            outcome = fault_of(error, address, "open")
        except OSError as error:
            outcome = Unreachable(address, "open", str(error))
        finally:
            give(self._opened, outcome)
        return outcome is None

    def _gather(self, wait_s: float | None) -> tuple[list[_Job], Reply | None]:
        """Wait for a job and take along what waits behind it; the second value ends the thread."""
        batch: list[_Job] = []
        with suppress(queue.Empty):
            job = self._messages.get(timeout=wait_s)
            while isinstance(job, tuple):
                if not job[1].done():
                    batch.append(job)
                if len(batch) >= _BATCH_MAX:
                    return batch, None
                job = self._messages.get_nowait()
            return batch, job
        return batch, None

    def _close(self) -> None:
        if self._stopped is not None:
            # Of two connections that close at the same moment neither is the last one, which clears the log away.
            self._join_lookout()
        self._session.desk.close()

    def _turn_away(self, message: _Job) -> None:
        request, reply = message
        give(reply, self._unsent(request, "the store is closed"))

    def _unsent(self, request: Request, why: str) -> Unreachable:
        return Unreachable(self._session.desk.address, request.operation.name, why)
