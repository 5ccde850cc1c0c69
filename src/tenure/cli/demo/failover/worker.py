"""A worker of the failover: carries out its last orders at a fixed rate, and writes down every execution before it counts."""

import argparse
import sqlite3
import sys
from pathlib import Path

import anyio
from anyio import to_thread

import tenure
from tenure.apps.control import AcceptedOrder, Worker, carry_out
from tenure.cli.demo.failover.setting import EXECUTIONS_PER_S
from tenure.cli.demo.happening import What
from tenure.cli.demo.telling import CLOCK, end_with_the_director, say
from tenure.web import OrdersWSGI, serving

_TABLE = "CREATE TABLE IF NOT EXISTS execution (due_ns INTEGER, at_ns INTEGER, token INTEGER)"


async def _work(folder: Path) -> None:
    worker = Worker(folder / "journal.db")
    record = open_record(folder / "record.db")

    async def execute(order: AcceptedOrder) -> None:
        if "once" in order.payload:
            return
        due_ns = CLOCK.now()
        while True:  # until it is withdrawn; there need be no leader for it
            await CLOCK.sleep_until(due_ns)
            await to_thread.run_sync(_note, record, due_ns, order.token)
            due_ns += 10**9 // EXECUTIONS_PER_S

    with serving(OrdersWSGI(worker, lambda _: True)) as url:
        say(What.LISTENS, url=url)
        await carry_out(worker, execute)


def open_record(path: Path) -> sqlite3.Connection:
    """Return where executions are written down.

    What was committed is there when the worker is killed, and after a power cut the record is whole, but for the last of it. That is what
    100 % means here: each execution was carried out and noted, with or without a leader. With FULL it would mean that the disk
    had each as well, and a disk that stalls for a second would count against the workers.
    """
    record = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    record.execute("PRAGMA journal_mode = WAL")
    record.execute("PRAGMA synchronous = NORMAL")
    record.execute(_TABLE)
    return record


def _note(record: sqlite3.Connection, due_ns: int, token: int) -> None:
    record.execute("INSERT INTO execution VALUES (?, ?, ?)", (due_ns, CLOCK.now(), token))


def main() -> None:
    """Work until the director is gone."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    end_with_the_director()
    try:
        anyio.run(_work, parser.parse_args().folder)
    except tenure.TenureError as error:
        sys.exit(f"{error}")


if __name__ == "__main__":
    main()
