"""The tables, as they are made on demand and as they are printed for those who make them by hand."""

from typing import Final

from tenure.stores.sql.rows import COUNTER_MAX

# Whoever makes the tables holds this advisory lock: CREATE … IF NOT EXISTS of two at once may fail in one of them.
_LOCK: Final = 7_310_295_141_702_455_914

_TABLES: Final = """\
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE IF NOT EXISTS {schema}.store (id text PRIMARY KEY);
CREATE SEQUENCE IF NOT EXISTS {schema}.token MAXVALUE {most} NO CYCLE;
CREATE TABLE IF NOT EXISTS {schema}.office (
    election   text PRIMARY KEY,
    token      bigint NOT NULL CHECK (token >= 0),  -- of the last tenure; the row stays when its office is free
    version    bigint NOT NULL,
    host       text,
    pid        bigint,
    nonce      text,                                -- NULL: nobody is in office
    serial     bigint,
    ttl_us     bigint,
    since      timestamptz,
    expires    timestamptz NOT NULL,
    resign     bigint,                              -- the token of a tenure that was asked to end
    advertised text NOT NULL DEFAULT '',
    withdrawn  text NOT NULL DEFAULT ''
) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS {schema}.document (
    key     text PRIMARY KEY,
    version text NOT NULL,
    value   bytea NOT NULL
);
INSERT INTO {schema}.store SELECT md5(random()::text || clock_timestamp()::text)
    WHERE NOT EXISTS (SELECT FROM {schema}.store);
"""

_GRANTS: Final = """\
-- What elections and documents need, and no more. Put your own role where it says {role}.
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT ON {schema}.store TO {role};
GRANT USAGE ON SEQUENCE {schema}.token TO {role};
GRANT SELECT, INSERT, UPDATE ON {schema}.office, {schema}.document TO {role};
"""


def _tables(schema: str) -> str:
    return _TABLES.format(schema=schema, most=COUNTER_MAX)


def creation(schema: str) -> str:
    """Return what makes the tables that are missing, for one transaction."""
    return f"SELECT pg_advisory_xact_lock({_LOCK});\n{_tables(schema)}"


def migration(schema: str, role: str) -> str:
    """Return the same for ``psql``, with the rights of a role that may do nothing else."""
    shown = f'"{role}"' if role else "tenure"
    return f"BEGIN;\n{_tables(schema)}\n{_GRANTS.format(schema=schema, role=shown)}COMMIT;\n"


def grant_for(message: str, schema: str, role: str) -> str:
    """Return which GRANT a refusal asks for."""
    grants = {
        "schema": f"GRANT USAGE ON SCHEMA {schema}",
        "table store": f"GRANT SELECT ON {schema}.store",
        "sequence": f"GRANT USAGE ON SEQUENCE {schema}.token",
        "table document": f"GRANT SELECT, INSERT, UPDATE ON {schema}.document",
        "table office": f"GRANT SELECT, INSERT, UPDATE ON {schema}.office",
    }
    missing = next((grant for what, grant in grants.items() if f"for {what}" in message), None)
    if missing is None:
        return "have somebody run what tenure doctor --schema prints"
    return f'have somebody run: {missing} TO "{role}"'
