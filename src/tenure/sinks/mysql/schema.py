"""The fence table, as MySQL and MariaDB have it."""

import re
from hashlib import md5
from typing import Final

from tenure.errors import ConfigError

TABLE: Final = "tenure_fence"
# Bytes and not characters: a collation would take 'a' and 'A', or 'a' and 'a ', for one fence.
SET_UP: Final = """\
CREATE TABLE IF NOT EXISTS tenure_fence (
  fence VARBINARY(1000) NOT NULL PRIMARY KEY CHECK (fence <> ''),
  highest BIGINT NOT NULL CHECK (highest >= 1),
  raised_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  raised_by VARCHAR(255) NOT NULL DEFAULT ''
) ENGINE = InnoDB
"""
# Who lowered a fence by hand. Leaders have no right to it.
REPAIRS: Final = """\
CREATE TABLE IF NOT EXISTS tenure_fence_repairs (
  repair BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  fence VARBINARY(1000) NOT NULL,
  was BIGINT NOT NULL,
  now BIGINT NOT NULL,
  who VARCHAR(500) NOT NULL,
  `when` VARCHAR(40) NOT NULL,
  why VARCHAR(500) NOT NULL,
  lowered_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  lowered_by VARCHAR(255) NOT NULL
) ENGINE = InnoDB CHARACTER SET utf8mb4
"""


def set_up_sql() -> str:
    """Return the SQL that makes the tables of fences in the current database, for those who let no program do so."""
    return f"{SET_UP.rstrip()};\n{REPAIRS.rstrip()};\n"


def grants_sql(user: str, database: str) -> str:
    """Return the SQL that gives a user, such as ``'app'@'%'``, the least that a leader needs.

    To end the session of an older leader that is frozen, it needs PROCESS as well, and to be the same user.
    """
    if not re.fullmatch(r"'[^'\\]+'@'[^'\\]+'", user):
        raise ConfigError("user", user, "must be written like 'app'@'%'")
    return f"GRANT SELECT, INSERT, UPDATE ON {quoted(database)}.tenure_fence TO {user};\n"


def variable_of(fence: str) -> str:
    """Return the name of the session variable that shows a token for this fence to triggers."""
    return f"tenure_{md5(fence.encode(), usedforsecurity=False).hexdigest()}"


def quoted(name: str) -> str:
    """Return a name as SQL has it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"
