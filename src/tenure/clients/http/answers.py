"""Answers of HTTP/1.1 (RFC 9112) as bytes: read as they come, without a network.

Whatever the protocol does not allow is a ValueError, and the end of the connection: who guesses where an answer ends takes the
rest of it for the answer to somebody else.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

# More than an engine has reason to say at once; a stranger behind the port may go on for ever.
BODY_MAX_BYTES: Final = 64 * 2**20
_HEAD_MAX_BYTES: Final = 64 * 2**10
_STATUS: Final = re.compile(r"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: (.*))?")
_LENGTH: Final = re.compile(r"[0-9]{1,15}")
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?")
_LINE_END: Final = b"\r\n"
_INTERIM: Final = range(100, 200)
_SWITCHED, _NO_CONTENT, _NOT_MODIFIED = 101, 204, 304


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said. The names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body for people to read."""
        return self.body.decode("utf-8", "replace").strip()


class Reading:
    """One answer, as far as it has come. ``tunnel``: to CONNECT, which has no body if it is a success."""

    __slots__ = ("_left", "_reason", "_rest", "_step", "_tunnel", "begun", "body", "done", "headers", "keeps", "status")

    def __init__(self, *, tunnel: bool = False) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = bytearray()  # as much as has come and was not taken
        self.begun = self.done = False  # whether its head is there, and all of it
        self.keeps = True  # whether another request may follow on the same connection
        self._tunnel = tunnel
        self._rest, self._reason = b"", ""
        self._left = 0  # how much of the body, or of this chunk of it, is still to come
        # What to make of the rest; False: nothing yet. A function, for a method would know the answer that knows it: each answer
        # would stay, with its headers and its body, until somebody searches for cycles.
        self._step: Callable[[Reading], bool] = Reading._head

    def feed(self, data: bytes) -> None:
        """Take what has come."""
        self._rest = self._rest + data if self._rest else data
        while self._rest and not self.done:
            if not self._step(self):
                return
        if self._rest:
            raise ValueError("it says more than was asked")

    def ended(self) -> bool:
        """Take note that nothing more comes, and say whether that is the whole answer."""
        if self.begun and not self.done and self._step is Reading._until_end:
            self.done = True
        return self.done

    def take(self) -> bytes:
        """Return as much of the body as has come since this was last asked."""
        taken, self.body = bytes(self.body), bytearray()
        return taken

    @property
    def reason(self) -> str:
        """Its status in words, as the server has it."""
        return "".join(letter for letter in self._reason if letter.isprintable())

    @property
    def answer(self) -> Answer:
        return Answer(self.status, self.headers, bytes(self.body))

    # Each reads one part, and says what comes next.

    def _head(self) -> bool:
        end = self._rest.find(b"\r\n\r\n")
        if end < 0:
            if len(self._rest) > _HEAD_MAX_BYTES:
                raise ValueError("its headers have no end")
            if not b"HTTP/1.".startswith(self._rest[:7]):
                raise ValueError("that is no HTTP/1")
            return False
        first, *lines = self._rest[:end].decode("latin-1").split("\r\n")
        self._rest = self._rest[end + 4 :]
        found = _STATUS.fullmatch(first)
        if found is None:
            raise ValueError("that is no HTTP/1")
        self.status, self._reason = int(found[2]), found[3] or ""
        self.headers = _headers(lines)
        if self.status in _INTERIM and self.status != _SWITCHED:
            return True  # The answer itself is still to come.
        self.begun = True
        self._begin_body(minor=int(found[1]))
        return True

    def _begin_body(self, *, minor: int) -> None:
        options = self.headers.get("connection", "").lower()
        self.keeps = "close" not in options and (minor == 1 or "keep-alive" in options)
        if self.status in (_SWITCHED, _NO_CONTENT, _NOT_MODIFIED) or (self._tunnel and self.status < 300):  # noqa: PLR2004
            self.keeps = self.keeps and self.status != _SWITCHED
            self.done = True
            return
        coding, length = self.headers.get("transfer-encoding"), self.headers.get("content-length")
        if coding is not None:
            if coding.lower() != "chunked":
                raise ValueError(f"its body is coded as {coding[:20]}")
            self._step = Reading._chunk
        elif length is not None:
            if not _LENGTH.fullmatch(length):
                raise ValueError("its length is no number")
            self._left, self._step = int(length), Reading._whole
            self.done = self._left == 0
        else:
            self.keeps, self._step = False, Reading._until_end

    def _whole(self) -> bool:
        self._copy()
        self.done = self._left == 0
        return True

    def _until_end(self) -> bool:
        self._left = len(self._rest)
        self._copy()
        return True

    def _chunk(self) -> bool:
        line = self._line()
        if line is None:
            return False
        found = _CHUNK.fullmatch(line)
        if found is None:
            raise ValueError("the length of a chunk is no number")
        self._left = int(found[1], 16)
        self._step = Reading._in_chunk if self._left else Reading._trailer
        return True

    def _in_chunk(self) -> bool:
        self._copy()
        if not self._left:
            self._step = Reading._behind_chunk
        return True

    def _behind_chunk(self) -> bool:
        if len(self._rest) < len(_LINE_END):
            return False
        if not self._rest.startswith(_LINE_END):
            raise ValueError("a chunk is longer than it says")
        self._rest, self._step = self._rest[len(_LINE_END) :], Reading._chunk
        return True

    def _trailer(self) -> bool:
        line = self._line()
        if line is None:
            return False
        self.done = not line
        return True

    def _copy(self) -> None:
        """Add to the body what belongs to it."""
        taken = self._rest[: self._left]
        self.body += taken
        self._left -= len(taken)
        self._rest = self._rest[len(taken) :]
        if len(self.body) > BODY_MAX_BYTES:
            raise ValueError(f"the answer has more than {BODY_MAX_BYTES // 2**20} MiB")

    def _line(self) -> bytes | None:
        line, end, rest = self._rest.partition(_LINE_END)
        if len(line) > _HEAD_MAX_BYTES:
            raise ValueError("a line has no end")
        if not end:
            return None
        self._rest = rest
        return line


def _headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name[0] in " \t" or name[-1] in " \t":
            raise ValueError("a header has no name")
        name, value = name.lower(), value.strip(" \t")
        if headers.get(name, value) != value and name in ("content-length", "transfer-encoding"):
            raise ValueError(f"it says {name} twice")
        headers[name] = value
    return headers
