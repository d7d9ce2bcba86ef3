"""The report's charts as SVG: lines over time, a distribution, intervals of ratios, and what happened when."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape

from msgspec import Struct

from trimtab.apps.simulate.html.scales import Scale, round_ticks, tick_text, time_ticks
from trimtab.sim.comparison import Ratio

WIDTH, HEIGHT = 960, 306
LEFT, TOP, RIGHT, BOTTOM = 56, 14, 946, 262
COLOURS = 10  # that the style sheet has; further ones repeat, with other dashes
DASHES = ("", "7 4", "2 3")
WHISKER_ROW, WHISKER_TOP = 24, 26
HIGHEST_RATIO = 3.0
EVENT_ROW, EVENT_LEFT, EVENT_BINS = 30, 250, 120


class ChartLine(Struct, frozen=True):
    """A line of a chart, with the band that its seeds cover; `number` is that of its policy."""

    name: str
    number: int
    values: Sequence[float]
    band: Sequence[tuple[float, float]] = ()


def stroke(number: int) -> str:
    """How a policy is drawn: the first in grey with dashes, as what others are compared with."""
    if number == 0:
        return 'class="line baseline"'
    dash = DASHES[(number - 1) // (COLOURS - 1) % len(DASHES)]
    return f'class="line c{(number - 1) % (COLOURS - 1) + 1}"' + (f' stroke-dasharray="{dash}"' if dash else "")


def fill(number: int) -> str:
    return f"c{(number - 1) % (COLOURS - 1) + 1}" if number else "baseline"


def svg(label: str, width: float, height: float, parts: Sequence[str], attributes: str = "") -> str:
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(label)}"{attributes}>'
        + "".join(parts)
        + "</svg>"
    )


def text(x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
        + (f' class="{kind}"' if kind else "")
        + f">{escape(words)}</text>"
    )


def time_chart(name: str, label: str, times: Sequence[float], series: Sequence[ChartLine]) -> str:
    """Shares over time, with a crosshair for the pointer."""
    highest = max((value for each in series for value in (*each.values, *(high for _, high in each.band))), default=0.0)
    across = Scale(times[0], times[-1], LEFT, RIGHT)
    up = Scale(0.0, highest * 1.05 or 0.01, BOTTOM, TOP)
    parts = [*_share_grid(up), *_time_axis(across)]
    parts += [_band(each, times, across, up) for each in series if each.band]
    parts += [_line(each, times, across, up) for each in reversed(series)]
    parts.append(f'<line class="cross" x1="0" x2="0" y1="{TOP}" y2="{BOTTOM}" visibility="hidden"/>')
    return svg(label, WIDTH, HEIGHT, parts, f' data-chart="{name}" data-left="{LEFT}" data-right="{RIGHT}"')


def step_chart(name: str, label: str, edges: Sequence[float], series: Sequence[ChartLine], limit: float) -> str:
    """A distribution: shares by load, with a mark where nodes count as hot."""
    highest = max((value for each in series for value in each.values), default=0.0)
    across, up = Scale(edges[0], edges[-1], LEFT, RIGHT), Scale(0.0, highest * 1.05 or 0.01, BOTTOM, TOP)
    hot = across(limit)
    parts = [
        f'<rect class="hot" x="{hot:.1f}" y="{TOP}" width="{RIGHT - hot:.1f}" height="{BOTTOM - TOP}"/>',
        *_share_grid(up),
        *(text(across(at), BOTTOM + 18, f"{at * 100:.0f} %", "middle") for at in round_ticks(edges[0], edges[-1], 8)),
        text((LEFT + RIGHT) / 2, BOTTOM + 36, "CPU demand of a node relative to its capacity", "middle"),
    ]
    for each in reversed(series):
        corners = [
            (edge, value)
            for value, low, high in zip(each.values, edges, edges[1:], strict=False)
            for edge in (low, high)
        ]
        points = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in corners)
        parts.append(f'<polyline {stroke(each.number)} points="{points}"/>')
    parts.append(f'<line class="cross" x1="0" x2="0" y1="{TOP}" y2="{BOTTOM}" visibility="hidden"/>')
    return svg(label, WIDTH, HEIGHT, parts, f' data-chart="{name}" data-left="{LEFT}" data-right="{RIGHT}"')


def _share_grid(up: Scale) -> list[str]:
    parts = []
    for value in round_ticks(0.0, up.high):
        y = up(value)
        parts += [
            f'<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>',
            text(LEFT - 8, y + 4, tick_text(value), "end"),
        ]
    return parts


def _time_axis(across: Scale) -> list[str]:
    return [_time_tick(across, at, BOTTOM + 18, label) for at, label in time_ticks(across.low, across.high)]


def _time_tick(across: Scale, at: float, y: float, label: str) -> str:
    """A label that would leave the picture ends at its edge."""
    x = across(at)
    return text(min(x, RIGHT), y, label, "end") if x > RIGHT - 30 else text(x, y, label, "middle")


def _line(series: ChartLine, times: Sequence[float], across: Scale, up: Scale) -> str:
    points = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in zip(times, series.values, strict=False))
    return f'<polyline {stroke(series.number)} points="{points}"/>'


def _band(series: ChartLine, times: Sequence[float], across: Scale, up: Scale) -> str:
    there = [f"{across(x):.1f},{up(high):.1f}" for x, (_, high) in zip(times, series.band, strict=False)]
    back = [f"{across(x):.1f},{up(low):.1f}" for x, (low, _) in zip(times, series.band, strict=False)]
    return f'<polygon class="band {fill(series.number)}" points="{" ".join([*there, *reversed(back)])}"/>'


def whisker_chart(title: str, ratios: Mapping[str, Ratio], numbers: Mapping[str, int]) -> str:
    """Ratios to the first policy with their intervals; what is left of 1 is better."""
    width, height, left, right = 300, WHISKER_TOP + WHISKER_ROW * len(ratios) + 26, 12, 288
    bounds = [value for each in ratios.values() for value in (each.ratio, each.low, each.high) if value is not None]
    high = min(max([1.25, *bounds]) * 1.04, HIGHEST_RATIO)
    across = Scale(0.0, high, left, right)
    one, bottom = across(1.0), height - 24
    parts = [text(left, 14, title, "start", "title")]
    parts += [f'<line class="one" x1="{one:.1f}" x2="{one:.1f}" y1="{WHISKER_TOP - 4}" y2="{bottom}"/>']
    parts += [text(across(at), height - 8, f"×{at:g}", "middle") for at in round_ticks(0.0, high, 4)]
    for row, (policy, ratio) in enumerate(ratios.items()):
        parts += _whisker(WHISKER_TOP + WHISKER_ROW * row + 12, policy, ratio, numbers[policy], across)
    label = f"{title}: " + "; ".join(f"{policy} {ratio_words(ratio)}" for policy, ratio in ratios.items())
    return svg(label, width, height, parts)


def _whisker(y: float, policy: str, ratio: Ratio, number: int, across: Scale) -> list[str]:
    def x(value: float) -> float:
        return across(min(max(value, 0.0), across.high))

    parts = [f"<g><title>{escape(policy)} {escape(ratio_words(ratio))}</title>"]
    parts.append(f'<rect class="target" x="0" y="{y - 12}" width="300" height="{WHISKER_ROW}"/>')
    if ratio.low is not None and ratio.high is not None:
        low, high = x(ratio.low), x(ratio.high)
        parts.append(f'<line class="whisker {fill(number)}" x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}"/>')
        parts += [
            f'<line class="whisker {fill(number)}" x1="{end:.1f}" x2="{end:.1f}" y1="{y - 4}" y2="{y + 4}"/>'
            for end in (low, high)
        ]
    hollow = "" if ratio.significant else " hollow"
    if ratio.ratio > across.high:
        parts += [_arrow(across.last, y, f"dot {fill(number)}{hollow}"), _beyond(across.last, y, ratio.ratio)]
    else:
        parts.append(f'<circle class="dot {fill(number)}{hollow}" cx="{x(ratio.ratio):.1f}" cy="{y}" r="4.5"/>')
    return [*parts, "</g>"]


def _arrow(x: float, y: float, kind: str) -> str:
    return f'<path class="{kind}" d="M{x - 4:.1f} {y - 5}l8 5l-8 5z"/>'


def _beyond(x: float, y: float, ratio: float) -> str:
    """The ratio in words, where it is too large for the picture."""
    return text(x - 12, y - 4, f"×{ratio:.3g}", "end")


def ratio_words(ratio: Ratio) -> str:
    if ratio.low is None or ratio.high is None:
        return f"×{ratio.ratio:.2f}"
    noise = "" if ratio.significant else ", within the noise"
    return f"×{ratio.ratio:.2f}, 95 % interval {ratio.low:.2f} to {ratio.high:.2f}{noise}"


class EventRow(Struct, frozen=True):
    """How often something happened to the runs of a policy, by time."""

    policy: str
    number: int
    kind: str
    per_run: float
    counts: Sequence[float]


def event_chart(label: str, begins: float, ends: float, rows: Sequence[EventRow], shown: Callable[[float], str]) -> str:
    """A row of bars for each policy and kind; the highest bar of all has the full height."""
    across = Scale(begins, ends, EVENT_LEFT, RIGHT)
    highest = max((count for row in rows for count in row.counts), default=1.0) or 1.0
    height = EVENT_ROW * len(rows) + 34
    width = (RIGHT - EVENT_LEFT) / EVENT_BINS
    parts = []
    for number, row in enumerate(rows):
        bottom = EVENT_ROW * (number + 1) - 2
        parts.append(f'<line class="grid" x1="{EVENT_LEFT}" x2="{RIGHT}" y1="{bottom}" y2="{bottom}"/>')
        parts.append(text(EVENT_LEFT - 10, bottom - 6, f"{row.policy} · {row.kind} · {shown(row.per_run)}", "end"))
        for at, count in enumerate(row.counts):
            if count:
                tall = max(count / highest * (EVENT_ROW - 6), 2.0)
                x = EVENT_LEFT + at * width
                parts.append(
                    f'<rect class="bar {fill(row.number)}" x="{x:.1f}" y="{bottom - tall:.1f}" '
                    f'width="{max(width - 0.5, 1):.1f}" height="{tall:.1f}"/>'
                )
    parts += [_time_tick(across, at, height - 10, words) for at, words in time_ticks(begins, ends)]
    return svg(label, WIDTH, height, parts)
