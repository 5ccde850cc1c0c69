"""The check as a fragment of a transaction that the caller has begun, on a connection of the caller's."""

from typing import TYPE_CHECKING, Any

from tenure.errors import ConfigError, TenureError
from tenure.sinks.base import Bound
from tenure.sinks.postgresql.dialect import refusal_of
from tenure.sinks.postgresql.schema import literal
from tenure.sinks.sql.talk import Trouble, checked

if TYPE_CHECKING:
    import psycopg

_SNAPSHOT_NOTE = (
    "The view of this transaction is older than the last seal of its fence: roll it back, and begin it anew. "
    "If the token is stale, guard then says so."
)
_CONFLICT = "40001"


async def guard(connection: Any, term: Bound, *, sealed_only: bool = False) -> None:
    """Make the transaction that is open on a connection of asyncpg, or an async one of psycopg, a fenced one.

    Put it last: from there to the end a seal has to wait for you, and after a while has your session ended. And outside any
    savepoint: one that is rolled back takes the lock of the check with it, so that a successor can seal while the rest of
    the transaction goes on to be committed. It is refused where psycopg shows it, as ``transaction()`` inside another; asyncpg
    does not show it, nor does SAVEPOINT as text. The fence is raised if the token is higher than any seen; with ``sealed_only`` such a token is
    refused as UnverifiedToken. Tables with triggers want it first, as it presents the token to them.

    Raises StaleToken if a larger token was here; the transaction has failed then, and can only be rolled back. Raises ConfigError
    if no transaction is open. Under REPEATABLE READ and SERIALIZABLE, a transaction whose view is older than the last seal
    fails with the driver's serialization error.
    """
    token = checked(term.fence, term.token)
    if hasattr(connection, "is_in_transaction"):
        is_open = connection.is_in_transaction()
        # Without parameters: asyncpg prepares nothing then, and a pooler may have given us a session that knows no name of ours.
        call = connection.execute(_sql(literal(term.fence), str(token), sealed_only))
    else:
        _check_level(connection)
        is_open = _is_open(connection)
        words = (term.fence, token, term.fence, token)
        call = connection.execute(_sql("%s", "%s", sealed_only).encode(), words, prepare=False)
    if not is_open:
        call.close()
        raise _nothing_open()
    try:
        await call
    except _errors(connection) as error:
        raise _refusal(error) or error from error


def guard_sync(connection: "psycopg.Connection[Any]", term: Bound, *, sealed_only: bool = False) -> None:
    """Do the same as ``guard``, on a connection of psycopg that blocks. It begins a transaction if psycopg does so."""
    token = checked(term.fence, term.token)
    _check_level(connection)
    if connection.autocommit and not _is_open(connection):
        raise _nothing_open()
    try:
        sql = _sql("%s", "%s", sealed_only).encode()
        connection.execute(sql, (term.fence, token, term.fence, token), prepare=False)
    except _errors(connection) as error:
        raise _refusal(error) or error from error


def _sql(fence: str, token: str, sealed_only: bool) -> str:
    check = "guard" if sealed_only else "admit"
    return (
        f"SELECT tenure_fence.{check}({fence}::text, {token}::bigint), "
        f"tenure_fence.present({fence}::text, {token}::bigint)"
    )


def _check_level(connection: Any) -> None:
    # How many blocks of transaction() are open. The first may be a savepoint too, of a transaction that began by itself.
    if getattr(connection, "_num_transactions", 0) > 1:
        rule = "must not be one inside another where guard stands: rolled back, it would take the check with it"
        raise ConfigError("transaction", "nested", rule)


def _is_open(connection: Any) -> bool:
    return int(connection.info.transaction_status) != 0 or not connection.autocommit


def _errors(connection: Any) -> type[Exception]:
    """Return what the driver of this connection raises."""
    if hasattr(connection, "is_in_transaction"):
        import asyncpg  # noqa: PLC0415  (only if it is used)

        asyncpg_error: type[Exception] = asyncpg.PostgresError
        return asyncpg_error
    import psycopg  # noqa: PLC0415  (only if it is used)

    return psycopg.Error


def _refusal(error: Exception) -> TenureError | None:
    code = str(getattr(error, "sqlstate", None) or "")
    if code == _CONFLICT:
        error.add_note(_SNAPSHOT_NOTE)
    return refusal_of(Trouble(code, str(error)))


def _nothing_open() -> ConfigError:
    return ConfigError("transaction", "none is open", "must be open before guard: alone, the check is worth nothing")
