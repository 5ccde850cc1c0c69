"""The guard row of a fence, and the one statement that checks it.

Rules of this file
1. The check is a statement that *could* write, also if it changes nothing. SQLite therefore takes the write lock before
   the check and keeps it until the transaction ends: no other token can come between the check and the write.
2. It is never a plain SELECT. In WAL mode a transaction that has read something reads from that snapshot to its end:
   a. the old leader begins, and reads;   b. its successor seals with token 2, and commits;
   c. the old leader reads the guard row: still 1, in its snapshot, and believes itself.
   A statement that could write fails at c with SQLITE_BUSY_SNAPSHOT, for an old snapshot cannot be written to.
3. A token that the fence stands at already changes no page: after the seal, a fence costs nothing in the log.
"""

import sqlite3
import sys
from contextlib import suppress

from tenure.errors import ConfigError, Refused, UnverifiedToken
from tenure.model import Token, token
from tenure.sinks.base import Bound
from tenure.sinks.fence import Fence
from tenure.sinks.sqlite.presence import presence_of

TABLE = "tenure_fence"
# WITHOUT ROWID: the name is the key of the table itself, so a check is one search and not two. CHECK: for whoever edits it by hand. 0 is what
# a fence may be lowered to.
CREATE = (
    "CREATE TABLE IF NOT EXISTS main.tenure_fence (fence TEXT NOT NULL PRIMARY KEY, highest INTEGER NOT NULL "
    "CHECK (typeof(highest) = 'integer' AND highest >= 0)) WITHOUT ROWID"
)
# Equal: the WHERE lets nothing happen. Higher or new: raised. Lower: NULL, which the column refuses.
RAISE = (
    "INSERT INTO main.tenure_fence (fence, highest) VALUES (?1, ?2) ON CONFLICT (fence) DO UPDATE "
    "SET highest = CASE WHEN excluded.highest > highest THEN excluded.highest END WHERE excluded.highest <> highest"
)
# Equal: there is such a row, so nothing happens. Anything else: NULL, which the column refuses.
HOLD = (
    "INSERT INTO main.tenure_fence (fence, highest) VALUES (?1, "
    "(SELECT highest FROM main.tenure_fence WHERE fence = ?1 AND highest = ?2)) ON CONFLICT (fence) DO NOTHING"
)
_HIGHEST = "SELECT highest FROM main.tenure_fence WHERE fence = ?"
_SNAPSHOT_NOTE = (
    "This transaction read before somebody else wrote, so its view is too old to be written to: "
    "roll it back, and begin it with BEGIN IMMEDIATE."
)


def guard(connection: sqlite3.Connection, term: Bound, *, sealed_only: bool = False) -> None:
    """Make the transaction that is open on ``connection`` a fenced one, whoever began it. Call it first in there.

    And outside any savepoint: one that is rolled back lowers the fence again that the token has raised, and what else is written
    under the token is committed though lower ones are let in.

    Until the transaction ends, nobody can raise the fence. The fence is raised if the token is higher than any seen;
    with ``sealed_only`` such a token is refused as UnverifiedToken, so that a wrong one can lock nobody out.

    Raises StaleToken if a larger token was here. Whatever it raises, the transaction has been rolled back: what it had
    written cannot be committed by mistake. If none is open, one is begun where the connection begins transactions by
    itself (``isolation_level``), and ConfigError is raised where it does not: alone, the check would be worth nothing.
    """
    # Otherwise sqlite3 puts a BEGIN before our statement, since it could write.
    if not connection.in_transaction and is_manual(connection):
        raise ConfigError("transaction", "none is open", "must be open before guard: execute BEGIN IMMEDIATE first")
    fence, number = term.fence, term.token
    admitted = False
    try:
        admit(connection.cursor(), fence, number, HOLD if sealed_only else RAISE)
        admitted = True
    finally:
        if not admitted and connection.in_transaction:
            _roll_back(connection)
    presence_of(connection).tokens[fence] = number


def admit(cursor: sqlite3.Cursor, fence: str, number: int, statement: str) -> None:
    """Check the fence by RAISE or HOLD, within the transaction that is open on the cursor's connection.

    Takes the write lock first (rule 1). Raises StaleToken, or UnverifiedToken for a higher token that is not to raise
    the fence; the caller then rolls back.
    """
    # SQLite would compare 7.0 and "7" as numbers, and let them pass where the fence stands at 7.
    if type(number) is not int:
        _check(fence, number)
    try:
        cursor.execute(statement, (fence, number))
    except (sqlite3.IntegrityError, OverflowError) as error:
        raise _refusal(cursor, fence, number) from error
    except sqlite3.OperationalError as error:
        if str(error) != f"no such table: main.{TABLE}":
            _explain(error)
            raise
        _create(cursor)
        admit(cursor, fence, number, statement)
    if cursor.rowcount:  # The fence was raised: rare, so this is where to look whether it may stand there.
        _check(fence, number)


def highest_of(cursor: sqlite3.Cursor, fence: str) -> int:
    """Return the highest token that the fence has seen; 0: none. To tell people, not to decide by (rule 2)."""
    cursor.row_factory = None  # The caller's connection may turn rows into something else.
    row = cursor.execute(_HIGHEST, (fence,)).fetchone()
    return highest_in(fence, row[0]) if row else 0


def highest_in(fence: str, found: object) -> int:
    """Return what was found as the highest token of the fence. Raises Refused for what somebody edited, who finds no CHECK in old tables."""
    if type(found) is int and found >= 0:
        return found
    detail = f"{TABLE} was edited: {fence} stands at {str(found)[:40]!r}, which is no token. Mend it, and nothing is written until then"
    raise Refused("SQLite database", "read", detail)


def _create(cursor: sqlite3.Cursor) -> None:
    try:
        cursor.execute(CREATE)
    except sqlite3.OperationalError as error:
        _explain(error)
        raise


def _refusal(cursor: sqlite3.Cursor, fence: str, number: int) -> UnverifiedToken:
    """Raise what says why a token was not admitted, or return that it is higher than any seen."""
    presented = _check(fence, number)
    highest = highest_of(cursor, fence)
    Fence(highest).admit(presented)
    return UnverifiedToken(presented, highest)


def _check(fence: str, number: int) -> Token:
    if not fence or "\0" in fence:
        raise ConfigError("fence", repr(fence), "must have a name, without a NUL in it")
    return token(number)


def _explain(error: sqlite3.OperationalError) -> None:
    if getattr(error, "sqlite_errorname", "") == "SQLITE_BUSY_SNAPSHOT":
        error.add_note(_SNAPSHOT_NOTE)


def is_manual(connection: sqlite3.Connection) -> bool:
    """Return whether transactions begin only where the caller says BEGIN."""
    # Where Python 3.12 has ``autocommit`` set, isolation_level means nothing.
    return connection.isolation_level is None or (sys.version_info >= (3, 12) and connection.autocommit is True)


def _roll_back(connection: sqlite3.Connection) -> None:
    # Within a transaction of a SQLiteSink only the sink may end it, and does when the error reaches it.
    with suppress(sqlite3.DatabaseError):
        if is_manual(connection):
            connection.execute("ROLLBACK")  # With ``autocommit`` the method would do nothing.
        else:
            connection.rollback()
