"""A thread that takes messages from event loops until it is told to stop. However it ends, nobody waits for ever.

It outlives whatever goes wrong in it: every election of its store lives by it, in this process, and none of them would come back.
"""

import logging
import queue
import threading
import traceback
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Final, Generic, TypeVar

from tenure.errors import Unreachable, redact
from tenure.stores.sqlite.reply import Reply, give, new_reply

_LOG: Final = logging.getLogger("tenure")

M = TypeVar("M", bound=tuple[object, object])

# Four for each of a thousand elections. A queue of that length is a disk that does not answer.
MESSAGES_MAX = 4096


class MessageThread(ABC, Generic[M]):
    """What the two threads of a store have in common: how they are sent to, and how they end."""

    def __init__(self, name: str) -> None:
        self._messages: queue.SimpleQueue[M | Reply] = queue.SimpleQueue()  # A reply is the wish that it stops.
        self._stopped: Reply | None = None  # who has asked for the end
        self._ended = False
        self._mishap = ""  # what went wrong last
        self._thread = threading.Thread(target=self._run, name=f"tenure-sqlite-{name}", daemon=True)

    @property
    def is_stuck(self) -> bool:
        """Whether so many messages wait already that nothing more should be sent."""
        return self._messages.qsize() >= MESSAGES_MAX

    def stop_soon(self) -> Reply:
        """Have the thread end after what was sent before; the reply comes when its connection is closed."""
        stopped = new_reply()
        self._messages.put(stopped)
        if self._ended or self._thread.ident is None:
            give(stopped, None)
        return stopped

    def join(self) -> None:
        """Wait for the thread, which has nothing left to do once its reply has come."""
        if self._thread.ident is not None:
            self._thread.join()

    def _start(self, address: str, operation: str) -> None:
        try:
            self._thread.start()
        except RuntimeError as error:  # There may be one later.
            raise Unreachable(address, operation, f"the system gives no thread: {error}") from None

    def _send(self, message: M) -> None:
        self._messages.put(message)
        if self._ended:
            # Perhaps nobody reads this any more. If somebody did, the true answer is on its way and comes first.
            self._turn_away(message)

    def _run(self) -> None:
        try:
            if self._open():
                while self._stopped is None:
                    self._outlive_turn()
        finally:
            self._close()
            self._ended = True  # Whoever sends from now on looks here; what was sent before is answered below.
            with suppress(queue.Empty):
                while True:
                    message = self._messages.get_nowait()
                    if isinstance(message, tuple):
                        self._turn_away(message)
                    else:
                        give(message, None)
            if self._stopped is not None:
                give(self._stopped, None)

    def _outlive_turn(self) -> None:
        try:
            self._turn()
        except Exception as error:  # noqa: BLE001  (what nobody has foreseen has no name)
            frame = traceback.extract_tb(error.__traceback__)[-1]
            mishap = f"{error!r} at {Path(frame.filename).name}:{frame.lineno}"
            self._recover(f"a mistake of ours, please report it: {mishap}")
            if mishap != self._mishap:  # Once: one that is repeated for good would fill the log.
                self._mishap = mishap
                _LOG.error("%s has failed, and goes on: %s", self._thread.name, redact(mishap))

    def _open(self) -> bool:
        """Get ready; False if there is nothing to be done."""
        return True

    @abstractmethod
    def _turn(self) -> None:
        """Wait for messages and do what there is to be done. One may be the wish to stop, which is kept."""

    @abstractmethod
    def _recover(self, why: str) -> None:
        """Close what may be spoilt, and answer whoever a turn has left unanswered."""

    @abstractmethod
    def _close(self) -> None:
        """Close what the thread has open, and answer whoever it has taken a message from."""

    @abstractmethod
    def _turn_away(self, message: M) -> None:
        """Answer a message that will not be taken."""
