"""A worker as a process of its own: serves its orders, carries them out, and says what it does in lines.

``python -m tests.control.worker_process FOLDER [--hold]``: with ``--hold`` it accepts, and begins nothing.
"""

import sqlite3
import sys
from pathlib import Path

import anyio
from anyio import to_thread

from tenure.apps.control import AcceptedOrder, Worker, carry_out
from tenure.web import OrdersWSGI, serving


async def main(folder: Path, *, holds: bool) -> None:
    journal = folder / "journal.db"
    with sqlite3.connect(journal) as setup:
        setup.execute("CREATE TABLE IF NOT EXISTS carried_out (id TEXT, token INTEGER)")
    setup.close()
    worker = Worker(journal)

    async def execute(order: AcceptedOrder) -> None:
        if holds:
            await anyio.sleep_forever()
        if order.payload == "standing":
            while True:  # until it is withdrawn: counted as it goes
                await to_thread.run_sync(count, folder / "counts.db", order.id)
                await anyio.sleep(0.02)
        insert = "INSERT INTO carried_out VALUES (?, ?)"
        await to_thread.run_sync(worker.finish, order, lambda db: db.execute(insert, (order.id, order.token)))

    with serving(OrdersWSGI(worker, lambda _: True)) as url:
        print(url, flush=True)
        await carry_out(worker, execute)


def count(path: Path, id_: str) -> None:
    with sqlite3.connect(path) as counts:
        counts.execute("CREATE TABLE IF NOT EXISTS count (id TEXT)")
        counts.execute("INSERT INTO count VALUES (?)", (id_,))
    counts.close()


if __name__ == "__main__":
    anyio.run(lambda: main(Path(sys.argv[1]), holds="--hold" in sys.argv))
