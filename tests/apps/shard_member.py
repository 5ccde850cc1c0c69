"""One member of a set of shards, as a program. It writes to a fenced database for every shard that it owns.

Arguments: the URL of the store, the database, the member's name, how many shards, the ttl in seconds. It says that it is ready, and
joins when it is sent a line. TERM has it leave. USR1 has it stop, between two transactions, until CONT; then it writes once for every shard that it owned before anything else,
and says how many of these writes were refused.

What the fence refuses is written down as well, in a table that has no fence: with whether the member's own tenure was still valid
after that. If it was, the shard had a second owner.
"""

import os
import signal
import sqlite3
import sys
import time
from contextlib import closing
from functools import partial

import anyio

import tenure
from tenure.apps.shards import Shard, Shards
from tenure.errors import StaleToken
from tenure.sinks import SQLiteSink

WRITE_EVERY_S = 0.5
INSERT = "INSERT INTO writes (shard, token, member, what, at_ns) VALUES (?, ?, ?, ?, ?)"
TABLE = "CREATE TABLE IF NOT EXISTS writes (at INTEGER PRIMARY KEY, shard, token, member, what, at_ns)"
REFUSED = "INSERT INTO refused (shard, token, member, what, was_valid) VALUES (?, ?, ?, ?, ?)"
REFUSED_TABLE = "CREATE TABLE IF NOT EXISTS refused (shard, token, member, what, was_valid)"


def connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = OFF")  # No power fails here.
    return connection


class Member:
    def __init__(self, sink: SQLiteSink, unfenced: sqlite3.Connection, name: str) -> None:
        self.sink, self.unfenced, self.name = sink, unfenced, name
        self.owned: dict[int, Shard] = {}

    def write(self, shard: Shard, what: str) -> bool:
        """Write, and say whether that was accepted."""
        try:
            with self.sink.transaction(shard.term) as connection:
                at_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
                connection.execute(INSERT, (shard.number, shard.term.token, self.name, what, at_ns))
        except StaleToken:
            # Asked after the refusal: if it is valid now, it was valid then.
            refused = (shard.number, shard.term.token, self.name, what, shard.term.valid)
            self.unfenced.execute(REFUSED, refused)
            return False
        return True

    async def body(self, shard: Shard) -> None:
        self.owned[shard.number] = shard
        self.write(shard, "begin")
        try:
            while True:
                await anyio.sleep(WRITE_EVERY_S)
                self.write(shard, "work")
        finally:
            del self.owned[shard.number]
            self.write(shard, "end")

    def freeze(self) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)
        refused_count = sum(not self.write(shard, "zombie") for shard in self.owned.values())
        print(f"refused {refused_count} of {len(self.owned)}", flush=True)


async def main(url: str, path: str, name: str, count: int, ttl_s: float) -> None:
    with SQLiteSink(partial(connect, path)) as sink, closing(connect(path)) as unfenced:
        member = Member(sink, unfenced, name)
        async with tenure.open_store(url) as store, anyio.create_task_group() as tasks:
            shards = Shards(store, "crawl", count, member=name, ttl=ttl_s)

            async def listen() -> None:
                with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGUSR1) as signals:
                    async for number in signals:
                        (member.freeze if number == signal.SIGUSR1 else shards.leave)()

            tasks.start_soon(listen)
            print("ready", flush=True)
            await anyio.to_thread.run_sync(sys.stdin.readline)
            await shards.run(member.body, sinks=[sink])
            tasks.cancel_scope.cancel()


if __name__ == "__main__":
    url, path, name, count, ttl_s = sys.argv[1:]
    anyio.run(main, url, path, name, int(count), float(ttl_s))
