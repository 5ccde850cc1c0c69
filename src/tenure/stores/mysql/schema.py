"""The tables, as they are made on demand and as they are printed for those who make them by hand."""

from typing import Final

# Bytes and not text: a collation may take two names for one, and text is compared without the blanks at its end.
_TABLES: Final = (
    """\
CREATE TABLE IF NOT EXISTS {prefix}store (
    one        tinyint NOT NULL PRIMARY KEY,
    id         varchar(64) NOT NULL,
    server     varchar(300) NOT NULL,  -- which server gave the last token
    last_token bigint NOT NULL
) ENGINE = InnoDB""",
    """\
CREATE TABLE IF NOT EXISTS {prefix}office (
    election   varbinary(1024) NOT NULL PRIMARY KEY,
    token      bigint NOT NULL,  -- of the last tenure; the row stays when its office is free
    version    bigint NOT NULL,
    host       varbinary(1024),
    pid        bigint,
    nonce      varbinary(1024),  -- NULL: nobody is in office
    serial     bigint,
    ttl_us     bigint,
    since_us   bigint,           -- microseconds since 1970, by the server's clock
    expires_us bigint NOT NULL,
    resign     bigint,           -- the token of a tenure that was asked to end
    advertised varbinary(4096) NOT NULL DEFAULT '',
    withdrawn  varbinary(4096) NOT NULL DEFAULT ''
) ENGINE = InnoDB""",
    """\
CREATE TABLE IF NOT EXISTS {prefix}document (
    name    varbinary(1024) NOT NULL PRIMARY KEY,
    version varbinary(64) NOT NULL,
    value   mediumblob NOT NULL
) ENGINE = InnoDB""",
    "INSERT INTO {prefix}store VALUES (1, MD5(CONCAT(UUID(), RAND())), '', 0) ON DUPLICATE KEY UPDATE one = one",
)

_GRANTS: Final = """\
-- What elections and documents need, and no more. Put your own user where it says {user}.
GRANT SELECT, UPDATE ON {database}.{prefix}store TO {user};
GRANT SELECT, INSERT, UPDATE ON {database}.{prefix}office TO {user};
GRANT SELECT, INSERT, UPDATE ON {database}.{prefix}document TO {user};
"""


def creation(prefix: str) -> list[str]:
    """Return what makes the tables that are missing, and harms none that are there."""
    return [statement.format(prefix=prefix) for statement in _TABLES]


def migration(prefix: str, database: str, user: str) -> str:
    """Return the same for the ``mysql`` command, with the rights of a user who may do nothing else."""
    tables = "".join(f"{statement};\n" for statement in creation(prefix))
    grants = _GRANTS.format(prefix=prefix, database=f"`{database}`", user=f"'{user}'@'%'")
    return f"USE `{database}`;\n{tables}\n{grants}"
