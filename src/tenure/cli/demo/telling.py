"""How the processes of the demos say what happens to them: lines of JSON on their standard output, read by a director."""

import ctypes
import json
import os
import signal
import sys
from typing import Final

from tenure.cli.demo.happening import What
from tenure.clock import BootClock
from tenure.model import Bid, Ended, Grant, Incumbent, Wait
from tenure.stores.base import Store, Traits

_PR_SET_PDEATHSIG: Final = 1  # prctl(2)
_STDOUT: Final = 1
CLOCK: Final = BootClock()


def say(what: What, **more: int | str) -> None:
    """Tell the director. In one write, so that lines of different threads do not mix."""
    line = json.dumps({"at_ns": CLOCK.now(), "what": what, **more})
    try:
        os.write(_STDOUT, line.encode() + b"\n")
    except BrokenPipeError:
        os._exit(0)  # Nobody listens any more.


class ToldStore:
    """A store that says when a claim was sent and granted, and when a renewal was: the hooks do not know that."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waits_for: Incumbent | None = None

    @property
    def traits(self) -> Traits:
        return self._store.traits

    @property
    def address(self) -> str:
        return self._store.address

    @property
    def identity(self) -> str:
        return self._store.identity

    async def claim(self, bid: Bid) -> Grant | Wait:
        sent_ns = CLOCK.now()
        answer = await self._store.claim(bid)
        if isinstance(answer, Grant):
            say(What.GRANTED, token=answer.token, sent_ns=sent_ns)
        elif answer.incumbent != self._waits_for:  # A standby asks again now and then; that is no news.
            self._waits_for = answer.incumbent
            say(What.WAITS)
        return answer

    async def renew(self, grant: Grant) -> Grant | Ended:
        sent_ns = CLOCK.now()
        answer = await self._store.renew(grant)
        if isinstance(answer, Grant):
            say(What.RENEWED, token=answer.token, sent_ns=sent_ns)
        return answer

    async def release(self, bid: Bid) -> None:
        await self._store.release(bid)

    async def changed(self, wait: Wait) -> None:
        await self._store.changed(wait)

    async def read(self, election: str) -> Incumbent | None:
        return await self._store.read(election)


def end_with_the_director() -> None:
    """Have the kernel end this process with its parent: one that is frozen cannot see its standard input end.

    Elsewhere than on Linux the rule for process groups does it, for this process leads a group of its own: a stopped
    group that loses its last tie to its session is hung up.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
