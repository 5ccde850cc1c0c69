"""The store: five async methods over one worker thread and one lookout. Runs on asyncio.

What it promises holds for the processes of one machine. It does not promise anything to a second machine that is shown
the same file, nor after the file was restored from a copy: its counter is then the copy's, and tokens are issued again.
"""

import asyncio
import os
import warnings
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

from tenure.clock import BootClock, Clock
from tenure.errors import ConfigError, Refused, Unreachable
from tenure.model import Bid, Conflict, Document, Ended, Grant, Incumbent, Token, Version, Wait
from tenure.stores.base import ElectionStatus, Expiry, Traits, Wake
from tenure.stores.examining import Finding
from tenure.stores.sqlite.desk import Desk
from tenure.stores.sqlite.engine import Swap
from tenure.stores.sqlite.examine import examine
from tenure.stores.sqlite.host import Host, plain_path, this_host
from tenure.stores.sqlite.lookout import Lookout, LookoutThread, Watch
from tenure.stores.sqlite.reply import new_reply, outcome_of
from tenure.stores.sqlite.session import (
    ASK_TO_RESIGN,
    CLAIM,
    ELECTIONS,
    FETCH,
    PROCLAIM,
    READ,
    RELEASE,
    RENEW,
    SWAP,
    Operation,
    Session,
)
from tenure.stores.sqlite.worker import Worker

S = TypeVar("S")
A = TypeVar("A")

# How long closing waits for requests under way: five times what one may wait for the lock.
_CLOSE_WAIT_S = 5.0
_INTEGER_MAX = 2**63 - 1  # SQLite's
# A transaction keeps the file locked for others, so it must not grow without bound: these take about 2 ms.
_TOGETHER_MAX = 256

_TRAITS = Traits(
    queue=False,
    wake=Wake.POLL,
    expiry=Expiry.ENGINE,
    token_source="a counter in the file, over all elections",
    # A lease must outlast a few looks of a standby and a few syncs of a slow disk (5 to 20 ms each).
    ttl_min_ns=100_000_000,
    ttl_max_ns=7 * 24 * 3600 * 10**9,
    expiry_slack_ns=0,
)


class SQLiteStore:
    """Elections in a SQLite file, among the processes of one machine: ``async with SQLiteStore(path) as store``.

    Raises ConfigError on entry for a place or a file that cannot serve. ``clock`` and ``host`` are for tests: what time
    it is, and whose time that is.
    """

    # Their thread answers whichever loop of asyncio has asked: the way by the office would be two changes of threads more.
    documents_on_any_loop = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Clock | None = None,
        host: Callable[[], Host] = this_host,
    ) -> None:
        clock = BootClock() if clock is None else clock
        self._path = plain_path(path)
        self._desk = Desk(self._path, self.address, host)
        self._looking_desk = Desk(self._path, self.address, host)
        self._lookout = LookoutThread(Lookout(self._looking_desk, clock))
        self._worker = Worker(Session(self._desk, clock), self._lookout.join)
        self._closed = False
        self._pid = 0  # of the process that opened it; none has this number
        # What the last renewal said, by election: at most one tenure of each is in office.
        self._asked_to_resign: dict[str, Token] = {}

    async def __aenter__(self) -> Self:
        if self._pid:
            raise ConfigError("store", self.address, "was opened before: make a new one")
        self._pid = os.getpid()
        opened = False
        try:
            await self._worker.start()
            self._looking_desk.open_beside(self._desk)
            opened = True
        finally:
            if not opened:
                self._worker.stop_soon()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Carry out what was sent, close the file and end both threads.

        If this is cancelled the threads end by themselves a little later. If the disk hangs they are left behind.
        """
        if self._pid != os.getpid():
            return  # A fork has neither the threads nor the connections.
        self._closed = True
        self._lookout.stop_soon()
        stopped = self._worker.stop_soon()
        try:
            async with asyncio.timeout(_CLOSE_WAIT_S):
                await outcome_of(stopped)
        except TimeoutError:
            warnings.warn(f"{self.address}: the disk does not answer, so the file is not closed", ResourceWarning, 2)
            return
        self._lookout.join()
        self._worker.join()

    @property
    def traits(self) -> Traits:
        return _TRAITS

    @property
    def address(self) -> str:
        """Where it is, as a URL that opens it."""
        return f"sqlite://{quote(os.fsencode(self._path))}"

    @property
    def identity(self) -> str:
        """The name of this file among all others, made with it: fences are told apart by it. Known once it is open."""
        self._check_open("identity")
        return self._desk.identity

    async def claim(self, bid: Bid) -> Grant | Wait:
        if not _TRAITS.ttl_min_ns <= bid.ttl_ns <= _TRAITS.ttl_max_ns:
            detail = f"ttl of {bid.ttl_ns} ns is not between {_TRAITS.ttl_min_ns} and {_TRAITS.ttl_max_ns} ns"
            raise Refused(self.address, "claim", detail)
        self._check_bid("claim", bid)
        if bid.advertise:
            self._check_texts("claim", bid.advertise)
        return await self._ask(CLAIM, bid)

    async def renew(self, grant: Grant) -> Grant | Ended:
        (answer,) = await self.renew_together([grant])
        return answer

    async def renew_together(self, grants: list[Grant]) -> list[Grant | Ended]:
        """Renew many tenures, which costs half of renewing each. If it fails, some of them may have been renewed."""
        for grant in grants:
            self._check_bid("renew", grant.bid)
        answers: list[Grant | Ended] = []
        for first in range(0, len(grants), _TOGETHER_MAX):
            renewed = await self._ask(RENEW, grants[first : first + _TOGETHER_MAX])
            answers += renewed.answers
            for grant in renewed.asked:
                self._asked_to_resign[grant.bid.election] = grant.token
        return answers

    def resign_asked(self, grant: Grant) -> bool:
        """Say whether somebody has asked this tenure to resign (``ask_to_resign``), as of its last renewal."""
        return self._asked_to_resign.get(grant.bid.election) == grant.token

    async def proclaim(self, grant: Grant, address: str) -> Grant | Ended:
        self._check_bid("proclaim", grant.bid)
        if address:
            self._check_texts("proclaim", address)
        return await self._ask(PROCLAIM, (grant, address))

    async def release(self, bid: Bid) -> None:
        self._check_bid("release", bid)
        self._asked_to_resign.pop(bid.election, None)
        await self._ask(RELEASE, bid)

    async def changed(self, wait: Wait) -> None:
        self._check_open("changed")
        self._check_bid("changed", wait.bid)
        if self._lookout.is_stuck:
            raise Unreachable(self.address, "changed", "the disk does not answer")
        watch = Watch(wait.bid.election, new_reply())
        self._lookout.watch(watch)
        try:
            await outcome_of(watch.reply)
        finally:
            self._lookout.unwatch(watch)

    async def read(self, election: str) -> Incumbent | None:
        self._check_texts("read", election)
        return await self._ask(READ, election)

    async def fetch(self, key: str) -> Document | None:
        self._check_texts("fetch", key)
        return await self._ask(FETCH, key)

    async def swap(self, key: str, value: bytes, version: Version | None) -> Document | Conflict:
        self._check_texts("swap", key)
        return await self._ask(SWAP, Swap(key, value, version))

    async def elections(self) -> list[ElectionStatus]:
        """Return every election that was ever held in this file, by name: who is in office, and who waits."""
        return await self._ask(ELECTIONS, None)

    async def ask_to_resign(self, election: str) -> Incumbent | None:
        """Ask whoever is in office to leave, and return who that is.

        A request and no more: its holder learns of it at its next renewal (``resign_asked``) and may take its time.
        """
        self._check_texts("ask_to_resign", election)
        return await self._ask(ASK_TO_RESIGN, election)

    async def examine(self, ttl_ns: int) -> list[Finding]:
        """Say how the file is, for elections with that ttl. Opens and closes the store."""
        async with self:
            return await examine(self, self._path, ttl_ns)

    def _ask(self, operation: Operation[S, A], subject: S) -> Coroutine[Any, Any, A]:
        self._check_open(operation.name)
        return self._worker.call(operation, subject)

    def _check_open(self, operation: str) -> None:
        if not self._pid or self._closed:
            raise Unreachable(self.address, operation, "the store is not open: use async with")
        if self._pid != os.getpid():
            rule = f"was opened in process {self._pid}, of which this one is a fork: open it again here"
            raise ConfigError("store", self.address, rule)

    def _check_bid(self, operation: str, bid: Bid) -> None:
        holder = bid.holder
        self._check_texts(operation, bid.election, holder.host, holder.nonce)
        if not (0 <= bid.serial <= _INTEGER_MAX and 0 <= holder.pid <= _INTEGER_MAX):
            raise Refused(self.address, operation, f"serial and pid must lie between 0 and {_INTEGER_MAX}: {bid}")

    def _check_texts(self, operation: str, *texts: str) -> None:
        for text in texts:
            # A lone surrogate, as os.fsdecode makes of bytes that are no text, cannot be stored: better said here than
            # in the middle of a transaction.
            try:
                encoded = text.encode()
            except UnicodeEncodeError:
                encoded = b""
            if not encoded:
                raise Refused(self.address, operation, f"{text!r} cannot be stored")
