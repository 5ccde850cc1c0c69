"""What a sink says to MySQL and MariaDB.

Rules of this file
1. The check is a locking read of the fence's row. InnoDB reads the newest version of a row that it locks, whatever snapshot
   the transaction has, so one statement holds at every level of isolation. (MariaDB with ``innodb_snapshot_isolation``
   fails instead, which is as good.) Its locks are in memory: a shared one writes nothing.
2. A plain SELECT would not do: under REPEATABLE READ it shows the row as it was when the transaction first read anything.
3. A shared lock is never raised to one of one's own: two that do so at once wait for each other.
4. The fence table of a sink is named with its database. A caller may say ``USE other`` inside and write on by longer names; and
   the table of that name there, of another sink, knows nothing of this one's seals.
"""

from functools import lru_cache
from typing import Any, Final

from tenure.errors import (
    ConfigError,
    OutcomeUnknown,
    Refused,
    StaleToken,
    StoreError,
    TenureError,
    Unreachable,
    UnverifiedToken,
)
from tenure.sinks.mysql import triggers
from tenure.sinks.mysql.schema import SET_UP, TABLE, quoted, variable_of
from tenure.sinks.sql.dialect import Opening, Unready, Worded
from tenure.sinks.sql.talk import Ask, Rows, Talk, Trouble

LEVELS: Final = ("", "read committed", "repeatable read", "serializable")
_NO_TABLE, _NO_VARIABLE, _NO_VIEW = "1146", "1193", "1109"
_LOCK_TIMEOUT, _NO_SESSION = "1205", "1094"
_CONFLICTS = {"1213", "1020"}  # a deadlock; a row that has changed since the snapshot
_SHUT_DOWN = {"1053", "1927", "4031", "1317"}
_READ_ONLY = {"1290", "1836", "1792"}
_NO_RIGHT = {"1142", "1143", "1044", "1227", "1370", "1419"}
_NOT_LET_IN = {"1044", "1045", "1049", "1698", "1130"}
_FULL = {"1040", "1203"}
_NOT_COMMITTED, _NOT_READ, _NOT_PREPARED = "31004", "1064", "1243"  # of ours; cannot be read; no such statement
_TEXTS_MAX = 256
_LONGER = 3  # So many times as long as until the sessions in its way are ended does a seal wait in all.

_BLOCKERS = (
    "SELECT DISTINCT blocker.trx_mysql_thread_id FROM information_schema.innodb_lock_waits AS waits "
    "JOIN information_schema.innodb_trx AS blocker ON blocker.trx_id = waits.blocking_trx_id "
    "JOIN information_schema.innodb_trx AS waiter ON waiter.trx_id = waits.requesting_trx_id "
    "JOIN information_schema.innodb_locks AS locks ON locks.lock_id = waits.blocking_lock_id "
    "WHERE waiter.trx_mysql_thread_id = %s AND RIGHT(locks.lock_table, 15) = '.`tenure_fence`'"
)
# MariaDB shows what it has shown before if anybody has looked within 0.1 s, so one look may show nothing, and the next must come
# later than that: https://mariadb.com/kb/en/information-schema-innodb_trx-table/
_UNTIL_THE_NEXT_LOOK = "SELECT SLEEP(0.25)"
_BLOCKERS_IN_MYSQL_8 = (
    "SELECT DISTINCT blocker.processlist_id FROM performance_schema.data_lock_waits AS waits "
    "JOIN performance_schema.threads AS blocker ON blocker.thread_id = waits.blocking_thread_id "
    "JOIN performance_schema.threads AS waiter ON waiter.thread_id = waits.requesting_thread_id "
    "JOIN performance_schema.data_locks AS locks ON locks.engine_lock_id = waits.blocking_engine_lock_id "
    "WHERE waiter.processlist_id = %s AND locks.object_name = 'tenure_fence'"
)


class _Words:
    """What is said of the fence table, which is named with its database (rule 4)."""

    __slots__ = ("held_to_commit", "hold", "look", "prepare", "raised", "set_up")

    def __init__(self, table: str) -> None:
        self.set_up = SET_UP.replace(TABLE, table, 1)
        # The check and the commit as one statement, which MySQL does not have. It commits, or fails and does not. Prepared once for
        # each session: read anew with every commit, it would take half as long again.
        # The read is an operand: SELECT … INTO a variable that is declared took a fifth of the check, and locks no more than this.
        finish = (
            f"BEGIN NOT ATOMIC IF (SELECT highest FROM {table} WHERE fence = ? LOCK IN SHARE MODE) = ? AND NOT @@autocommit "  # noqa: S608  (a name of ours)
            "THEN COMMIT; ELSE SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 31004; END IF; END"
        )
        # As digits: what a name may have in it, servers with NO_BACKSLASH_ESCAPES read otherwise than the rest.
        self.prepare = f"PREPARE tenure_finish FROM CONVERT(X'{finish.encode().hex()}' USING utf8mb4)"
        # The others come with values, for which drivers look by a %.
        name = table.replace("%", "%%")
        # As digits: asyncmy writes bytes with backslashes, which a server with NO_BACKSLASH_ESCAPES reads as they stand.
        self.look = f"SELECT highest FROM {name} WHERE fence = UNHEX(%s)"  # noqa: S608  (a name of ours)
        self.hold = f"{self.look} LOCK IN SHARE MODE"
        self.held_to_commit = self.hold.replace("highest", "highest, @@autocommit", 1)
        # What is assigned first is computed from the row as it was.
        self.raised = (
            f"INSERT INTO {name} (fence, highest, raised_by) VALUES (UNHEX(%s), %s, CURRENT_USER()) ON DUPLICATE KEY UPDATE "  # noqa: S608
            "raised_at = IF(%s > highest, CURRENT_TIMESTAMP(6), raised_at), raised_by = IF(%s > highest, CURRENT_USER(), raised_by), "
            "highest = GREATEST(highest, %s)"
        )


class MySQLDialect:
    """See ``Dialect``. ``database`` is where the fences are; empty: wherever a connection happens to be."""

    needs_helper = True

    def __init__(self, database: str = "") -> None:
        self._database, self._table = database, f"{quoted(database)}.{TABLE}" if database else TABLE
        self._words = _Words(self._table)
        # By fence: the server's number for the session that seals it, and with which token.
        self._waiting: dict[str, tuple[int, int]] = {}
        self._is_mariadb = True  # until the server says otherwise

    def settings(self, idle_ms: int, *, is_own: bool) -> Talk[None]:  # noqa: ARG002
        idle_s = max(idle_ms // 1000, 1)
        try:
            yield Ask(f"SET SESSION idle_transaction_timeout = {idle_s:d}")
        except Trouble as trouble:
            if trouble.code != _NO_VARIABLE:
                raise
            self._is_mariadb = False
            # MySQL has no other that ends who is inside a transaction.
            yield Ask(f"SET SESSION wait_timeout = {idle_s:d}")
            return
        try:
            yield Ask(self._words.prepare)
        except Trouble as trouble:
            if not trouble.code or self.is_ended(trouble):
                raise
            # With sql_mode ORACLE it speaks another language, in which this cannot be said. Any other refusal, as of one statement too
            # many in the server, is of this session: its commits find nothing prepared, and are made in steps.
            if trouble.code == _NOT_READ:
                self._is_mariadb = False

    def set_up(self) -> Talk[None]:
        try:
            # Or the driver warns everybody that it is there already.
            yield Ask(f"SELECT 1 FROM {self._table} LIMIT 0")  # noqa: S608  (a name of ours)
            yield Ask("COMMIT")
        except Trouble as trouble:
            if trouble.code != _NO_TABLE:
                raise
            yield Ask(self._words.set_up)

    def begin(self, opening: Opening) -> list[Ask]:
        isolation, fence, token, (before, shown), _, _ = opening
        if isolation not in LEVELS:
            raise ConfigError("isolation", isolation, f"must be one of {', '.join(LEVELS[1:])}")
        # A transaction begins with its first statement; only how it is to be isolated must be said.
        asks = [Ask(f"SET TRANSACTION ISOLATION LEVEL {isolation.upper()}")] if isolation else []
        if (before, shown) == (fence, token):
            return asks
        gone = f", @{variable_of(before)} = NULL" if before and before != fence else ""
        return [Ask(f"SET @{variable_of(fence)} = {token:d}{gone}"), *asks]

    def admit(self, fence: str, token: int, *, may_raise: bool) -> Talk[None]:
        # A look without a lock, which decides nothing but which lock to take (rule 3).
        if may_raise and _highest(fence, (yield from _asked(self._words.look, fence))) < token:
            yield Ask(self._words.raised, (fence.encode().hex(), *[token] * 4))
        self.judge((yield from _asked(self._words.hold, fence)), fence, token)

    def end(self, fence: str, token: int) -> Ask | None:
        return _end(fence, token) if self._is_mariadb else None

    def finish(self, fence: str, token: int, failed: Trouble | None) -> Talk[None]:
        if failed is not None and failed.code not in {_NOT_COMMITTED, _NO_TABLE, _NOT_PREPARED}:
            raise failed
        try:  # In steps, which say why not.
            rows = yield from _asked(self._words.held_to_commit, fence)
        except Trouble as trouble:
            if not trouble.code:
                trouble.was_sent = False  # The commit was not.
            raise
        self.judge(rows, fence, token)
        yield Ask("COMMIT", turn="end")

    def seal(self, fence: str, token: int, wait_ms: int, *, may_raise: bool) -> Talk[None]:
        [(number,)] = yield Ask("SELECT CONNECTION_ID()")
        self._waiting[fence] = number, token
        try:
            yield from self._sealed(fence, token, wait_ms, may_raise=may_raise)
        finally:
            # Whoever this connection waits for later is no business of the helper.
            if self._waiting.get(fence) == (number, token):
                del self._waiting[fence]

    def _sealed(self, fence: str, token: int, wait_ms: int, *, may_raise: bool) -> Talk[None]:
        yield Ask(f"SET SESSION innodb_lock_wait_timeout = {max(_LONGER * wait_ms // 1000, 1):d}")
        for _ in range(_LONGER):
            yield Ask("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
            try:
                yield from self.admit(fence, token, may_raise=may_raise)
                yield Ask("COMMIT")
            except (TenureError, Unready):
                yield from _rolled_back()
                raise
            except Trouble as trouble:
                yield from _rolled_back()
                if not self.is_conflict(trouble):
                    raise
                continue
            yield Ask("SET SESSION innodb_lock_wait_timeout = DEFAULT")
            return
        raise Trouble("1213", "others sealed the same fence at the same time: try again")

    def end_blockers(self, fence: str) -> Talk[None]:
        waiting = self._waiting.get(fence)
        while waiting is not None and self._waiting.get(fence) == waiting:
            number, token = waiting
            if (yield from self.highest(fence)) >= token:
                return  # It will be refused, and who keeps the fence now is no older leader.
            for blocker in (yield from _blockers(number)):
                if self._waiting.get(fence) != waiting:
                    return
                try:
                    yield Ask(f"KILL CONNECTION {blocker:d}")
                except Trouble as trouble:
                    if trouble.code != _NO_SESSION:  # It has ended by itself; the others have not.
                        raise
            yield Ask(_UNTIL_THE_NEXT_LOOK)

    def highest(self, fence: str) -> Talk[int]:
        rows = yield from _asked(self._words.look, fence)
        yield Ask("COMMIT")
        return _highest(fence, rows)

    def install_triggers(self, table: str, fence: str) -> Talk[None]:
        yield from triggers.install(self._database, table, fence)

    def remove_triggers(self, table: str) -> Talk[None]:
        yield from triggers.remove(self._database, table)

    def fenced_tables(self) -> Talk[dict[str, str]]:
        return (yield from triggers.fenced(self._database))

    def engine_words(self, fence: str, token: int) -> tuple[Worded, Worded]:
        known: dict[str, Any] = {"fence": fence.encode().hex()}
        table = self._table.replace(":", "\\:")  # Which would be the place of a value.
        check = f"SELECT highest, @@autocommit FROM {table} WHERE fence = UNHEX(:fence) LOCK IN SHARE MODE"  # noqa: S608
        return (f"SET @{variable_of(fence)} = {token:d}", {}), (check, known)

    def judge(self, rows: Rows, fence: str, token: int) -> None:
        if any(autocommit for _, *more in rows for autocommit in more):
            rule = "must last until its end: what was committed by AUTOCOMMIT was not fenced"
            raise ConfigError("transaction", "ended inside", rule)
        highest = _highest(fence, rows)
        if highest > token:
            raise StaleToken(token, highest)
        if highest < token:
            raise UnverifiedToken(token, highest)

    def refusal(self, trouble: Trouble) -> TenureError | None:
        return triggers.refusal_of(trouble)

    def is_conflict(self, trouble: Trouble) -> bool:
        return trouble.code in _CONFLICTS

    def is_definite(self, trouble: Trouble) -> bool:
        return not trouble.was_sent or (trouble.code != "" and trouble.code not in _SHUT_DOWN)

    def is_ended(self, trouble: Trouble) -> bool:
        return trouble.code in _SHUT_DOWN

    def failure(self, name: str, operation: str, trouble: Trouble) -> StoreError:
        text, code = trouble.text, trouble.code
        if not code or (not trouble.was_sent and code not in _NOT_LET_IN):
            return (OutcomeUnknown if trouble.was_sent else Unreachable)(name, operation, text)
        if code in _FULL:
            return Unreachable(name, operation, text)
        if code in _SHUT_DOWN:
            return OutcomeUnknown(name, operation, text)
        if code in _READ_ONLY:
            text = "the server is read-only: name the primary"
        elif code in _NO_RIGHT:
            text += ": run the grants that tenure.sinks.mysql.grants_sql prints"
        elif code == _LOCK_TIMEOUT:
            text = (
                "an older leader's transaction keeps the fence, and its session could not be ended: that needs PROCESS"
            )
        return Refused(name, operation, text)


@lru_cache(_TEXTS_MAX)
def _end(fence: str, token: int) -> Ask:
    return Ask(f"EXECUTE tenure_finish USING X'{fence.encode().hex()}', {token:d}", turn="end")


def _blockers(waiting: int) -> Talk[list[int]]:
    try:
        rows = yield Ask(_BLOCKERS, (waiting,))
    except Trouble as trouble:
        if trouble.code != _NO_VIEW:
            raise
        rows = yield Ask(_BLOCKERS_IN_MYSQL_8, (waiting,))
    return [number for (number,) in rows]


def _asked(sql: str, fence: str) -> Talk[Rows]:
    try:
        return (yield Ask(sql, (fence.encode().hex(),)))
    except Trouble as trouble:
        if trouble.code == _NO_TABLE and not trouble.is_callers:
            raise Unready from trouble
        raise


def _highest(fence: str, rows: Rows) -> int:
    highest = rows[0][0] if rows else 0
    if not isinstance(highest, int) or highest < 0:
        raise ConfigError(TABLE, fence, f"has {highest!r} where a number must be: mend it")
    return highest


def _rolled_back() -> Talk[None]:
    try:
        yield Ask("ROLLBACK", turn="end")
        yield Ask("SET SESSION innodb_lock_wait_timeout = DEFAULT")
    except Trouble:
        return  # The connection is gone, and the transaction with it.
