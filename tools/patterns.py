"""Draws the usage patterns of docs/scenarios.md from the patterns themselves.

    python -m tools.patterns     rewrites docs/img/patterns.svg

Each panel is a day of one pattern, as a share of the pod's request. A test checks that the committed picture is what the
patterns return.
"""

import sys
from html import escape
from pathlib import Path

import numpy as np

from trimtab.core.model.duration import DAY, HOUR
from trimtab.sim.usage_patterns import Bursty, Daily, Noisy, Ramp, Recorded, Steady, Surge, UsagePattern

FILE = Path(__file__).resolve().parent.parent / "docs" / "img" / "patterns.svg"
PANEL_WIDTH, PANEL_HEIGHT, COLUMNS = 300, 120, 2
LEFT, TOP, RIGHT, BOTTOM = 38, 26, 288, 96
HIGHEST = 150.0  # percent
STYLE = "text{font:11px sans-serif;fill:#222}.faint{fill:#666}.grid{stroke:#ddd}"
LINE = 'fill="none" stroke="#0b5fa5" stroke-width="1.5"'
RECORDED = (20, 60, 110, 80, 40, 90, 130, 70, 30, 20, 50, 10)
PATTERNS: dict[str, UsagePattern] = {
    "steady: 50%, noise: 20%": Noisy(Steady(50.0), 0.2),
    'daily: low 20%, high 120%, peak "14:00"': Daily(20.0, 120.0, 14 * HOUR),
    "bursty: low 20%, high 130%, share 15%, slot 30m": Bursty(20.0, 130.0, 0.15, 0.5 * HOUR),
    "ramp: from 30%, to 110%, over 12h, delay 4h": Ramp(30.0, 110.0, 12 * HOUR, 4 * HOUR),
    'surge: level 100%, "08:00" to "18:00", rise 2h': Surge(100.0, 8 * HOUR, 18 * HOUR, 2 * HOUR),
    "recorded: twelve values, step 2h": Recorded(np.array(RECORDED, dtype=np.float64), 2 * HOUR, 0.0),
}


def render_patterns() -> str:
    """The picture as an SVG document."""
    rows = -(-len(PATTERNS) // COLUMNS)
    width, height = PANEL_WIDTH * COLUMNS, PANEL_HEIGHT * rows
    panels = [
        part for number, (title, pattern) in enumerate(PATTERNS.items()) for part in _panel(number, title, pattern)
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img"><title>Usage patterns over a day</title><style>{STYLE}</style>',
            f'<rect width="{width}" height="{height}" rx="6" fill="#fff"/>',
            *panels,
            "</svg>\n",
        ]
    )


def _panel(number: int, title: str, pattern: UsagePattern) -> list[str]:
    times = np.arange(0.0, DAY, 300.0)
    points = " ".join(
        f"{_across(at):.1f},{_up(value):.1f}"
        for at, value in zip(times.tolist(), pattern.amounts(times, 0.0, 7).tolist(), strict=True)
    )
    x, y = PANEL_WIDTH * (number % COLUMNS), PANEL_HEIGHT * (number // COLUMNS)
    return [
        f'<g transform="translate({x} {y})"><text x="8" y="16">{escape(title)}</text>',
        *_axes(),
        _line(points),
        "</g>",
    ]


def _axes() -> list[str]:
    levels = [
        f'<line class="grid" x1="{LEFT}" y1="{_up(percent):.1f}" x2="{RIGHT}" y2="{_up(percent):.1f}"/>'
        f'<text class="faint" x="{LEFT - 4}" y="{_up(percent) + 4:.1f}" text-anchor="end">{percent}%</text>'
        for percent in (0, 100)
    ]
    hours = [
        f'<text class="faint" x="{_across(hour * HOUR):.1f}" y="{BOTTOM + 14}" text-anchor="middle">{hour:02}:00</text>'
        for hour in (0, 6, 12, 18)
    ]
    return [*levels, *hours]


def _line(points: str) -> str:
    return f'<polyline {LINE} points="{points}"/>'


def _across(at: float) -> float:
    return LEFT + (RIGHT - LEFT) * at / DAY


def _up(percent: float) -> float:
    return BOTTOM - (BOTTOM - TOP) * percent / HIGHEST


def main() -> int:
    """Write the picture."""
    FILE.write_text(render_patterns())
    print("docs/img/patterns.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
