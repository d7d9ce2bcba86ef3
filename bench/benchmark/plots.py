"""Draws the benchmark's ratios with their intervals as an SVG file: one line per policy, on a logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape

from trimtab.sim.comparison import Ratio

WIDTH, LEFT, RIGHT, ROW, TOP = 760, 250, 740, 20, 44
LOW, HIGH = 0.05, 20.0
TICKS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
STYLE = (
    "text{font:12px sans-serif;fill:#222}.title{font-weight:bold}.faint{fill:#666}.grid{stroke:#ddd}.one{stroke:#888}"
)
BETTER, WORSE, NOISE = "#0b5fa5", "#b3541e", "#777"


def ratio_plot(title: str, ratios: Mapping[str, Ratio]) -> str:
    """The best policy on top; filled dots differ from the baseline, hollow ones are within the noise."""
    ranked = sorted(ratios.items(), key=lambda item: item[1].ratio)
    height = TOP + ROW * len(ranked) + 34
    bottom = TOP + ROW * len(ranked)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img"><title>{escape(title)}</title><style>{STYLE}</style>',
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#fff"/>',
        f'<text class="title" x="12" y="22">{escape(title)}</text>',
    ]
    for tick in TICKS:
        kind = "one" if tick == 1 else "grid"
        parts.append(f'<line class="{kind}" x1="{_x(tick):.1f}" y1="{TOP - 8}" x2="{_x(tick):.1f}" y2="{bottom}"/>')
        parts.append(f'<text class="faint" x="{_x(tick):.1f}" y="{bottom + 18}" text-anchor="middle">{tick:g}x</text>')
    for number, (policy, ratio) in enumerate(ranked):
        parts += _policy(policy, ratio, TOP + ROW * number + ROW / 2)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _policy(policy: str, ratio: Ratio, y: float) -> list[str]:
    colour = (BETTER if ratio.ratio < 1 else WORSE) if ratio.significant else NOISE
    parts = [f'<text x="{LEFT - 12}" y="{y + 4:.1f}" text-anchor="end">{escape(policy)}</text>']
    if ratio.low is not None and ratio.high is not None:
        ends = _x(ratio.low), _x(ratio.high)
        parts.append(
            f'<line x1="{ends[0]:.1f}" y1="{y:.1f}" x2="{ends[1]:.1f}" y2="{y:.1f}" stroke="{colour}" stroke-width="2"/>'
        )
    fill = colour if ratio.significant else "#fff"
    parts.append(
        f'<circle cx="{_x(ratio.ratio):.1f}" cy="{y:.1f}" r="4.5" fill="{fill}" stroke="{colour}" stroke-width="2"/>'
    )
    return parts


def _x(ratio: float) -> float:
    share = (math.log(min(max(ratio, LOW), HIGH)) - math.log(LOW)) / (math.log(HIGH) - math.log(LOW))
    return LEFT + (RIGHT - LEFT) * share
