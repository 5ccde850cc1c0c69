"""What an error of MySQL or MariaDB, or of the driver, means for the one who asked."""

import socket
import ssl
import struct
from typing import Final

from asyncmy.errors import MySQLError

from tenure.clients.tls import brief, has_a_certificate
from tenure.clients.unreached import NO_HOST, nobody_listens
from tenure.errors import OutcomeUnknown, Refused, Unreachable
from tenure.stores.sql.link import Fault

# Whatever the driver raises; those below OSError for servers that answer with something else than its protocol.
FAULTS: Final = (MySQLError, OSError, ValueError, IndexError, AssertionError, RuntimeError, struct.error)

_READ_ONLY: Final = (1290, 1836, 3100)
# The server goes away, or the connection is gone: what was sent may have been carried out.
_ENDS: Final = (1053, 1077, 1079, 1927, 2006, 2013, 2014, 2055, 4031)
_FULL: Final = (1040, 1203, 1226)
_NO_RIGHT: Final = (1142, 1143, 1370)
_NOT_REACHED: Final = 2003
_RANGE: Final = "no token is left, or a row was edited: a token must lie between 0 and 2^63-1"
_LOCKED: Final = "somebody keeps the row locked, see SHOW PROCESSLIST for who it is"
_ADVICE: Final = {
    1146: "the tables were dropped; open the store again to have them made anew",
    1205: _LOCKED,
    1213: "it was given up for another one, ask again",
    1264: _RANGE,
    1690: _RANGE,
    1665: "set binlog_format to ROW or MIXED at the server",
    1969: _LOCKED,
    3024: _LOCKED,
}
READ_ONLY: Final = "is read-only, as a replica is: name the primary, or all servers with commas between"


class FaultTeller:
    """Says what went wrong, in words for the one who has to put it right."""

    def __init__(self, prefix: str, database: str, user: str) -> None:
        self._where, self._user = f"{database}.{prefix}", user

    def tell(self, error: Exception, *, sent: bool) -> Fault:
        number, said = _parts_of(error) if isinstance(error, MySQLError) else (0, "")
        if not isinstance(error, MySQLError) or not number:  # Nobody but the driver says something without a number.
            return _by_driver(error, sent=sent)
        if number in _READ_ONLY:
            return Fault(Refused, "this server was made read-only: another one is the primary", ends_session=True)
        advice = self._grant(said) if number in _NO_RIGHT else _ADVICE.get(number)
        if advice is not None:
            return Fault(Refused, f"{said}: {advice}")
        if number == _NOT_REACHED or (number in _ENDS and not sent) or number in _FULL:
            return Fault(Unreachable, _unreached(error, said), ends_session=True)
        if number in _ENDS:
            return Fault(OutcomeUnknown, f"the connection was ended: {said}", ends_session=True)
        return Fault(Refused, f"says: {said}")

    def _grant(self, said: str) -> str:
        rights = {"store": "SELECT, UPDATE", "office": "SELECT, INSERT, UPDATE", "document": "SELECT, INSERT, UPDATE"}
        for table, right in rights.items():
            if table in said.rpartition("for table")[2]:
                return f"have somebody run: GRANT {right} ON {self._where}{table} TO '{self._user}'@'%'"
        return "have somebody run what tenure doctor --schema prints"


def _parts_of(error: MySQLError) -> tuple[int, str]:
    number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    return number, str(error.args[-1] if error.args else error).partition("\n")[0]


def _by_driver(error: Exception, *, sent: bool) -> Fault:
    words = (brief(error) if isinstance(error, OSError) else str(error)).partition("\n")[0] or type(error).__name__
    if sent:
        return Fault(OutcomeUnknown, f"the connection was lost: {words}", ends_session=True)
    return Fault(Unreachable, f"did not answer as a MySQL or MariaDB does ({words}): is it one?")


def _unreached(error: MySQLError, said: str) -> str:
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return has_a_certificate(cause, authority="ssl_ca", without_name="ssl_mode=verify_ca")
    if isinstance(cause, ssl.SSLError):
        return f"failed to encrypt ({brief(cause)}): if it does not speak TLS, use ssl_mode=disabled"
    if isinstance(cause, OSError) and nobody_listens(cause):
        return "does not listen: is a MySQL or MariaDB started there?"
    if isinstance(cause, OSError):
        return f"was not reached: {NO_HOST if isinstance(cause, socket.gaierror) else brief(cause)}"
    return f"says: {said}"
