"""The report's sections with pictures: ratios, load over time, its distribution, heatmaps, and what happened when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any

from trimtab.apps.simulate.figures import heading, number, share
from trimtab.apps.simulate.html.charts import (
    EVENT_BINS,
    ChartLine,
    EventRow,
    event_chart,
    step_chart,
    time_chart,
    whisker_chart,
)
from trimtab.apps.simulate.html.png import LEVELS, STEP, data_uri, heatmap_png, shrink
from trimtab.apps.simulate.html.scales import time_label
from trimtab.apps.simulate.html.tables import swatch
from trimtab.apps.simulate.results import Results, mean_by_policy
from trimtab.sim.measures import HISTOGRAM_EDGES, RunResult

HOT = 0.8
BANDS_UP_TO = 4  # policies; with more, bands hide each other
THUMBNAIL_COLUMNS = 72
ROW_PIXELS, HIGHEST_MAP = 14, 280

Runs = Sequence[RunResult]


class ReportData:
    """What the pictures are made of: runs by policy, and what the script shows under the pointer."""

    def __init__(self, results: Results, runs: Runs) -> None:
        self.results, self.runs = results, runs
        self.numbers: Mapping[str, int] = {each.name: number for number, each in enumerate(results.policies)}
        self.by_policy: dict[str, list[RunResult]] = {name: [] for name in results.measured}
        for run in runs:
            self.by_policy[run.policy].append(run)
        self.times = max((run.heatmap.times for run in runs), key=len, default=[])
        self.span = results.scenario.duration
        self.charts: dict[str, Any] = {}
        self.maps: dict[str, Any] = {}

    def legend(self) -> str:
        items = "".join(f"<li>{swatch(self.numbers[name])}{escape(name)}</li>" for name in self.by_policy)
        return f'<ul class="legend" aria-label="Policies">{items}</ul>'

    def remember(self, name: str, labels: list[str], series: Sequence[ChartLine], *, steps: bool) -> None:
        shown = [{"name": each.name, "values": [round(value, 5) for value in each.values]} for each in series]
        self.charts[name] = {"labels": labels, "steps": steps, "series": shown}


def ratio_section(data: ReportData) -> Iterator[str]:
    summaries = data.results.summaries
    plots = []
    for measure in data.results.measures:
        found = {
            policy: each.ratio
            for policy, each in summaries[measure.name].items()
            if each.ratio is not None and policy in data.by_policy
        }
        if found and any(each.ratio != 1 for each in found.values()):
            plots.append(f"<div>{whisker_chart(heading(measure.name), found, data.numbers)}</div>")
    if plots:
        yield f"<h2>Relative to {escape(data.results.baseline)}</h2>"
        yield (
            '<p class="note">Ratios of means with 95 % intervals over paired seeds. Left of the dashed line is better; a '
            "hollow dot is within the noise. An arrow at the right edge points further out.</p>"
        )
        yield data.legend()
        yield f'<div class="whiskers">{"".join(plots)}</div>'


def hot_section(data: ReportData) -> Iterator[str]:
    """The share of hot nodes over time."""
    if not data.times:
        return
    means = mean_by_policy(data.runs, "hot_share")
    series = [
        ChartLine(policy, data.numbers[policy], means[policy], _band(runs) if len(means) <= BANDS_UP_TO else ())
        for policy, runs in data.by_policy.items()
    ]
    yield "<h2>Hot nodes over time</h2>"
    if not any(any(run.hot_share) for run in data.runs):
        yield "<p>No node was above 80 % of its CPU at any time.</p>"
        return
    data.remember("hot", [time_label(at, data.span) for at in data.times], series, steps=False)
    label = "Share of nodes above 80 % of CPU over time, by policy"
    bands = " Bands go from the lowest seed to the highest." if any(each.band for each in series) else ""
    yield f'<p class="note">Share of nodes whose CPU demand is above 80 % of their capacity, mean over seeds.{bands}</p>'
    yield data.legend()
    yield f'<div class="scroll"><div class="chart">{time_chart("hot", label, data.times, series)}</div></div>'


def _band(runs: Runs) -> list[tuple[float, float]]:
    if len(runs) < 2:
        return []
    return [(min(at), max(at)) for at in zip(*(run.hot_share for run in runs), strict=False)]


def distribution_section(data: ReportData) -> Iterator[str]:
    if not data.runs:
        return
    means = mean_by_policy(data.runs, "histogram")
    edges = [float(edge) for edge in HISTOGRAM_EDGES]
    series = [ChartLine(policy, data.numbers[policy], means[policy]) for policy in data.by_policy]
    labels = [f"{low:.0%} to {high:.0%}" for low, high in pairwise(edges)]
    data.remember("load", labels, series, steps=True)
    yield "<h2>Distribution of node load</h2>"
    yield '<p class="note">Share of node-steps by CPU demand. Demand may exceed 100 %: then pods get less than they want.</p>'
    yield data.legend()
    chart = step_chart("load", "Distribution of the nodes' CPU demand, by policy", edges, series, HOT)
    yield f'<div class="scroll"><div class="chart">{chart}</div></div>'


def heatmap_section(data: ReportData) -> Iterator[str]:
    figures = [_figure(data, policy, runs) for policy, runs in data.by_policy.items() if runs[0].heatmap.values]
    if not figures:
        return
    ramp = data_uri(heatmap_png([[level * STEP for level in range(LEVELS)]]))
    yield "<h2>Load of every node</h2>"
    yield (
        '<p class="note">CPU demand relative to capacity: a line is a node, from left to right is time. Blue is below '
        "80 %, yellow to red above.</p>"
    )
    yield (
        f'<div class="ramp"><span>0 %</span><img src="{ramp}" alt="Colours from 0 % to 150 %: blue below 80 %, yellow at '
        '80 %, orange at 100 %, dark red at 150 %"><span>150 %</span></div>'
    )
    yield f'<div class="maps">{"".join(figures)}</div>'


def _figure(data: ReportData, policy: str, runs: Runs) -> str:
    first, heat = runs[0], runs[0].heatmap
    number_of = str(data.numbers[policy])
    data.maps[number_of] = {"nodes": heat.nodes, "times": [time_label(at, data.span) for at in heat.times]}
    hot = share(first.measures["hot80"])
    nodes = f"{len(heat.nodes)} node{'' if len(heat.nodes) == 1 else 's'}"
    alt = f"CPU demand of {nodes} over time under {policy}, seed {first.seed}: {hot} of node-steps above 80 %"
    height = min(max(ROW_PIXELS * len(heat.nodes), 56), HIGHEST_MAP)
    seeds = "".join(_thumbnail(policy, run) for run in runs[1:] if run.heatmap.values)
    begin, end = (time_label(at, data.span) for at in (heat.times[0], heat.times[-1]))
    return (
        f'<figure class="card"><figcaption><h3>{swatch(data.numbers[policy])}{escape(policy)}</h3>'
        f'<span class="note">seed {first.seed}, {nodes}: {hot} of node-steps hot</span></figcaption>'
        f'<img class="map" data-map="{number_of}" src="{data_uri(heatmap_png(heat.values))}" alt="{escape(alt)}" '
        f'style="height:{height}px"><div class="axis"><span>{begin}</span><span>{end}</span></div>'
        + (f'<div class="seeds">{seeds}</div>' if seeds else "")
        + "</figure>"
    )


def _thumbnail(policy: str, run: RunResult) -> str:
    uri = data_uri(heatmap_png(shrink(run.heatmap.values, THUMBNAIL_COLUMNS)))
    hot = share(run.measures["hot80"])
    alt = f"The same for seed {run.seed}: {hot} of node-steps above 80 %"
    return f'<div><img src="{uri}" alt="{alt}"><span>seed {run.seed}: {hot}</span></div>'


def event_section(data: ReportData) -> Iterator[str]:
    rows = [row for policy, runs in data.by_policy.items() for row in _event_rows(data, policy, runs)]
    if not rows:
        return
    facts = data.results.scenario
    begins, ends = facts.begins, facts.begins + facts.duration
    yield "<h2>Moves, evictions and OOM kills</h2>"
    yield '<p class="note">When they happened, all seeds together; the number is per run.</p>'
    chart = event_chart("Disruptions of pods over time, by policy and kind", begins, ends, rows, number)
    yield f'<div class="scroll"><div class="chart">{chart}</div></div>'


def _event_rows(data: ReportData, policy: str, runs: Runs) -> Iterator[EventRow]:
    facts = data.results.scenario
    bins: dict[str, Counter[int]] = {}
    for run in runs:
        for each in run.happenings:
            place = int((each.at - facts.begins) / facts.duration * EVENT_BINS)
            bins.setdefault(each.kind, Counter())[min(max(place, 0), EVENT_BINS - 1)] += 1
    for kind, counts in sorted(bins.items()):
        values = [counts[place] / len(runs) for place in range(EVENT_BINS)]
        yield EventRow(policy, data.numbers[policy], kind, counts.total() / len(runs), values)
