"""The examination of a PostgreSQL: which server it is, what it is set to, what we may do there, and an election."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tenure.stores.base import Wake
from tenure.stores.examining import Finding, Level, bad, good, warning
from tenure.stores.judging import judge_clock, judge_plain, promises
from tenure.stores.measuring import part, try_election
from tenure.stores.sql.rows import EPOCH_MAX
from tenure.stores.sql.store import TRIAL

if TYPE_CHECKING:
    from tenure.stores.postgresql.store import PostgresStore

_SERVER: Final = """
SELECT current_setting('server_version') AS version, current_setting('fsync') AS fsync,
    current_setting('full_page_writes') AS full_page_writes, current_setting('synchronous_standby_names') AS standbys,
    (SELECT count(*) FROM pg_stat_replication) AS replicas, extract(epoch FROM clock_timestamp()) AS now_s,
    (SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()) AS encrypted"""
_RIGHTS: Final = """
SELECT has_table_privilege('{schema}.office', 'SELECT') AS "SELECT", has_table_privilege('{schema}.office', 'INSERT') AS "INSERT",
    has_table_privilege('{schema}.office', 'UPDATE') AS "UPDATE", has_sequence_privilege('{schema}.token', 'USAGE') AS "USAGE" """
_OLDEST: Final = 13  # the oldest that its makers kept when this was written


async def examine(store: "PostgresStore", ttl_ns: int) -> list[Finding]:
    """Examine the server of a store that is not open, and that will not be opened again."""
    async with store:
        found = await part("server", _server(store))
        rights = await part("rights", _rights(store))
        found += rights
        if all(finding.level is Level.GOOD for finding in rights):
            found += await try_election(store, TRIAL, ttl_ns, shared=True)
        await store.engine.try_to_listen()
        found.append(judge_waking(store.traits.wake, store.sql.poll_s))
        return [*found, *promises(store.traits)]


async def _server(store: "PostgresStore") -> list[Finding]:
    began_s = time.time()
    about, timeline, pooled = await store.engine.about(_SERVER)
    middle_s = (began_s + time.time()) / 2
    hosts = [endpoint.rpartition(":")[0] for endpoint in store.sql.endpoints]
    return [
        judge_version(str(about["version"])),
        good("primary", f"takes writes, on timeline {timeline} of {EPOCH_MAX} that tokens have room for"),
        judge_replicas(int(about["replicas"]), str(about["standbys"])),
        judge_durability(about),
        judge_encryption(hosts, store.settings.mode, encrypted=bool(about["encrypted"]), pooled=pooled),
        judge_clock(float(about["now_s"]) - middle_s),
        *([good("pooler", "between us and the server: every operation is a transaction of its own")] if pooled else []),
    ]


async def _rights(store: "PostgresStore") -> list[Finding]:
    schema = store.settings.schema
    may, _, _ = await store.engine.about(_RIGHTS.format(schema=schema))
    missing = [right for right, given in may.items() if not given]
    if missing:
        detail = f"we may not {', '.join(missing)} in the schema {schema}"
        return [bad("rights", detail, "have somebody run what tenure doctor --schema prints")]
    return [good("rights", f"we may do in the schema {schema} what elections need")]


def judge_version(version: str) -> Finding:
    """Judge the version of the server."""
    major = version.partition(".")[0]
    if major.isdigit() and int(major) < _OLDEST:
        return warning("version", version, f"its makers mend {_OLDEST} and later only: upgrade")
    return good("version", version)


def judge_replicas(count: int, synchronous: str) -> Finding:
    """Judge what is left if the primary fails."""
    if not count:
        return good("replicas", "none: while this server is down, nobody takes office")
    if synchronous:
        return good("replicas", f"{count}, and commits wait for {synchronous}")
    told = f"{count}, which commits do not wait for: one that is promoted may have missed the last tenures"
    return good("replicas", f"{told}; its tokens are higher all the same")


def judge_durability(about: Mapping[str, Any]) -> Finding:
    """Judge whether what the server says to have written is there after a crash."""
    off = [name for name in ("fsync", "full_page_writes") if about[name] != "on"]
    if off:
        advice = f"set {' and '.join(f'{name} = on' for name in off)}: after a crash a token may be given again"
        return bad("durability", f"{' and '.join(off)} off", advice)
    return good("durability", "what is answered is on the disk; a role that is set otherwise is overruled")


def judge_encryption(hosts: list[str], mode: str, *, encrypted: bool, pooled: bool) -> Finding:
    """Judge how we are connected."""
    if pooled:
        return good(
            "encryption", f"up to the pooler, as sslmode={mode} says; what it does behind that is its own affair"
        )
    if not encrypted:
        return judge_plain(hosts)
    if mode in ("verify-full", "verify-ca"):
        return good("encryption", f"TLS, sslmode={mode}")
    advice = "use sslmode=verify-full and sslrootcert=…: else whoever is on the way can pose as the server"
    return warning("encryption", f"TLS, and the certificate is not checked (sslmode={mode})", advice)


def judge_waking(wake: Wake, poll_s: float) -> Finding:
    """Say how a standby hears of a release."""
    if wake is Wake.NOTIFY:
        return good("notify", f"what is sent arrives; behind it a look every {poll_s:g} s at least")
    told = f"NOTIFY does not arrive, so a standby looks every {poll_s:g} s at least"
    return warning("notify", told, "connect past the pooler, or have it pool sessions, to hand over in milliseconds")
