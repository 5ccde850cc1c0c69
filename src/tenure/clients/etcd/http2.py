"""HTTP/2 (RFC 9113) as numbers and bytes: what a client of gRPC needs of it."""

import struct

Headers = tuple[tuple[str, str], ...]

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME = struct.Struct(">BHBBI")  # length in 8 and 16 bits, type, flags, stream
SETTING = struct.Struct(">HI")
WINDOW_FIRST_BYTES = 65_535  # by the protocol, until the peer says otherwise
FRAME_MAX_BYTES = 16_384  # likewise
NUMBER_MASK = 0x7FFFFFFF  # streams and windows have 31 bits


class Kind:
    """Types of frames."""

    DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9


class Flag:
    """What the flags of a frame say. Some bits mean different things on different types."""

    END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 1, 1, 4, 8, 32


class Setting:
    """Settings that one side tells the other."""

    HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_STREAMS, INITIAL_WINDOW, MAX_FRAME = 1, 2, 3, 4, 5


class Code:
    """Why a stream was reset."""

    REFUSED_STREAM, CANCEL = 7, 8


def frame(kind: int, flags: int, number: int, payload: bytes) -> bytes:
    """Return a frame for a stream; number 0 is the connection."""
    length = len(payload)
    return FRAME.pack(length >> 16, length & 0xFFFF, kind, flags, number) + payload


def unpadded(flags: int, payload: bytes) -> bytes:
    """Return what a frame carries, without what only fills it."""
    return payload[1 : len(payload) - payload[0]] if flags & Flag.PADDED else payload


def header_block(headers: Headers) -> bytes:
    """Write headers as literals that no table remembers (RFC 7541, 6.2.2): the same bytes every time."""
    written = bytearray()
    for pair in headers:
        written.append(0)
        for text in pair:
            content = text.encode()
            written += _length(len(content)) + content
    return bytes(written)


def _length(number: int) -> bytes:
    """Write a number with a prefix of seven bits (RFC 7541, 5.1)."""
    if number < 127:  # noqa: PLR2004
        return bytes((number,))
    written, number = bytearray((127,)), number - 127
    while number > 127:  # noqa: PLR2004
        written.append(number & 127 | 128)
        number >>= 7
    written.append(number)
    return bytes(written)
