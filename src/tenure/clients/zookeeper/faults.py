"""What a failure of ZooKeeper, or of the way to it, means to who asked: one of the three outcomes, in words."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tenure.clients.tls import its_certificate
from tenure.clients.unreached import NO_HOST, nobody_listens
from tenure.clients.zookeeper.link import LinkLost
from tenure.clients.zookeeper.wire import Code, Fault
from tenure.errors import OutcomeUnknown, Refused, Unreachable

_WORDS: Final[dict[int, str]] = {
    Code.BAD_ARGUMENTS: "the name cannot be a node's: some characters, such as emoji, are not allowed in it",
    Code.EPHEMERAL_PARENT: "a node on the way is somebody's ephemeral one, which can have no children: use another name",
    Code.NO_AUTH: "the ACL of a node refuses us: check user and password, or have the node's owner grant all (cdrwa)",
    Code.INVALID_ACL: "the ACL was refused, as the server does not know who we are: give user and password, or acl=open",
    Code.AUTH_FAILED: "the server did not accept user and password",
    Code.NO_NODE: "a node is gone",
    Code.BAD_VERSION: "a node was changed by somebody else",
    Code.NODE_EXISTS: "a node is there already",
}
_CONNECTION: Final = (-4, -5, -7)  # lost, garbled, late: what the server says of its own way to the leader
_NOT_NOW: Final = (Code.SESSION_MOVED, -127)  # the session is at another server by now; too many ask at once
_REASONS: Final[dict[type[Exception], str]] = {
    TimeoutError: "no answer: it is down, cut off or no ZooKeeper: check host and port",
    UnicodeError: NO_HOST,  # some names cannot even be asked for
    socket.gaierror: NO_HOST,
    Fault: "it did not accept user and password",
    LinkLost: "it hung up while we logged in: it stopped, or did not accept user and password",
    ValueError: "what it says is not ZooKeeper's protocol: check host and port",
}


class SessionOver(Exception):
    """The session has ended, and every ephemeral node with it. ``why`` says how that is known."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


class NotReached(Exception):
    """There was no connection to send anything on."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


@contextmanager
def told(address: str, operation: str) -> Iterator[None]:
    """Make a StoreError of whatever went wrong inside."""
    try:
        yield
    except Fault as fault:
        if fault.code in _CONNECTION:
            raise OutcomeUnknown(address, operation, f"the server gave up (error {fault.code})") from fault
        if fault.code in _NOT_NOW:
            raise Unreachable(address, operation, f"the server took nothing (error {fault.code})") from fault
        words = _WORDS.get(fault.code, f"the server refused (error {fault.code})")
        raise Refused(address, operation, words) from fault
    except LinkLost as lost:
        if lost.in_doubt:
            raise OutcomeUnknown(address, operation, lost.why) from lost
        raise Unreachable(address, operation, lost.why) from lost
    except NotReached as error:
        raise Unreachable(address, operation, error.why) from error
    except SessionOver as over:
        raise Unreachable(address, operation, over.why) from over


def why_not(error: Exception, *, over_tls: bool = False) -> str:
    """Say in a few words why a server could not be reached."""
    if over_tls and isinstance(error, TimeoutError):
        return "no answer: it does not speak TLS (then use zookeeper://), is down, cut off or no ZooKeeper: check host and port"
    if isinstance(error, ssl.SSLCertVerificationError):
        return its_certificate(error, "name its authority by ca=")
    if isinstance(error, ssl.SSLError):
        reason = error.reason or error
        return f"it does not speak TLS (then use zookeeper://), or not with us ({reason}): check cert= and key="
    if nobody_listens(error):
        return "nothing listens there: is the server running, and is that its client port?"
    for kind, words in _REASONS.items():
        if isinstance(error, kind):
            return words
    return (error.strerror if isinstance(error, OSError) else "") or str(error) or "it hung up"
