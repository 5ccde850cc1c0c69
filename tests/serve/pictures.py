"""Pictures for documents, made small: a browser writes PNGs for speed, with four bytes for each point.

A page has a few flat colours and the edges of letters. The 255 most frequent ones are kept as they are, the others become the nearest
of them, and each point is one byte. Reads and writes what is needed for that and no other kind of PNG.
"""

import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256

from tenure.serve.board_page import asset, names

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOURS = 255
_CHANNELS = {2: 3, 6: 4}  # of the kinds of PNG that browsers write: with and without transparency


_MADE_OF = b"made of"


def made_of() -> bytes:
    """What tells one state of the page from another: a digest of all its files."""
    content = b"".join(name.encode() + found.body for name in sorted(names()) if (found := asset(name)) is not None)
    return sha256(content).hexdigest().encode()


def said_to_be_made_of(png: bytes) -> bytes:
    """Of which page this is a picture, as it says."""
    key, _, value = dict(_chunks(png)).get(b"tEXt", b"").partition(b"\0")
    return value if key == _MADE_OF else b""


def smaller(png: bytes) -> bytes:
    """Return the same picture in a fifth of the bytes; it says of which page."""
    chunks = dict(_chunks(png))
    width, height, depth, kind = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (depth, kind in _CHANNELS) == (8, True), "no browser writes that"
    lines = list(_lines(zlib.decompress(chunks[b"IDAT"]), width * _CHANNELS[kind], _CHANNELS[kind]))
    step = _CHANNELS[kind]
    points = [[line[at : at + 3] for at in range(0, len(line), step)] for line in lines]
    counted = Counter(point for line in points for point in line)
    palette = [colour for colour, _ in counted.most_common(_COLOURS)]
    index = {
        colour: bytes([_nearest(colour, palette) if at >= _COLOURS else at])
        for at, (colour, _) in enumerate(counted.most_common())
    }
    rows = b"".join(b"\0" + b"".join(map(index.__getitem__, line)) for line in points)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    body = [_chunk(b"IHDR", header), _chunk(b"PLTE", b"".join(palette)), _chunk(b"IDAT", zlib.compress(rows, 9))]
    return _SIGNATURE + b"".join(body) + _chunk(b"tEXt", _MADE_OF + b"\0" + made_of()) + _chunk(b"IEND", b"")


def _nearest(colour: bytes, palette: list[bytes]) -> int:
    distances = [sum((one - other) ** 2 for one, other in zip(colour, known, strict=True)) for known in palette]
    return distances.index(min(distances))


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Give every chunk once; the data, which may be in several, as one."""
    assert png.startswith(_SIGNATURE)
    at, data = len(_SIGNATURE), b""
    while at < len(png):
        length, name = struct.unpack(">I4s", png[at : at + 8])
        content = png[at + 8 : at + 8 + length]
        if name == b"IDAT":
            data += content
        else:
            yield name, content
        at += length + 12
    yield b"IDAT", data


def _lines(raw: bytes, width: int, step: int) -> Iterator[bytes]:
    """Undo what PNG does to each line before it is compressed."""
    above = bytes(width)
    for at in range(0, len(raw), width + 1):
        line = bytearray(raw[at + 1 : at + 1 + width])
        match raw[at]:
            case 1:
                for x in range(step, width):
                    line[x] = (line[x] + line[x - step]) & 255
            case 2:
                line = bytearray((one + other) & 255 for one, other in zip(line, above, strict=True))
            case 3:
                for x in range(width):
                    line[x] = (line[x] + ((line[x - step] if x >= step else 0) + above[x]) // 2) & 255
            case 4:
                for x in range(width):
                    left, corner = (line[x - step], above[x - step]) if x >= step else (0, 0)
                    line[x] = (line[x] + _paeth(left, above[x], corner)) & 255
        above = bytes(line)
        yield above


def _paeth(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    return min((left, up, corner), key=lambda one: abs(guess - one))


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
