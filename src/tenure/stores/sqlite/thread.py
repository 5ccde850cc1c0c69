"""A thread that takes messages from event loops until it is told to stop. However it ends, nobody waits for ever."""

import queue
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Generic, TypeVar

from tenure.stores.sqlite.reply import Reply, give, new_reply

M = TypeVar("M", bound=tuple[object, object])

# Four for each of a thousand elections. A queue of that length is a disk that does not answer.
MESSAGES_MAX = 4096


class MessageThread(ABC, Generic[M]):
    """What the two threads of a store have in common: how they are sent to, and how they end."""

    def __init__(self, name: str) -> None:
        self._messages: queue.SimpleQueue[M | Reply] = queue.SimpleQueue()  # A reply is the wish that it stops.
        self._ended = False
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

    def _send(self, message: M) -> None:
        self._messages.put(message)
        if self._ended:
            # Perhaps nobody reads this any more. If somebody did, the true answer is on its way and comes first.
            self._turn_away(message)

    def _run(self) -> None:
        stopped: Reply | None = None
        try:
            stopped = self._work()
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
            if stopped is not None:
                give(stopped, None)

    @abstractmethod
    def _work(self) -> Reply | None:
        """Take messages until one is the wish to stop, and return that; None if there is nothing to be done."""

    @abstractmethod
    def _close(self) -> None:
        """Close what the thread has open, and answer whoever it has taken a message from."""

    @abstractmethod
    def _turn_away(self, message: M) -> None:
        """Answer a message that will not be taken."""
