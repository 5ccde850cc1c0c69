"""The wire of Redis (RESP 2): commands to bytes, and bytes to replies. No IO.

A reply is bytes, an int, None, a list of replies, or a ``Fault``: what the server says no with is a value here, because it may
stand in the middle of a list. Whatever does not look like Redis raises ``NotRedis`` at once, so that nobody waits for the
rest of a web page.
"""

from typing import Final

_CRLF: Final = b"\r\n"
# A line holds a number or one sentence. Without a limit, a server of another kind could fill our memory with one.
_LINE_MAX: Final = 64 * 1024
_BULK_MAX: Final = 512 * 1024 * 1024  # Redis's own
_ITEMS_MAX: Final = 10_000_000
_DEPTH_MAX: Final = 16


class NotRedis(Exception):
    """What came is no reply of Redis. Its text shows the beginning of it."""


class Fault:
    """The server said no: ``code`` is the first word (``READONLY``), ``text`` all of it."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"Fault({self.text!r})"

    @property
    def code(self) -> str:
        return self.text.partition(" ")[0]


Reply = bytes | int | list["Reply"] | Fault | None
Argument = bytes | str | int


def encode(arguments: tuple[Argument, ...]) -> bytes:
    """Return one command as it is sent."""
    parts = [b"*%d\r\n" % len(arguments)]
    for argument in arguments:
        data = argument if isinstance(argument, bytes) else str(argument).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


class _Incomplete(Exception):
    """The rest has not come yet."""


class Replies:
    """What has come of a stream of replies. Nothing is read twice: a list of all elections comes in a hundred pieces."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._at = 0
        # Lists that have begun, one in the other, and how many replies each will have.
        self._lists: list[tuple[list[Reply], int]] = []

    def feed(self, data: bytes | memoryview) -> list[Reply]:
        """Take what has come, and return the replies that are complete by it. Raises NotRedis."""
        self._data += data
        replies: list[Reply] = []
        self._at = start = 0
        while start < len(self._data):
            try:
                self._read(replies)
            except _Incomplete:
                break
            start = self._at
        del self._data[:start]
        return replies

    def _read(self, replies: list[Reply]) -> None:
        """Read one reply, or where a list of them begins."""
        line = self._line()
        kind, rest = line[:1], line[1:]
        reply: Reply = rest
        if kind == b"-":
            reply = Fault(rest.decode("utf-8", "replace"))
        elif kind == b":":
            reply = _number(rest)
        elif kind == b"$":
            reply = self._bulk(_number(rest))
        elif kind == b"*" and len(self._lists) < _DEPTH_MAX:
            count = _number(rest)
            if count > _ITEMS_MAX:
                raise NotRedis(f"a list of {count} replies")
            if count > 0:
                self._lists.append(([], count))
                return
            reply = None if count < 0 else []
        elif kind != b"+":
            raise NotRedis(repr(bytes(line[:60])))
        while self._lists:
            items, count = self._lists[-1]
            items.append(reply)
            if len(items) < count:
                return
            self._lists.pop()
            reply = items
        replies.append(reply)

    def _line(self) -> bytes:
        end = self._data.find(_CRLF, self._at, self._at + _LINE_MAX)
        if end < 0:
            begun = bytes(self._data[self._at : self._at + 60])
            if begun[:1] not in b"+-:$*" or len(self._data) - self._at >= _LINE_MAX:
                raise NotRedis(repr(begun))
            raise _Incomplete
        line = bytes(self._data[self._at : end])
        self._at = end + 2
        return line

    def _bulk(self, length: int) -> bytes | None:
        if length < 0:
            return None
        if length > _BULK_MAX:
            raise NotRedis(f"a text of {length} bytes")
        end = self._at + length
        if len(self._data) < end + 2:
            raise _Incomplete
        data = bytes(self._data[self._at : end])
        self._at = end + 2
        return data


def _number(text: bytes) -> int:
    try:
        return int(text)
    except ValueError:
        raise NotRedis(repr(text[:60])) from None
