"""One PostgreSQL server on this machine: made, cloned, started, promoted, asked. It decides nothing."""

import shutil
from pathlib import Path
from typing import Any

import anyio
import asyncpg

from tenure.testing.engines.asking import run_tool
from tenure.testing.engines.binaries import newest
from tenure.testing.engines.privileges import as_nobody, hand_over
from tenure.testing.engines.processes import Process

# It does not answer, or says no. The last is what asyncpg says if the server goes at the very moment at which it is asked.
DOWN = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
SETTINGS = {
    "fsync": "on",
    "hot_standby": "on",
    "max_wal_senders": "10",
    "unix_socket_directories": "",
    "wal_keep_size": "64MB",
    "wal_receiver_timeout": "2s",
    "wal_retrieve_retry_interval": "100ms",
    "wal_sender_timeout": "2s",
}
# What it has on disk, as a primary or as a replica: a number that grows with every commit.
POSITION = """
SELECT pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery()
    THEN greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) ELSE pg_current_wal_flush_lsn() END, '0/0')::bigint
"""
FOLLOWERS = """
SELECT application_name, pg_wal_lsn_diff(flush_lsn, '0/0') >= $1 FROM pg_stat_replication
WHERE state = 'streaming' AND application_name NOT LIKE '%_clone'
"""


class Server:
    """Its data are in ``folder/data``. It dies with the process that started it."""

    def __init__(self, name: str, address: str, folder: Path) -> None:
        self.name, self.address, self.folder = name, address, folder
        self.data = folder / "data"
        self._process: Process | None = None
        self._connection: asyncpg.Connection | None = None
        self._in_use = anyio.Lock()

    @property
    def dsn(self) -> str:
        return f"postgresql://postgres@{self.address}/postgres"

    @property
    def runs(self) -> bool:
        return self._process is not None and not self._process.ended

    @property
    def is_replica(self) -> bool:
        """Whether it would start as a replica, which takes no writes."""
        return (self.data / "standby.signal").exists()

    def make(self) -> None:
        """Begin a new database."""
        self._fill("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
        with (self.data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all all trust\nhost replication all all trust\n")

    def clone(self, address: str) -> None:
        """Forget everything, and become a replica of the server at ``address``. (pg_rewind would be quicker for a large one.)"""
        # Under another name: the primary would take the copying for the replica, and wait for it.
        source = self._source(address, f"{self.name}_clone")
        self._fill("pg_basebackup", "-R", "-X", "stream", "-c", "fast", "--no-sync", "-d", source)
        with (self.data / "postgresql.auto.conf").open("a") as settings:
            settings.write(f"primary_conninfo = '{self._source(address)}'\n")

    def start(self) -> None:
        """Start it as what it was: a primary, or a replica."""
        (self.data / "postmaster.pid").unlink(missing_ok=True)  # Whoever wrote it is dead: it died with its agent.
        host, _, port = self.address.rpartition(":")
        settings = {**SETTINGS, "listen_addresses": host, "port": port}
        flags = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [*as_nobody(), newest("postgresql").program, "-D", str(self.data), *flags]
        self._process = Process(command, self.folder / "log")

    def kill(self) -> None:
        """Demote it in the surest way: from here on it answers nobody."""
        if self._process is not None:
            self._process.kill()

    async def rows(self, sql: str, *arguments: object) -> list[Any]:
        async with self._in_use:
            if self._connection is None or self._connection.is_closed():
                self._connection = await asyncpg.connect(self.dsn, timeout=5, command_timeout=5)
            found: list[Any] = await self._connection.fetch(sql, *arguments)
            return found

    async def position(self) -> int:
        return int((await self.rows(POSITION))[0][0])

    async def promote(self) -> None:
        if (await self.rows("SELECT pg_is_in_recovery()"))[0][0]:
            await self.rows("SELECT pg_promote(true, 5)")

    async def followers(self, position: int) -> dict[str, bool]:
        """Who streams from this primary, and whether each has everything up to ``position`` on its disk."""
        return dict(await self.rows(FOLLOWERS, position))

    async def wait_for(self, names: set[str]) -> None:
        """Acknowledge a commit only when *all* of these have it on their disks."""
        await self._set("synchronous_standby_names", f"{len(names)} ({', '.join(sorted(names))})" if names else "")

    async def follow(self, address: str) -> None:
        """Receive from the server at ``address``; without one, from nobody."""
        await self._set("primary_conninfo", self._source(address) if address else "")

    async def _set(self, setting: str, value: str) -> None:
        """Change a setting; on return the server has heard of it, and has told all of its processes."""
        await self.rows(f"ALTER SYSTEM SET {setting} = '{value}'")
        await self.rows("SELECT pg_reload_conf()")
        while (await self.rows(f"SHOW {setting}"))[0][0] != value:  # noqa: ASYNC110  (it tells nobody)
            await anyio.sleep(0.01)

    def _source(self, address: str, name: str = "") -> str:
        host, _, port = address.rpartition(":")
        return f"host={host} port={port} user=postgres application_name={name or self.name}"

    def _fill(self, program: str, *arguments: str) -> None:
        self.kill()
        self.folder.mkdir(exist_ok=True)
        hand_over(self.folder)
        unfinished = self.folder / "unfinished"
        for folder in (unfinished, self.data):
            shutil.rmtree(folder, ignore_errors=True)
        tool = Path(newest("postgresql").program).resolve().parent / program
        command = [*as_nobody(), str(tool), "-D", str(unfinished), *arguments]
        run_tool(command, program, {"HOME": str(self.folder)}, "")
        unfinished.rename(self.data)
