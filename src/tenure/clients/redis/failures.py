"""What a server's no means: every one that Redis is known to say, with what to do about it."""

import socket
import ssl
from typing import Final

from tenure.clients.redis.resp import Fault
from tenure.clients.tls import brief, its_certificate
from tenure.clients.unreached import NO_HOST, nobody_listens
from tenure.errors import Refused, StoreError, Unreachable

# Said instead of carrying the command out, by a server that may carry it out a little later, or that is not the one to ask.
_LATER: Final = {
    "LOADING": "the server is still reading its data",
    "BUSY": "the server is busy with a script of somebody else's",
    "MASTERDOWN": "the server is a replica that has lost its primary",
    "READONLY": "the server is a replica, which takes no writes: name its primary, or use redis+sentinel://",
    "NOREPLICAS": "the server has not as many replicas as min-replicas-to-write asks for",
    "CLUSTERDOWN": "the server is part of a Redis Cluster, which is not supported",
}
_RIGHTS: Final = (
    "give the user what elections need: ACL SETUSER name +@connection +@scripting +@read +@write +@pubsub +time"
    " ~tenure:* &tenure:*"
)
_ADVICE: Final = {
    "WRONGPASS": "the user or the password is wrong, or the user is disabled: mend them in the URL or in password_file",
    "NOAUTH": "the server asks for a password: write redis://:password@… or add password_file=",
    "NOPERM": _RIGHTS,
    "MISCONF": "the server cannot write to its disk, and takes no writes until it can",
    "OOM": "the server has no memory left: raise maxmemory, or delete something",
    "WRONGTYPE": "somebody has written another kind of value where an election is: delete that key",
    "MOVED": "the server is part of a Redis Cluster, which is not supported: use one primary, or redis+sentinel://",
}
ASKS_FOR_CERTIFICATE: Final = "does it ask for a certificate (cert=, key=), and of an authority that it trusts?"
_OLD: Final = "the server is older than Redis 6: upgrade it"


def moves(fault: Fault) -> bool:
    """Say whether this is not, or no longer, the server to ask."""
    return fault.code in {"READONLY", "MASTERDOWN"}


def failure(fault: Fault, address: str, operation: str) -> StoreError:
    """Return the error for a server's no, which is definite: nothing was carried out."""
    if fault.code in _LATER:
        return Unreachable(address, operation, f"{_LATER[fault.code]} ({fault.code})")
    return Refused(address, operation, words(fault))


def words(fault: Fault) -> str:
    """Say what a server said no with, and what to do about it."""
    text = fault.text
    if "unknown command" in text and "HELLO" in text.upper():
        return _OLD
    # A script is refused in words of its own, behind which its number stands.
    if (
        "user executing the script" in text
        or "No permissions to access a key" in text
        or "can't run this command" in text
    ):
        return f"{_RIGHTS} ({text})"
    advice = _ADVICE.get(fault.code)
    return f"{advice} ({text})" if advice else text


def not_connected(error: OSError | RuntimeError, *, encrypted: bool) -> str:
    """Say why there is no connection."""
    if isinstance(error, TimeoutError):
        return "no connection in time"
    if isinstance(error, ssl.SSLError):
        return _not_encrypted(error)
    if encrypted and isinstance(error, ConnectionResetError | ConnectionAbortedError):
        return f"it hung up ({brief(error)}): does it speak in the clear, or ask for a certificate (cert=, key=)?"
    if nobody_listens(error):
        return "nobody listens on that port: is the server running, and is that its port?"
    return NO_HOST if isinstance(error, socket.gaierror) else brief(error)


def _not_encrypted(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return its_certificate(error, "name the authority by ca=")
    if "ALERT" in (error.reason or ""):  # Whoever sends one speaks TLS.
        return f"it refuses us ({brief(error)}): {ASKS_FOR_CERTIFICATE}"
    return f"no TLS there ({brief(error)}): does it speak in the clear? Then write redis:// instead of rediss://"
