"""The check as a fragment of a transaction that the caller has begun, on a connection of the caller's."""

from contextlib import suppress
from typing import Any

from tenure.errors import ConfigError, TenureError
from tenure.sinks.base import Bound
from tenure.sinks.mysql.dialect import MySQLDialect
from tenure.sinks.mysql.schema import variable_of
from tenure.sinks.sql.dialect import Unready
from tenure.sinks.sql.talk import Ask, Talk, Trouble, carried_out, carry_out, checked


async def guard(connection: Any, term: Bound, *, sealed_only: bool = False) -> None:
    """Make the transaction that is open on a connection of asyncmy a fenced one.

    Put it last: from there to the end a seal has to wait for you, and after a while has your session ended. The fence is that of
    the database in use there. It is raised if the token is higher than any seen; with ``sealed_only`` such a token is refused as
    UnverifiedToken. Put it outside any savepoint: one that is rolled back lowers the fence again that the token has raised, and what
    else is written under the token is committed though lower ones are let in.

    Raises StaleToken if a larger token was here, and has rolled back then: what was written cannot be committed by mistake.
    Raises ConfigError if no transaction is open, and the driver's error if the server could not be asked.
    """
    from tenure.sinks.mysql.on_asyncmy import said  # noqa: PLC0415  (only if it is used)

    token = checked(term.fence, term.token)
    _check_open(connection.get_transaction_status(), connection.get_autocommit())
    try:
        await carry_out(said, connection, _guarded(term.fence, token, sealed_only))
    except Trouble as trouble:
        raise (trouble.__cause__ or trouble) from None


def guard_sync(connection: Any, term: Bound, *, sealed_only: bool = False) -> None:
    """Do the same as ``guard``, on a connection of PyMySQL."""
    from pymysql.constants import SERVER_STATUS  # noqa: PLC0415  (only if it is used)

    from tenure.sinks.mysql.on_pymysql import said  # noqa: PLC0415

    token = checked(term.fence, term.token)
    _check_open(connection.server_status & SERVER_STATUS.SERVER_STATUS_IN_TRANS, connection.get_autocommit())
    try:
        carried_out(said, connection, _guarded(term.fence, token, sealed_only))
    except Trouble as trouble:
        raise (trouble.__cause__ or trouble) from None


def present_sql(term: Bound) -> str:
    """Return the statement by which a session presents its token to triggers, until it ends or withdraws it."""
    return f"SET @{variable_of(term.fence)} = {checked(term.fence, term.token):d}"


def withdraw_sql(term: Bound) -> str:
    """Return the statement that takes it back. MySQL has no setting that ends with the transaction: pools need this one."""
    return f"SET @{variable_of(term.fence)} = NULL"


def _guarded(fence: str, token: int, sealed_only: bool) -> Talk[None]:
    try:
        yield from MySQLDialect().admit(fence, token, may_raise=not sealed_only)
    except (TenureError, Unready) as refusal:
        with suppress(Trouble):  # A connection that is gone has rolled back.
            yield Ask("ROLLBACK")
        if isinstance(refusal, Unready):
            rule = "must be there before guard: seal the fence with a sink, or run set_up_sql()"
            raise ConfigError("table", "tenure_fence", rule) from refusal
        raise


def _check_open(is_inside: object, autocommit: object) -> None:
    if not is_inside and autocommit:
        rule = "must be open before guard: alone, the check is worth nothing"
        raise ConfigError("transaction", "none is open", rule)
