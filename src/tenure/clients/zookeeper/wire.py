"""ZooKeeper's protocol: requests as bytes, answers as values.

Every message is a length and that many bytes; numbers are big-endian, texts and buffers have their length before them. A
request is a number (``xid``), a kind and a body. An answer is the number again, the last transaction that the server has
seen (``zxid``), an error code and a body. Answers come in the order of the requests, and the event of a watch comes before
every answer that was given after it.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, Generic, NamedTuple, TypeVar

T = TypeVar("T")

_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_STAT: Final = struct.Struct(">qqqqiiiqiiq")
_HEADER: Final = struct.Struct(">iqi")
_EVENT: Final = struct.Struct(">ii")
_PART: Final = struct.Struct(">i?i")  # before each part of a multi: its kind, whether this is the end, an error code
ANY_VERSION: Final = -1
_EVERYTHING: Final = 31  # the permissions of an ACL: read, write, create, delete, admin


class Kind(IntEnum):
    """What a request asks for."""

    PLAIN_CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    SYNC = 9
    PING = 11
    GET_CHILDREN = 12
    CHECK = 13
    MULTI = 14
    CREATE = 15
    AUTH = 100
    SASL = 102
    CLOSE = -11
    ERROR = -1  # only in the answer to a multi


class Code(IntEnum):
    """Why an engine says no, as far as that decides anything here."""

    BAD_ARGUMENTS = -8
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    EPHEMERAL_PARENT = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    INVALID_ACL = -114
    AUTH_FAILED = -115
    SESSION_MOVED = -118


class Event(IntEnum):
    """What happened to a node that was watched."""

    LOST = 0  # nobody knows: the connection broke, and the watch with it
    CREATED = 1
    DELETED = 2
    CHANGED = 3


class Fault(Exception):
    """The engine said no, for the reason ``code``; of a multi, to its part number ``part``."""

    def __init__(self, code: int, part: int = 0) -> None:
        self.code, self.part = code, part
        super().__init__(code, part)


class Stat(NamedTuple):
    """What the engine knows of a node besides its data."""

    czxid: int  # the transaction that created it: one number for the whole ensemble, and it only rises
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int  # the session that it ends with; 0: none
    data_bytes: int
    child_count: int
    pzxid: int

    @property
    def next_number(self) -> int:
        """The number that the next sequential child gets, if nobody comes first.

        The engine counts the children that were ever created and shows ``2 × created − there`` as cversion.
        """
        return (self.cversion + self.child_count) // 2


class Acl(NamedTuple):
    """Who may do what with a node; nobody else may do anything."""

    scheme: str
    identity: str
    rights: int = _EVERYTHING


ANYBODY: Final = Acl("world", "anyone")
READERS: Final = Acl("world", "anyone", 1)  # Anybody may read it and nobody change it.
CREATOR: Final = Acl("auth", "")  # whoever created it, by all names under which its session is known


class Reader:
    """Takes values from the front of a message."""

    def __init__(self, message: bytes) -> None:
        self._message, self._at = message, 0

    def take(self, form: struct.Struct) -> tuple[int, ...]:
        values = form.unpack_from(self._message, self._at)
        self._at += form.size
        return values

    def number(self) -> int:
        return self.take(_INT)[0]

    def buffer(self) -> bytes:
        start = self._at + _INT.size
        end = start + max(0, self.number())  # -1 is how Java's null is written
        if end > len(self._message):
            raise ValueError("a buffer ends before its end")
        self._at = end
        return self._message[start:end]

    def text(self) -> str:
        return self.buffer().decode("utf-8", "replace")

    def texts(self) -> list[str]:
        """Take a number, and so many texts. A hand-over among a thousand waits for it: so it calls nothing of its own."""
        message, at, found = self._message, self._at, []
        (count,) = _INT.unpack_from(message, at)
        end = at + _INT.size
        for _ in range(count):
            (length,) = _INT.unpack_from(message, end)
            start = end + _INT.size
            end = start + length if length > 0 else start
            found.append(message[start:end].decode("utf-8", "replace"))
        if end > len(message):
            raise ValueError("a text ends before its end")
        self._at = end
        return found

    def stat(self) -> Stat:
        return Stat._make(self.take(_STAT))


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """One request, and how its answer is read."""

    kind: Kind
    body: bytes
    read: Callable[[Reader], T]
    watched: str = ""  # the node whose next event is asked for

    @property
    def changes(self) -> bool:
        """Whether a lost answer leaves it in doubt what was changed."""
        return self.kind in {Kind.CREATE, Kind.DELETE, Kind.SET_DATA, Kind.MULTI}

    def message(self, xid: int) -> bytes:
        return framed(_INT.pack(xid) + _INT.pack(self.kind) + self.body)


def framed(body: bytes) -> bytes:
    """Return a message with its length before it."""
    return _INT.pack(len(body)) + body


def buffer(data: bytes) -> bytes:
    """Return bytes with their length before them."""
    return framed(data)


def text(words: str) -> bytes:
    """Return a text as the engine reads it."""
    return buffer(words.encode())


def _nothing(_: Reader) -> None:
    return None


def create(
    path: str, data: bytes, acl: Acl, *, ephemeral: bool = False, sequential: bool = False
) -> Request[tuple[str, Stat]]:
    """Create a node; a sequential one gets a number behind its name."""
    rights = _INT.pack(1) + _INT.pack(acl.rights) + text(acl.scheme) + text(acl.identity)
    flags = _INT.pack(ephemeral + 2 * sequential)
    return Request(Kind.CREATE, text(path) + buffer(data) + rights + flags, lambda it: (it.text(), it.stat()))


def delete(path: str, version: int = ANY_VERSION) -> Request[None]:
    """Delete a node that has no children."""
    return Request(Kind.DELETE, text(path) + _INT.pack(version), _nothing)


def exists(path: str, *, watch: bool = False) -> Request[Stat]:
    """A node that is not there is a Fault; the watch is then for its creation."""
    return Request(Kind.EXISTS, text(path) + bytes([watch]), Reader.stat, path if watch else "")


def get_data(path: str, *, watch: bool = False) -> Request[tuple[bytes, Stat]]:
    """Ask what is in a node; with ``watch``, also to be told once when that changes or the node is deleted."""
    body = text(path) + bytes([watch])
    return Request(Kind.GET_DATA, body, lambda it: (it.buffer(), it.stat()), path if watch else "")


def set_data(path: str, data: bytes, version: int = ANY_VERSION) -> Request[Stat]:
    """Put something else into a node."""
    return Request(Kind.SET_DATA, text(path) + buffer(data) + _INT.pack(version), Reader.stat)


def get_children(path: str) -> Request[tuple[list[str], Stat]]:
    """Ask for the names of a node's children, which come in no order."""
    return Request(Kind.GET_CHILDREN, text(path) + b"\0", lambda it: (it.texts(), it.stat()))


def sync(path: str) -> Request[None]:
    """Answered once the server has caught up with what its leader knew. Proves nothing about the session."""
    return Request(Kind.SYNC, text(path), _nothing)


def check(path: str, version: int = ANY_VERSION) -> Request[None]:
    """A part of a multi: the node is there, and has this version."""
    return Request(Kind.CHECK, text(path) + _INT.pack(version), _nothing)


def multi(*parts: Request[Any]) -> Request[list[Any]]:
    """All of it or nothing, as one transaction of the ensemble. A create answers with its path alone here."""
    plain = [_plain(part) for part in parts]
    body = b"".join(_PART.pack(part.kind, False, -1) + part.body for part in plain)

    def read(it: Reader) -> list[Any]:
        answers: list[Any] = []
        for number, part in enumerate(plain):
            kind, _, _ = it.take(_PART)
            code = it.number() if kind == Kind.ERROR else 0
            if code == 0:
                answers.append(None if kind == Kind.ERROR else part.read(it))
            else:  # The parts before it have code 0 then, and those after it are not to blame.
                raise Fault(code, number)
        return answers

    return Request(Kind.MULTI, body + _PART.pack(-1, True, -1), read)


def _plain(part: Request[Any]) -> Request[Any]:
    # 3.8.0 does not answer at all to a multi with the kind of create that tells more than the path.
    return Request(Kind.PLAIN_CREATE, part.body, Reader.text) if part.kind is Kind.CREATE else part


def auth(scheme: str, credentials: bytes) -> Request[None]:
    """Say who we are."""
    return Request(Kind.AUTH, _INT.pack(0) + text(scheme) + buffer(credentials), _nothing)


def sasl(token: bytes) -> Request[bytes]:
    """One step of an exchange by which SASL finds out who we are."""
    return Request(Kind.SASL, buffer(token), Reader.buffer)


PING: Final = Request(Kind.PING, b"", _nothing)
CLOSE: Final = Request(Kind.CLOSE, b"", _nothing)


class Welcome(NamedTuple):
    """A server's word on the session that was asked for. A timeout of 0: there is no such session any more."""

    timeout_ms: int
    session: int
    password: bytes


NO_PASSWORD: Final = bytes(16)
TIMEOUT_MAX_MS: Final = 2**31 - 1


def greeting(timeout_ms: int, session: int = 0, password: bytes = NO_PASSWORD, seen_zxid: int = 0) -> bytes:
    """Return the first message of a connection, which asks for a new session, or for an old one again."""
    body = _INT.pack(0) + _LONG.pack(seen_zxid) + _INT.pack(timeout_ms) + _LONG.pack(session) + buffer(password)
    return framed(body + b"\0")


def read_welcome(message: bytes) -> Welcome:
    """Read the answer to that. Raises struct.error or ValueError for what no ZooKeeper says."""
    it = Reader(message)
    it.number()
    timeout_ms = it.number()
    (session,) = it.take(_LONG)
    return Welcome(timeout_ms, session, it.buffer())


def read_header(it: Reader) -> tuple[int, int, int]:
    """Return xid, zxid and error code."""
    xid, zxid, code = it.take(_HEADER)
    return xid, zxid, code


def read_event(it: Reader) -> tuple[int, str]:
    """Return what happened, and to which node."""
    kind, _ = it.take(_EVENT)
    return kind, it.text()
