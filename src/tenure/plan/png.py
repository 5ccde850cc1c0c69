"""A drawing as PNG, with nothing but zlib: for tickets and chats that show no SVG. Pure.

It draws what ``drawing`` has and no more: rectangles, lines and dots without smoothed edges, at twice the size, and words in a
font of 5 x 7 points. SVG is the better picture wherever it is shown.
"""

import struct
import zlib
from typing import Final

from tenure.plan.drawing import Anchor, Dot, Drawing, Line, Rect, Word
from tenure.plan.font import HEIGHT, WIDTH, columns

SCALE: Final = 2
_DASH: Final = 7.0  # of which the first four are drawn


class _Page:
    """Points of a page, three bytes each."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._rows = [bytearray(b"\xff" * (3 * width)) for _ in range(height)]

    def fill(self, x: float, y: float, width: float, height: float, colour: bytes) -> None:
        """Fill what of a rectangle is on the page."""
        left, right = max(0, round(x)), min(self.width, round(x + width))
        top, bottom = max(0, round(y)), min(self.height, round(y + height))
        if right <= left:
            return
        filled = colour * (right - left)
        for row in self._rows[top:bottom]:
            row[3 * left : 3 * right] = filled

    def png(self) -> bytes:
        """Return it as a file."""
        head = struct.pack(">IIBBBBB", self.width, self.height, 8, 2, 0, 0, 0)  # eight bits of red, green and blue
        points = zlib.compress(b"".join(b"\x00" + row for row in self._rows), 6)
        return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", points) + _chunk(b"IEND", b"")


def png(drawing: Drawing) -> bytes:
    """Return the drawing as a PNG file."""
    page = _Page(drawing.width * SCALE, drawing.height * SCALE)
    for shape in drawing.shapes:
        match shape:
            case Rect(x, y, width, height, colour):
                page.fill(x * SCALE, y * SCALE, width * SCALE, height * SCALE, _bytes(colour))
            case Line():
                _line(page, shape)
            case Dot():
                _dot(page, shape)
            case Word():
                _word(page, shape)
    return page.png()


def _line(page: _Page, line: Line) -> None:
    colour, brush = _bytes(line.colour), max(1.0, line.width * SCALE)
    gone = 0.0
    for (from_x, from_y), (to_x, to_y) in zip(line.points, line.points[1:], strict=False):
        length = max(abs(to_x - from_x), abs(to_y - from_y)) * SCALE
        steps = max(1, round(length))
        if not line.dashed and (from_x == to_x or from_y == to_y):  # Most lines are these, and a rectangle is quick.
            left, top = min(from_x, to_x) * SCALE - brush / 2, min(from_y, to_y) * SCALE - brush / 2
            page.fill(left, top, abs(to_x - from_x) * SCALE + brush, abs(to_y - from_y) * SCALE + brush, colour)
            continue
        for step in range(steps + 1):
            share = step / steps
            if line.dashed and (gone + share * length) / SCALE % _DASH > _DASH * 4 / 7:
                continue
            x, y = from_x + (to_x - from_x) * share, from_y + (to_y - from_y) * share
            page.fill(x * SCALE - brush / 2, y * SCALE - brush / 2, brush, brush, colour)
        gone += length


def _dot(page: _Page, dot: Dot) -> None:
    colour, radius = _bytes(dot.colour), dot.radius * SCALE
    for row in range(-round(radius), round(radius) + 1):
        half = max(0.0, radius**2 - row**2) ** 0.5
        page.fill(dot.x * SCALE - half, dot.y * SCALE + row, 2 * half, 1, colour)


def _word(page: _Page, word: Word) -> None:
    colour, point = _bytes(word.colour), max(1, round(word.size * SCALE / 12))
    advance = (WIDTH + 1) * point
    width = advance * len(word.text) - point
    left = word.x * SCALE - {Anchor.START: 0.0, Anchor.MIDDLE: width / 2, Anchor.END: float(width)}[word.anchor]
    top = word.y * SCALE - HEIGHT * point
    for number, letter in enumerate(word.text):
        for column, bits in enumerate(columns(letter)):
            for row in range(HEIGHT + 1):
                if bits >> row & 1:
                    page.fill(left + number * advance + column * point, top + row * point, point, point, colour)


def _bytes(colour: str) -> bytes:
    return bytes.fromhex(colour.removeprefix("#"))


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
