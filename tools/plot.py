"""Draws line charts over percentages as small SVG files.

Text, dashes and shading carry the information, so that a chart is readable without colours, on light and dark pages.
"""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 520, 300
LEFT, TOP, RIGHT, BOTTOM = 46, 34, 508, 252
COLOURS = ("#0b5fa5", "#b3541e", "#2a7d4f", "#6b4c9a")
DASHES = ("", "7 3", "2 3", "9 3 2 3")
STYLE = "text{font:12px sans-serif;fill:#222}.title{font-weight:bold}.faint{fill:#666}.grid{stroke:#ddd}"


class Line(NamedTuple):
    """A labelled line, from 0 to 100 on both axes; `rejected_from` is where on the x axis nodes begin to be rejected."""

    label: str
    points: tuple[tuple[float, float], ...]
    rejected_from: float | None = None


class Chart(NamedTuple):
    """Lines over a labelled x axis."""

    title: str
    x_axis: str
    lines: tuple[Line, ...]


def render_svg(chart: Chart) -> str:
    """The chart as an SVG document."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img"><title>{escape(chart.title)}</title><style>{STYLE}</style>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#fff"/>',
        *_axes(chart),
        *_rejected_area(chart.lines),
        *(part for number, line in enumerate(chart.lines) for part in _line(number, line, len(chart.lines))),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _axes(chart: Chart) -> list[str]:
    parts = [f'<text class="title" x="{LEFT}" y="20">{escape(chart.title)}</text>']
    for value in range(0, 101, 20):
        x, y = _to_pixels(value, value)
        parts += [
            f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{RIGHT}" y2="{y:.1f}"/>',
            f'<text class="faint" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value}</text>',
            f'<text class="faint" x="{x:.1f}" y="{BOTTOM + 16}" text-anchor="middle">{value} %</text>',
        ]
    parts.append(
        f'<text x="{(LEFT + RIGHT) / 2:.1f}" y="{BOTTOM + 36}" text-anchor="middle">{escape(chart.x_axis)}</text>'
    )
    return parts


def _rejected_area(lines: Sequence[Line]) -> list[str]:
    """Shaded from where nodes begin to be rejected, if that is the same for all lines."""
    starts = {line.rejected_from for line in lines}
    (start,) = starts if len(starts) == 1 else (None,)
    if start is None:
        return []
    x, _ = _to_pixels(start, 0)
    return [
        f'<rect x="{x:.1f}" y="{TOP}" width="{RIGHT - x:.1f}" height="{BOTTOM - TOP}" fill="#b00" fill-opacity="0.08"/>',
        f'<text class="faint" x="{x + 5:.1f}" y="{BOTTOM - 6}">rejected</text>',
    ]


def _line(number: int, line: Line, count: int) -> list[str]:
    colour, dash = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
    stroke = f'fill="none" stroke="{colour}" stroke-width="2"' + (f' stroke-dasharray="{dash}"' if dash else "")
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (_to_pixels(*point) for point in line.points))
    parts = [f'<polyline {stroke} points="{points}"/>']
    if count > 1:
        y = BOTTOM - 8 - 17 * (count - 1 - number)
        parts += [
            f'<line {stroke} x1="{LEFT + 8}" y1="{y - 4}" x2="{LEFT + 34}" y2="{y - 4}"/>',
            f'<text x="{LEFT + 40}" y="{y}">{escape(line.label)}</text>',
        ]
    return parts


def _to_pixels(across: float, up: float) -> tuple[float, float]:
    return LEFT + (RIGHT - LEFT) * across / 100, BOTTOM - (BOTTOM - TOP) * up / 100
