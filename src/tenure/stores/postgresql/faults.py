"""What an error of PostgreSQL, or of its driver, means for the one who asked."""

import socket
import ssl
from typing import Final

import asyncpg
from asyncpg.pgproto import pgproto

from tenure.clients.tls import brief, has_a_certificate
from tenure.clients.unreached import NO_HOST, nobody_listens
from tenure.errors import OutcomeUnknown, Refused, Unreachable
from tenure.stores.postgresql.schema import grant_for
from tenure.stores.sql.link import Fault

# What the driver raises for servers that answer with something else than its protocol, or with not all of it: no version, an encoding
# that Python has not heard of. Such a one must not keep us from the next.
_ODD: Final = (AttributeError, LookupError, TypeError, pgproto.BufferError)
# Whatever the driver raises. TimeoutError is an OSError; the link has dealt with it before. ValueError and InternalClientError are
# for servers that are none, too. RuntimeError: no thread was left to look up the name.
FAULTS: Final = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    RuntimeError,
    ValueError,
    *_ODD,
)

_ENDS: Final = (
    "57P",
    "08",
)  # The server goes away, or the connection is gone: what was sent may have been carried out.
_NOT_NOW: Final = ("57P", "08", "53")  # It starts or stops, or has no room for us.
_IN_RECOVERY: Final = "55000"
_READ_ONLY: Final = ("25006", _IN_RECOVERY)
_NO_PLAN: Final = (
    "0A000",
    "26000",
)  # A table was altered, or somebody threw our statements away: the next connection has new ones.
_NO_RIGHT: Final = "42501"
_USED_UP: Final = ("2200H", "22003", "23514")
_DROPPED: Final = "the tables were dropped; open the store again to have them made anew"
_LOCKED: Final = "somebody keeps the row locked, see pg_stat_activity for who it is"
_ADVICE: Final = {"42P01": _DROPPED, "3F000": _DROPPED, "55P03": _LOCKED, "57014": _LOCKED}
# Which of the two it is says the next connection: this one is ended.
_NO_MORE: Final = "the server takes no writes any more: it is a standby now, or default_transaction_read_only was set"
STANDBY: Final = "is a standby, which takes no writes: name the primary, or all servers with commas between"
READ_ONLY: Final = "takes no writes: default_transaction_read_only is on, for the server, the database or our role"


class FaultTeller:
    """Says what went wrong, in words for the one who has to put it right."""

    def __init__(self, schema: str, role: str) -> None:
        self._schema, self._role = schema, role

    def tell(self, error: Exception, *, sent: bool) -> Fault:
        if isinstance(error, asyncpg.PostgresError):
            return self._told_by_server(error, str(error.sqlstate or ""), sent=sent)
        if sent:
            return Fault(OutcomeUnknown, f"the connection was lost: {_words(error)}", ends_session=True)
        return Fault(Unreachable, _unreached(error))

    def _told_by_server(self, error: asyncpg.PostgresError, state: str, *, sent: bool) -> Fault:
        said = str(error).partition("\n")[0]
        advice = self._advice(state, said)
        if advice:
            return Fault(Refused, f"{said}: {advice}", ends_session=state in _READ_ONLY)
        if not sent:
            kind = Unreachable if state.startswith(_NOT_NOW) else Refused
            return Fault(kind, f"says: {said}")
        if state.startswith(_ENDS):
            return Fault(OutcomeUnknown, f"the connection was ended: {said}", ends_session=True)
        return Fault(Refused, said, ends_session=state in _NO_PLAN)

    def _advice(self, state: str, said: str) -> str:
        """Return what to do about an error that says for certain that nothing was done; empty: nothing is known."""
        if state == _NO_RIGHT:
            return grant_for(said, self._schema, self._role)
        if state in _READ_ONLY and (state != _IN_RECOVERY or "recovery" in said):
            return _NO_MORE
        if state in _USED_UP:
            return f"no token is left, or {self._schema}.office was edited: a token must lie between 0 and 2^63-1"
        return _ADVICE.get(state, "")


def _unreached(error: Exception) -> str:
    if isinstance(error, ConnectionError) and "SSL upgrade" in str(error):
        return "does not speak TLS: use sslmode=disable, or set ssl = on at the server"
    if isinstance(error, ssl.SSLCertVerificationError):
        return has_a_certificate(error, authority="sslrootcert", without_name="sslmode=verify-ca")
    if isinstance(error, ssl.SSLError):
        return f"failed to encrypt: {brief(error)}"
    if nobody_listens(error):
        return "does not listen: is PostgreSQL started there?"
    if isinstance(error, OSError | RuntimeError):
        return f"was not reached: {NO_HOST if isinstance(error, socket.gaierror) else _words(error)}"
    return f"did not answer as PostgreSQL does ({_words(error)}): is that a PostgreSQL?"


def _words(error: Exception) -> str:
    if isinstance(error, _ODD):  # What it says is hardly ever a sentence.
        return f"{type(error).__name__}: {error}".partition("\n")[0]
    return (brief(error) if isinstance(error, OSError) else str(error)).partition("\n")[0] or type(error).__name__
