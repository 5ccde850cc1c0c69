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


def set_up_sql() -> str:
    """Return the SQL that makes the table of fences in the current database, for those who let no program do so."""
    return SET_UP.rstrip() + ";\n"


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
