"""A candidate of the demo: one process that stands for election and, in office, pays invoices.

It uses what any program would use: ``open_store``, ``Election.lead`` and a sink. What happens to it, it says in lines of
JSON on its standard output. It pays one invoice for every byte that comes in on its standard input, and ends when that
ends: then the director is gone.
"""

import argparse
import ctypes
import json
import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Final, NoReturn
from urllib.parse import quote

import anyio
from anyio import to_thread

import tenure
from tenure.cli.demo.happening import What
from tenure.cli.demo.ledger import Unfenced, next_payment, write
from tenure.core.effects import Elected, Fact, Left, Overstayed
from tenure.model import Bid, Ended, Grant, Incumbent, Wait
from tenure.sinks import SQLiteSink
from tenure.stores.base import Store, Traits

EXIT_STALE: Final = 3  # of a candidate that found out by the fence that it had been succeeded
_PR_SET_PDEATHSIG: Final = 1  # prctl(2)
_STDIN, _STDOUT = 0, 1
_CLOCK = tenure.BootClock()


def say(what: What, **more: int | str) -> None:
    """Tell the director. In one write, so that lines of different threads do not mix."""
    line = json.dumps({"at_ns": _CLOCK.now(), "what": what, **more})
    try:
        os.write(_STDOUT, line.encode() + b"\n")
    except BrokenPipeError:
        os._exit(0)  # Nobody listens any more.


class _ToldStore:
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
        sent_ns = _CLOCK.now()
        answer = await self._store.claim(bid)
        if isinstance(answer, Grant):
            say(What.GRANTED, token=answer.token, sent_ns=sent_ns)
        elif answer.incumbent != self._waits_for:  # A standby asks again now and then; that is no news.
            self._waits_for = answer.incumbent
            say(What.WAITS)
        return answer

    async def renew(self, grant: Grant) -> Grant | Ended:
        answer = await self._store.renew(grant)
        if isinstance(answer, Grant):
            say(What.RENEWED, token=answer.token)
        return answer

    async def release(self, bid: Bid) -> None:
        await self._store.release(bid)

    async def changed(self, wait: Wait) -> None:
        await self._store.changed(wait)

    async def read(self, election: str) -> Incumbent | None:
        return await self._store.read(election)


class _ToldSink:
    """A sink that says when it has been sealed."""

    def __init__(self, sink: SQLiteSink) -> None:
        self._sink = sink

    async def seal(self, fence: str, token: tenure.Token) -> None:
        await self._sink.seal(fence, token)
        say(What.SEALED, token=token)


class _Payer:
    """What a leader does: read the ledger, choose the next payment, write it, and again."""

    def __init__(self, name: str, path: Path, ledger: SQLiteSink | Unfenced) -> None:
        self._name, self._path, self._ledger = name, path, ledger
        self._told_to_pay: SimpleQueue[None] = SimpleQueue()

    def listen(self) -> NoReturn:
        """Take orders until there is nobody left to give any. Runs on a thread of its own."""
        while os.read(_STDIN, 1):
            self._told_to_pay.put(None)
        os._exit(0)

    async def work(self, term: tenure.Tenure) -> None:
        while term.valid:
            # In a thread, as every blocking write is. Cancellation waits for a thread and cannot stop it: a write that
            # was about to be sent when the process fell asleep is sent when it wakes.
            await to_thread.run_sync(self._pay_next, term)
        await anyio.sleep_forever()  # The cancellation is under way.

    def _pay_next(self, term: tenure.Tenure) -> None:
        payment = next_payment(self._path)
        if not term.valid:
            return
        about = {"token": int(term.token), "invoice": payment.invoice}
        say(What.READY, **about)
        # Checked, and not yet written: whatever is frozen here will never know how long it slept.
        self._told_to_pay.get()
        say(What.SENDS, **about)
        try:
            with self._ledger.transaction(term) as connection:
                write(connection, payment, self._name, term.token)
        except tenure.StaleToken as stale:
            say(What.REJECTED, **about, highest=stale.highest)
            raise
        say(What.ACCEPTED, **about, total=payment.total)


def _tell(fact: Fact) -> None:
    match fact:
        case Elected(token):
            say(What.ELECTED, token=token)
        case Left(token, reason):
            say(What.LEFT, token=token, reason=reason.value)
        case Overstayed(token, late_by_ns):
            say(What.OVERSTAYED, token=token, late_by_ns=late_by_ns)


async def _stand(name: str, store_path: Path, ledger_path: Path, ttl_s: float, *, fenced: bool) -> None:
    ledger = SQLiteSink(ledger_path) if fenced else Unfenced(ledger_path)
    payer = _Payer(name, ledger_path, ledger)
    threading.Thread(target=payer.listen, daemon=True).start()
    async with tenure.open_store(f"sqlite://{quote(str(store_path))}") as opened:
        election = tenure.Election(_ToldStore(opened.store), "demo/invoices", ttl=ttl_s, hooks=[_tell])
        await election.lead(payer.work, sinks=[_ToldSink(ledger)] if isinstance(ledger, SQLiteSink) else [])


def _end_with_the_director() -> None:
    """Have the kernel end this process with its parent: one that is frozen cannot see its standard input end.

    Elsewhere than on Linux the rule for process groups does it, for this process leads a group of its own: a stopped
    group that loses its last tie to its session is hung up.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    """Stand for election until the director is gone, or until the ledger refuses a write as stale."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("store", type=Path)
    parser.add_argument("ledger", type=Path)
    parser.add_argument("ttl_s", type=float)
    parser.add_argument("--fenced", action="store_true")
    given = parser.parse_args()
    _end_with_the_director()
    try:
        anyio.run(partial(_stand, given.name, given.store, given.ledger, given.ttl_s, fenced=given.fenced))
    except tenure.StaleToken as stale:
        say(What.ENDING, token=stale.token, why=str(stale))
        sys.exit(EXIT_STALE)
    except tenure.TenureError as error:
        sys.exit(f"{error}")  # The director reads the last line of standard error.


if __name__ == "__main__":
    main()
