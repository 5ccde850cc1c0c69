"""A candidate of the demo: one process that stands for election and, in office, pays invoices.

It uses what any program would use: ``open_store``, ``Election.lead`` and a sink. What happens to it, it says in lines of
JSON on its standard output. It pays one invoice for every byte that comes in on its standard input, and ends when that
ends: then the director is gone.
"""

import argparse
import os
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
from tenure.cli.demo.telling import ToldStore, end_with_the_director, say
from tenure.facts.kinds import Elected, Fact, Left, Overstayed
from tenure.sinks import SQLiteSink

EXIT_STALE: Final = 3  # of a candidate that found out by the fence that it had been succeeded
_STDIN: Final = 0


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
    match fact.what:
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
        tenure.subscribe(_tell)
        election = tenure.Election(ToldStore(opened.store), "demo/invoices", ttl=ttl_s)
        await election.lead(payer.work, sinks=[_ToldSink(ledger)] if isinstance(ledger, SQLiteSink) else [])


def main() -> None:
    """Stand for election until the director is gone, or until the ledger refuses a write as stale."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("store", type=Path)
    parser.add_argument("ledger", type=Path)
    parser.add_argument("ttl_s", type=float)
    parser.add_argument("--fenced", action="store_true")
    given = parser.parse_args()
    end_with_the_director()
    try:
        anyio.run(partial(_stand, given.name, given.store, given.ledger, given.ttl_s, fenced=given.fenced))
    except tenure.StaleToken as stale:
        say(What.ENDING, token=stale.token, why=str(stale))
        sys.exit(EXIT_STALE)
    except tenure.TenureError as error:
        sys.exit(f"{error}")  # The director reads the last line of standard error.


if __name__ == "__main__":
    main()
