"""The examination of a MySQL or MariaDB: which server it is, what it is set to, and an election."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tenure.stores.examining import Finding, bad, good, warning
from tenure.stores.judging import judge_clock, judge_plain, promises
from tenure.stores.measuring import part, try_election
from tenure.stores.mysql.statements import NOW, SERVER
from tenure.stores.sql.rows import EPOCH_MAX, epoch_of
from tenure.stores.sql.store import TRIAL

if TYPE_CHECKING:
    from tenure.stores.mysql.store import MySqlStore

_ABOUT: Final = f"""
SELECT VERSION() AS version, {SERVER} AS server, @@server_id AS server_id, @@innodb_flush_log_at_trx_commit AS flush,
    @@log_bin AS log_bin, @@sync_binlog AS sync_binlog, @@binlog_format AS format, {NOW} / 1000000.0 AS now_s"""
_STATEMENT: Final = "STATEMENT"


async def examine(store: "MySqlStore", ttl_ns: int) -> list[Finding]:
    """Examine the server of a store that is not open, and that will not be opened again."""
    async with store:
        found = await part("server", _server(store))
        found += await try_election(store, TRIAL, ttl_ns, shared=True)
        return [*found, *promises(store.traits)]


async def _server(store: "MySqlStore") -> list[Finding]:
    began_s = time.time()
    about = await store.engine.about(_ABOUT)
    middle_s = (began_s + time.time()) / 2
    last = await store.engine.about(f"SELECT last_token FROM {store.settings.prefix}store")  # noqa: S608  (it was checked)
    hosts = [endpoint.rpartition(":")[0] for endpoint in store.sql.endpoints]
    epoch = epoch_of(int(last["last_token"]))
    return [
        good("version", str(about["version"])),
        good("primary", f"{about['server']} takes writes; epoch {epoch} of {EPOCH_MAX} that tokens have room for"),
        judge_durability(about),
        *judge_format(about),
        judge_encryption(hosts, store.settings.mode),
        judge_clock(float(about["now_s"]) - middle_s),
    ]


def judge_durability(about: Mapping[str, Any]) -> Finding:
    """Judge whether what the server says to have written is there after a crash, and at its replicas."""
    careless = []
    if int(about["flush"]) != 1:
        careless.append("innodb_flush_log_at_trx_commit = 1")
    if int(about["log_bin"]) and int(about["sync_binlog"]) != 1:
        careless.append("sync_binlog = 1")
    if careless:
        told = "what is answered may be gone after a crash of the machine, and a token be given again"
        return warning("durability", told, f"set {' and '.join(careless)}")
    return good("durability", "what is answered is on the disk")


def judge_format(about: Mapping[str, Any]) -> list[Finding]:
    """Judge whether our writes can be copied to replicas at all."""
    if int(about["log_bin"]) and str(about["format"]).upper() == _STATEMENT:
        detail = "binlog_format is STATEMENT, with which no server takes writes at our isolation level"
        return [bad("replication", detail, "set it to ROW or MIXED")]
    return []


def judge_encryption(hosts: list[str], mode: str) -> Finding:
    """Judge how we are connected."""
    if mode == "disabled":
        return judge_plain(hosts)
    if mode == "required":
        advice = "use ssl_ca=…: else whoever is on the way can pose as the server"
        return warning("encryption", "TLS, and the certificate is not checked (ssl_mode=required)", advice)
    return good("encryption", f"TLS, ssl_mode={mode}")
