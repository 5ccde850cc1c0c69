"""A chart says in words what it shows, and is a file that others can read."""

import struct
import zlib
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tenure.plan.charts import picture
from tenure.plan.drawing import PARTS, RED, Anchor, Drawing, Word
from tenure.plan.font import columns
from tenure.plan.png import SCALE, png
from tenure.plan.svg import svg
from tenure.plan.whole import Disturbed, Plan, planned, timing_of


def drawing_of(plan: Plan) -> Drawing:
    heartbeat_s = plan.timing.renew_every_ns / 1e9
    source = plan.disturbed.source
    return picture(plan.budget, plan.rto_s, heartbeat_s, points=plan.points, chosen=plan.chosen, assumed=source)


ROOT = Path(__file__).parents[2]
DESIGN = drawing_of(planned(timing_of()))


def points_of(content: bytes) -> tuple[int, int, bytes]:
    """Width, height and points of a PNG of three bytes a point, without filters. Checks every sum."""
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, {}
    while at < len(content):
        (length,) = struct.unpack(">I", content[at : at + 4])
        kind, body = content[at + 4 : at + 8], content[at + 8 : at + 8 + length]
        assert struct.unpack(">I", content[at + 8 + length : at + 12 + length]) == (zlib.crc32(kind + body),)
        chunks[kind] = body
        at += 12 + length
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    raw = zlib.decompress(chunks[b"IDAT"])
    rows = [raw[row * (3 * width + 1) : (row + 1) * (3 * width + 1)] for row in range(height)]
    assert all(row[0] == 0 and len(row) == 3 * width + 1 for row in rows)
    return width, height, b"".join(row[1:] for row in rows)


def test_an_svg_is_xml_with_the_numbers_in_it_and_nothing_from_elsewhere() -> None:
    text = svg(DESIGN)
    root = ET.fromstring(text)  # noqa: S314  (made by ourselves)
    words = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "Time without a leader: 27 s of 30 s" in words
    assert {"6 s", "1 s", "2 s", "13 s", "5 s"} <= set(words)
    assert "detect 6 s, elect 1 s, load 2 s, warm 13 s, discover 5 s" in (root.get("aria-label") or "")
    assert text.count("http") == 1  # the name of the format


def test_words_from_outside_cannot_break_out_of_an_svg() -> None:
    plan = planned(timing_of())
    evil = picture(plan.budget, 30, 2, points=plan.points, chosen=plan.chosen, assumed='</text><script>"&')
    assert "<script>" not in svg(evil)
    ET.fromstring(svg(evil))  # noqa: S314  (made by ourselves)
    assert png(evil)


def test_a_png_has_every_colour_of_the_drawing_at_twice_its_size() -> None:
    width, height, points = points_of(png(DESIGN))
    assert (width, height) == (DESIGN.width * SCALE, DESIGN.height * SCALE)
    seen = {points[at : at + 3] for at in range(0, len(points), 3)}
    assert {bytes.fromhex(colour[1:]) for colour in (*PARTS, RED)} <= seen


@pytest.mark.parametrize(
    "plan",
    [
        planned(timing_of(heartbeat=0.01), rto_s=1e6),
        planned(timing_of(heartbeat=0.05), rto_s=1e9),
        planned(timing_of(heartbeat=86_400), rto_s=1e9, warm_s=1e9),
        planned(timing_of(heartbeat=3600), rto_s=0.5),
        planned(timing_of(), elect_s=0, load_s=0, warm_s=0, discover_s=0),
        planned(timing_of(misses=100), disturbed=Disturbed.by_profile("cross-region")),
        planned(timing_of(heartbeat=300), disturbed=Disturbed.by_profile("lan")),
    ],
    ids=[
        "short",
        "an RTO of thirty years",
        "parts of as many",
        "long",
        "detect alone",
        "many misses",
        "nothing to see",
    ],
)
def test_any_plan_can_be_drawn_and_its_words_are_on_the_page(plan: Plan) -> None:
    drawing = drawing_of(plan)
    for word in (shape for shape in drawing.shapes if isinstance(shape, Word)):
        width = len(word.text) * word.size * 0.6  # as wide as the letters of most fonts of one width are
        left = word.x - {Anchor.START: 0, Anchor.MIDDLE: width / 2, Anchor.END: width}[word.anchor]
        assert left >= 0, word
        assert left + width <= drawing.width, word
    ET.fromstring(svg(drawing_of(plan)))  # noqa: S314  (made by ourselves)
    assert points_of(png(drawing_of(plan)))


def test_every_letter_has_a_shape_of_its_own() -> None:
    letters = {columns(chr(code)) for code in range(32, 127)}
    assert len(letters) == 95
    assert columns("\u00e9") == columns("\u00fc")


def test_the_picture_in_the_documents_is_the_one_that_the_command_draws() -> None:
    drawn = (ROOT / "docs" / "explanation" / "timeouts.svg").read_text()
    assert drawn == svg(DESIGN), "tenure plan --chart docs/explanation/timeouts.svg"
