"""The contract as SQL. Every statement is a transaction of its own, under READ COMMITTED.

MySQL has no UPDATE that returns a row, so a claim reads, and then writes a row that is still what was read: ``version`` rises with
every write. SYSDATE, and not NOW, is the time at which a row is looked at: NOW is that at which the statement began to wait for it.
"""

from typing import Final, NamedTuple

from tenure.stores.sql.rows import COUNTER_BITS

NOW: Final = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', SYSDATE(6))"  # The session's time zone is UTC.
SERVER: Final = "CONCAT(@@server_id, '/', @@hostname)"
FOREVER: Final = 2**62  # when a lease ends that no clock of the server ends

_ROW: Final = (
    "election, token, version, host, pid, nonce, serial, ttl_us, advertised, resign, withdrawn,"
    " expires_us - {now} AS left_us, {now} - since_us AS held_us, expires_us >= {forever} AS observed,"
    " @@global.read_only AS read_only"
)
# Left to right: the server is compared before it is written. A server that has become the primary begins a new epoch above
# the counter, so what it missed of the old one's tokens is below its own. A row above the counter of this very server is not counted
# on from: that would be to count in the row, and a replica that missed it would give the same token again.
_COUNT: Final = (
    "UPDATE {prefix}store SET last_token = LAST_INSERT_ID(IF(server = {server}, last_token + 1,"
    " (((GREATEST(last_token, %s) >> {bits}) + 1) << {bits}) + 1)), server = {server}"
    " WHERE one = 1 AND @@global.read_only = 0 AND (server <> {server} OR last_token >= %s)"
)
_EXPIRES: Final = "IF(%s, {forever}, {now} + %s)"
_UNCHANGED: Final = "election = %s AND token = %s AND version = %s"
_TAKE: Final = (
    "UPDATE {prefix}office SET token = %s, version = version + 1, host = %s, pid = %s, nonce = %s, serial = %s, ttl_us = %s,"
    " since_us = {now}, expires_us = {expires}, advertised = %s WHERE {unchanged} AND LOCATE(%s, withdrawn) = 0"
)
_FIRST: Final = (
    "INSERT INTO {prefix}office (token, version, host, pid, nonce, serial, ttl_us, since_us, expires_us, advertised,"
    " election) VALUES (%s, 1, %s, %s, %s, %s, %s, {now}, {expires}, %s, %s) ON DUPLICATE KEY UPDATE election = election"
)
_KEEP: Final = (
    "UPDATE {prefix}office SET version = version + 1, ttl_us = %s, expires_us = {expires}, advertised = %s"
    " WHERE {unchanged} AND expires_us > {now}"
)
_MINE: Final = "election = %s AND host = %s AND pid = %s AND nonce = %s AND serial = %s"
_RENEW: Final = (
    "UPDATE {prefix}office SET version = version + 1, expires_us = IF(%s, {forever}, {now} + ttl_us)"
    " WHERE election IN ({{elections}}) AND expires_us > {now} AND ({{rows}})"
)
_RELEASE: Final = (
    "UPDATE {prefix}office SET host = NULL, pid = NULL, nonce = NULL, serial = NULL, expires_us = {now}, resign = NULL,"
    " version = version + 1 WHERE {mine}"
)
_WITHDRAW: Final = (
    "INSERT INTO {prefix}office (election, token, version, expires_us, withdrawn) VALUES (%s, 0, 1, 0, %s)"
    " ON DUPLICATE KEY UPDATE withdrawn = LEFT(CONCAT(VALUES(withdrawn), withdrawn), 4096), version = version + 1"
)
_PROCLAIM: Final = "UPDATE {prefix}office SET advertised = %s, version = version + 1 WHERE {mine} AND token = %s AND expires_us > {now}"
_RESIGN: Final = "UPDATE {prefix}office SET resign = token, version = version + 1 WHERE election = %s AND token = %s AND nonce IS NOT NULL"
_LOOK: Final = "SELECT {row} FROM {prefix}office"
# One row whatever there is, so that a server which became read-only says so.
_FETCH: Final = "SELECT @@global.read_only AS read_only, d.version, d.value FROM (SELECT 1) one LEFT JOIN {prefix}document d ON d.name = %s"
_WRITE: Final = (
    "UPDATE {prefix}document SET value = %s, version = %s WHERE name = %s AND version = %s AND @@global.read_only = 0"
)
_WRITE_FIRST: Final = (
    "INSERT INTO {prefix}document (value, version, name) SELECT %s, %s, %s FROM (SELECT 1) one WHERE @@global.read_only = 0"
    " ON DUPLICATE KEY UPDATE name = {prefix}document.name"
)
_STORE: Final = "SELECT id, server, last_token, {server} AS here, @@global.read_only AS read_only FROM {prefix}store"


class Statements(NamedTuple):
    """What is sent, with the names of the tables in it."""

    next_token: str
    take: str
    first: str
    keep: str
    renew: str  # has places for two lists
    release: str
    withdraw: str
    proclaim: str
    resign: str
    look: str
    store: str
    fetch: str
    write: str
    write_first: str


def statements_for(prefix: str) -> Statements:
    """Return the statements for tables with this prefix, which was checked."""
    basic = {"prefix": prefix, "now": NOW, "server": SERVER, "forever": FOREVER, "bits": COUNTER_BITS}
    parts = {
        **basic,
        "row": _ROW.format(**basic),
        "expires": _EXPIRES.format(**basic),
        "unchanged": _UNCHANGED,
        "mine": _MINE,
    }
    offices = (_COUNT, _TAKE, _FIRST, _KEEP, _RENEW, _RELEASE, _WITHDRAW, _PROCLAIM, _RESIGN, _LOOK, _STORE)
    return Statements(*(statement.format(**parts) for statement in (*offices, _FETCH, _WRITE, _WRITE_FIRST)))


def renewal(template: str, count: int) -> str:
    """Return the statement that renews so many rows which are as they were read. Named by their elections first, so that no other row is locked."""
    return template.format(elections=", ".join(["%s"] * count), rows=" OR ".join([f"({_UNCHANGED})"] * count))
