"""A drawing as SVG: text that stays text, without a script or anything from elsewhere. Pure."""

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from tenure.plan.drawing import Dot, Drawing, Line, Rect, Shape, Word


def svg(drawing: Drawing) -> str:
    """Return the drawing as an SVG document."""
    size = f'width="{drawing.width}" height="{drawing.height}" viewBox="0 0 {drawing.width} {drawing.height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label={quoteattr(drawing.title)}>',
        f"<title>{escape(drawing.title)}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        '<g font-family="ui-monospace, Menlo, Consolas, monospace">',
        *(line for shape in drawing.shapes for line in _shape(shape)),
        "</g>",
        "</svg>",
        "",
    ]
    return "\n".join(lines)


def _shape(shape: Shape) -> Iterator[str]:
    match shape:
        case Rect(x, y, width, height, colour):
            yield f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>'
        case Line(points, colour, width, dashed):
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            dash = ' stroke-dasharray="4 3"' if dashed else ""
            yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width:g}"{dash}/>'
        case Dot(x, y, radius, colour):
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{colour}"/>'
        case Word(x, y, text, colour, anchor, size):
            place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor.value}"'
            yield f'<text {place} fill="{colour}">{escape(text)}</text>'
