"""The contract as SQL: one statement for each operation, each a transaction of its own under READ COMMITTED.

What makes that right: an UPDATE that waited for another one evaluates its WHERE and what it sets again, on the row as that one
left it, with ``clock_timestamp()`` as it is then. A second statement would see what the first one saw. The timeline is read in the
statement that makes the token: a server that is promoted between two statements has another one.
"""

from typing import Final, NamedTuple

from tenure.stores.sql.rows import COUNTER_BITS

# On a standby this fails, which is right. Anybody may call it. What pg_control_checkpoint() says is as old as the last
# checkpoint, and a promotion does not wait for one.
TIMELINE: Final = "('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint"

_EXPIRES: Final = (
    "CASE WHEN {observed} THEN 'infinity' ELSE clock_timestamp() + {ttl_us} * interval '1 microsecond' END"
)
_ROW: Final = """
    o.tableoid AS table_oid, o.election, o.token, o.version, o.host, o.pid, o.nonce, o.serial, o.ttl_us, o.advertised, o.resign,
    CASE WHEN isfinite(o.expires) THEN (extract(epoch FROM o.expires - clock_timestamp()) * 1000000)::bigint END AS left_us,
    (extract(epoch FROM clock_timestamp() - o.since) * 1000000)::bigint AS held_us"""
# $1 election  $2 host  $3 pid  $4 nonce  $5 serial  $6 ttl in microseconds  $7 advertised  $8 observed
# $9, $10 token and version of a row whose lease is over for an observer  $11 goes on  $12 mark
_CLAIM: Final = """
UPDATE {schema}.office o SET
    token = CASE WHEN {same} THEN o.token WHEN {ours} THEN greatest({next}, o.token + 1) ELSE {next} END,
    since = CASE WHEN {same} THEN o.since ELSE clock_timestamp() END,
    host = $2, pid = $3, nonce = $4, serial = $5, ttl_us = $6::bigint, expires = {expires}, advertised = $7,
    version = o.version + 1
WHERE o.election = $1 AND strpos(o.withdrawn, $12) = 0 AND (
    o.nonce IS NULL
    OR (o.nonce = $4 AND o.host = $2 AND o.pid = $3 AND o.serial <= $5)
    OR (NOT $8::boolean AND o.expires <= clock_timestamp())
    OR ($8::boolean AND o.token = $9 AND o.version = $10))
RETURNING o.token AS taken, o.version AS as_version, o.tableoid AS table_oid"""
# A row above the timeline is from a dump of other servers, whose tokens are for other fences. To count on from it would be to count in
# a row: a replica that missed the last count, and whose timeline is still below, would give that token again.
_OURS: Final = "o.token >> {bits} <= {timeline}"
_SAME: Final = "(o.nonce = $4 AND o.host = $2 AND o.pid = $3 AND o.serial = $5 AND o.expires > clock_timestamp() AND $11::boolean AND {ours}) IS TRUE"
_FIRST: Final = """
INSERT INTO {schema}.office AS o (election, token, version, host, pid, nonce, serial, ttl_us, since, expires, advertised)
VALUES ($1, {next}, 1, $2, $3, $4, $5, $6::bigint, clock_timestamp(), {expires}, $7)
ON CONFLICT DO NOTHING RETURNING o.token AS taken, o.version AS as_version, o.tableoid AS table_oid"""
# $1 elections  $2 tokens  $3 hosts  $4 pids  $5 nonces  $6 serials  $7 ttls  $8 observed
_RENEW: Final = """
UPDATE {schema}.office o SET expires = {expires}, ttl_us = g.ttl_us, version = o.version + 1
FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::bigint[])
    AS g (election, token, host, pid, nonce, serial, ttl_us)
WHERE o.election = g.election AND o.token = g.token AND o.host = g.host AND o.pid = g.pid AND o.nonce = g.nonce
    AND o.serial = g.serial AND o.expires > clock_timestamp()
RETURNING o.election, o.token, o.version, (o.resign = o.token) IS TRUE AS asked, o.tableoid AS table_oid"""
_MINE: Final = "o.election = $1 AND o.host = $2 AND o.pid = $3 AND o.nonce = $4 AND o.serial = $5"
# Whoever listens hears of it once the row is free, and not before.
_RELEASE: Final = """
UPDATE {schema}.office o SET host = NULL, pid = NULL, nonce = NULL, serial = NULL, expires = clock_timestamp(),
    resign = NULL, version = o.version + 1
WHERE {mine} RETURNING pg_notify('{channel}', o.election)"""
# A claim that waits for this very row evaluates its WHERE again, and finds its mark.
_WITHDRAW: Final = """
INSERT INTO {schema}.office AS o (election, token, version, expires, withdrawn)
VALUES ($1, 0, 1, clock_timestamp(), $2)
ON CONFLICT (election) DO UPDATE SET withdrawn = left($2 || o.withdrawn, 4096), version = o.version + 1"""
_PROCLAIM: Final = """
UPDATE {schema}.office o SET advertised = $7, version = o.version + 1
WHERE {mine} AND o.token = $6 AND o.expires > clock_timestamp() RETURNING o.token"""
_RESIGN: Final = """
UPDATE {schema}.office o SET resign = o.token, version = o.version + 1
WHERE o.election = $1 AND o.token = $2 AND o.nonce IS NOT NULL RETURNING o.token"""

_FETCH: Final = "SELECT d.value, d.version FROM {schema}.document d WHERE d.key = $1"
_WRITE: Final = (
    "UPDATE {schema}.document SET value = $2, version = $3 WHERE key = $1 AND version = $4 RETURNING version"
)
_WRITE_FIRST: Final = "INSERT INTO {schema}.document VALUES ($1, $3, $2) ON CONFLICT DO NOTHING RETURNING version"

_LOOK: Final = "SELECT {row} FROM {schema}.office o"


class Statements(NamedTuple):
    """What is sent, with the name of the schema in it."""

    claim: str
    first: str
    renew: str
    release: str
    withdraw: str
    proclaim: str
    resign: str
    look: str
    look_at_all: str
    fetch: str
    write: str
    write_first: str


def channel_of(schema: str) -> str:
    """Return where releases are told of."""
    return f"{schema}_office"


def statements_for(schema: str) -> Statements:
    """Return the statements for tables in this schema, whose name was checked."""
    ours = _OURS.format(bits=COUNTER_BITS, timeline=TIMELINE)
    parts = {
        "schema": schema,
        "row": _ROW,
        "next": f"(({TIMELINE} << {COUNTER_BITS}) | nextval('{schema}.token'))",
        "ours": ours,
        "same": _SAME.format(ours=ours),
        "mine": _MINE,
        "channel": channel_of(schema),
        "expires": _EXPIRES.format(observed="$8::boolean", ttl_us="$6::bigint"),
    }
    look = _LOOK.format(**parts)
    return Statements(
        _CLAIM.format(**parts),
        _FIRST.format(**parts),
        _RENEW.format(**parts | {"expires": _EXPIRES.format(observed="$8::boolean", ttl_us="g.ttl_us")}),
        _RELEASE.format(**parts),
        _WITHDRAW.format(**parts),
        _PROCLAIM.format(**parts),
        _RESIGN.format(**parts),
        f"{look} WHERE o.election = ANY($1::text[])",
        look,
        _FETCH.format(**parts),
        _WRITE.format(**parts),
        _WRITE_FIRST.format(**parts),
    )
