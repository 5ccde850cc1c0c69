"""What a sink says to PostgreSQL. The check itself is in the server (``schema``)."""

import re
from functools import lru_cache
from typing import Final, NoReturn

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
from tenure.sinks.postgresql import triggers
from tenure.sinks.postgresql.schema import ENDED, LOCK_SEED, NONSENSE, SET_UP, STALE, UNVERIFIED, literal, setting_of
from tenure.sinks.sql.dialect import Opening, Unready, Worded
from tenure.sinks.sql.talk import Ask, Rows, Talk, Trouble

LEVELS: Final = ("", "read committed", "repeatable read", "serializable")

_NOT_THERE = {"3F000", "42883", "42P01"}  # no such schema, function, table
_LOCK_TIMEOUT = "55P03"
# The server ended the session: it may have done so after the commit, before it could say so.
_SHUT_DOWN = {"57P01", "57P02", "57P03", "57P05"}
_TRIES_MAX = 3
_TEXTS_MAX = 256
_KEPT = "an older leader's transaction keeps the fence, and its session could not be ended"
# The name of a fence may hold anything, so what counts is what stands last.
_REFUSAL = re.compile(r"tenure: token (?P<token>\d+) .*: the highest seen is (?P<highest>\d+)", re.DOTALL)

# Whoever has the lock of the fence, unless it was raised meanwhile: then they are no older leaders. The key of the lock is
# one number, which this view shows in two halves.
_END_HOLDERS = f"""
SELECT pg_terminate_backend(pid) FROM pg_locks, (SELECT hashtextextended($1, {LOCK_SEED}) AS key) AS fence
WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND pid <> pg_backend_pid()
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND ((classid::bigint << 32) | objid::bigint) = key AND tenure_fence.highest($2) < $3
"""  # noqa: S608  (a number of ours)
# A prepared transaction has no session that could be ended. Its locks show which it is by the one that each has on its own number.
_PREPARED = f"""
SELECT gid FROM pg_locks AS held JOIN pg_locks AS own ON own.virtualtransaction = held.virtualtransaction
JOIN pg_prepared_xacts ON transaction = own.transactionid, (SELECT hashtextextended($1, {LOCK_SEED}) AS key) AS fence
WHERE held.locktype = 'advisory' AND held.granted AND held.objsubid = 1 AND held.pid IS NULL AND own.pid IS NULL
AND pg_prepared_xacts.database = current_database() AND ((held.classid::bigint << 32) | held.objid::bigint) = key
"""  # noqa: S608  (numbers of ours)


class PostgresDialect:
    """See ``Dialect``."""

    needs_helper = False  # A seal sees by itself who has the lock, also when it has stopped to wait.

    def settings(self, idle_ms: int, *, is_own: bool) -> Talk[None]:
        if is_own:  # Behind a pooler a session is shared with strangers: each transaction is told, and nothing stays.
            yield Ask(f"SET idle_in_transaction_session_timeout = {idle_ms:d}")

    def set_up(self) -> Talk[None]:
        yield Ask(f"BEGIN ISOLATION LEVEL READ COMMITTED;\n{SET_UP}COMMIT")

    def begin(self, opening: Opening) -> list[Ask]:
        return [_begin(opening.isolation, opening.fence, opening.token, 0 if opening.is_own else opening.idle_ms)]

    def admit(self, fence: str, token: int, *, may_raise: bool) -> Talk[None]:
        try:
            yield Ask(f"SELECT tenure_fence.{'admit' if may_raise else 'guard'}($1, $2)", (fence, token))
        except Trouble as trouble:
            raise_meant(trouble)

    def end(self, fence: str, token: int) -> Ask:
        return _end(fence, token)

    def finish(self, fence: str, token: int, failed: Trouble | None) -> Talk[None]:
        if failed is not None:
            raise_meant(failed)
        yield _end(fence, token)

    def seal(self, fence: str, token: int, wait_ms: int, *, may_raise: bool) -> Talk[None]:
        for attempt in range(_TRIES_MAX):
            yield Ask(f"BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {wait_ms:d}")
            try:
                yield from self.admit(fence, token, may_raise=may_raise)
                yield Ask("COMMIT")
            except (TenureError, Unready):
                yield from _rolled_back()
                raise
            except Trouble as trouble:
                yield from _rolled_back()
                if trouble.code != _LOCK_TIMEOUT:
                    raise
                for (gid,) in (yield Ask(_PREPARED, (fence,))):
                    rule = "keeps the fence: COMMIT PREPARED or ROLLBACK PREPARED ends it"
                    raise Trouble(_LOCK_TIMEOUT, f"the prepared transaction {gid!r} {rule}") from trouble
                if attempt == _TRIES_MAX - 1:
                    raise Trouble(_LOCK_TIMEOUT, _KEPT) from trouble
                yield Ask(_END_HOLDERS, (fence, fence, token))
            else:
                return

    def end_blockers(self, fence: str) -> Talk[None]:  # noqa: ARG002
        yield from ()

    def highest(self, fence: str) -> Talk[int]:
        try:
            [(highest,)] = yield Ask("SELECT tenure_fence.highest($1)", (fence,))
        except Trouble as trouble:
            raise_meant(trouble)
        return int(highest)

    def install_triggers(self, table: str, fence: str) -> Talk[None]:
        yield from triggers.install(table, fence)

    def remove_triggers(self, table: str) -> Talk[None]:
        yield from triggers.remove(table)

    def fenced_tables(self) -> Talk[dict[str, str]]:
        return (yield from triggers.fenced())

    def engine_words(self, fence: str, token: int) -> tuple[Worded, Worded]:
        known = {"fence": fence, "token": token}
        show = "SELECT tenure_fence.present(:fence, :token)"
        # What was presented is gone with the transaction. If it is, then what came before was committed without a check.
        check = "SELECT tenure_fence.guard(:fence, :token), current_setting(:setting, true)"
        return (show, known), (check, {**known, "setting": setting_of(fence)})

    def judge(self, rows: Rows, fence: str, token: int) -> None:  # noqa: ARG002  (the server knows)
        if [shown for _, shown in rows] != [str(token)]:
            raise _ended_inside()

    def refusal(self, trouble: Trouble) -> TenureError | None:
        return refusal_of(trouble)

    def is_conflict(self, trouble: Trouble) -> bool:
        return trouble.code == "40001"

    def is_definite(self, trouble: Trouble) -> bool:
        return not trouble.was_sent or (trouble.code != "" and trouble.code not in _SHUT_DOWN)

    def is_ended(self, trouble: Trouble) -> bool:
        return trouble.code in _SHUT_DOWN

    def failure(self, name: str, operation: str, trouble: Trouble) -> StoreError:
        text = trouble.text
        match trouble.code:
            case "":
                kind = OutcomeUnknown if trouble.was_sent else Unreachable
                return kind(name, operation, text)
            case "57P03" | "53300":  # starting up, too many clients
                return Unreachable(name, operation, text)
            case code if code in _SHUT_DOWN:
                return OutcomeUnknown(name, operation, text)
            case "25006":
                text = "the server is read-only: name the primary"
            case "42501":
                text += ": run the grants that tenure.sinks.postgresql.grants_sql prints"
            case code if code == _LOCK_TIMEOUT:
                text = text if text.startswith("the prepared") else _KEPT
        return Refused(name, operation, text)


def refusal_of(trouble: Trouble) -> StaleToken | UnverifiedToken | ConfigError | None:
    """Return what the check in the server has said, if it was the check."""
    # By its text, which every driver and everything that is built upon drivers passes on.
    told = _REFUSAL.search(trouble.text) if trouble.code in {STALE, UNVERIFIED} else None
    if told is not None:
        kind = StaleToken if trouble.code == STALE else UnverifiedToken
        return kind(int(told["token"]), int(told["highest"]))
    if trouble.code == ENDED:
        return _ended_inside()
    return ConfigError("token", "", trouble.text) if trouble.code == NONSENSE else None


def raise_meant(trouble: Trouble) -> NoReturn:
    """Raise what the check in the server has said as what it means, or else the trouble itself."""
    refusal = refusal_of(trouble)
    if refusal is not None:
        raise refusal from trouble
    if trouble.code in _NOT_THERE:
        raise Unready from trouble
    raise trouble


# What a leader says with every transaction is put together once.
@lru_cache(_TEXTS_MAX)
def _begin(isolation: str, fence: str, token: int, idle_ms: int) -> Ask:
    if isolation not in LEVELS:
        raise ConfigError("isolation", isolation, f"must be one of {', '.join(LEVELS[1:])}")
    level = f" ISOLATION LEVEL {isolation.upper()}" if isolation else ""
    # In one message. SET and not set_config: it takes no snapshot, so the view is that of the caller's first statement.
    limit = f"SET LOCAL idle_in_transaction_session_timeout = {idle_ms:d}; " if idle_ms else ""
    return Ask(f"BEGIN{level}; {limit}SET LOCAL {setting_of(fence)} = '{token:d}'", turn="begin")


@lru_cache(_TEXTS_MAX)
def _end(fence: str, token: int) -> Ask:
    # In one message: nothing on the client's side, not even a client that is frozen, comes between check and commit.
    return Ask(f"CALL tenure_fence.finish({literal(fence)}, {token:d}, '{setting_of(fence)}'); COMMIT", turn="end")


def _ended_inside() -> ConfigError:
    rule = "must last until its end: what was committed inside, or by AUTOCOMMIT, was not fenced (RESET ALL looks the same)"
    return ConfigError("transaction", "ended inside", rule)


def _rolled_back() -> Talk[None]:
    try:
        yield Ask("ROLLBACK")
    except Trouble:
        return  # The connection is gone, and the transaction with it.
