"""The page: one HTML file that loads nothing, readable without its script, on paper, and on light and dark screens."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape
from importlib import resources

from trimtab.apps.simulate.figures import number, share
from trimtab.apps.simulate.html.png import PALETTE, STEP
from trimtab.apps.simulate.html.scales import duration_text, time_label
from trimtab.apps.simulate.html.sections import (
    ReportData,
    distribution_section,
    event_section,
    heatmap_section,
    hot_section,
    ratio_section,
)
from trimtab.apps.simulate.html.tables import all_measures_table, compaction_table, ratio_html, summary_table
from trimtab.apps.simulate.results import Results, ScenarioFacts
from trimtab.sim.measures import RunResult

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def render_page(results: Results, runs: Sequence[RunResult]) -> str:
    """The same results give the same page."""
    data = ReportData(results, runs)
    body = "\n".join([*_header(results), "<main>", *_main(data), "</main>"])
    shown = {"charts": data.charts, "maps": data.maps, "palette": PALETTE, "step": STEP}
    embedded = json.dumps(shown, separators=(",", ":")).replace("<", "\\u003c")
    title = escape(f"{results.scenario.name}: {', '.join(results.measured)}")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title} – Trimtab simulation</title>\n<style>\n{_file('report.css')}</style>\n</head>\n<body>\n{body}\n"
        f'<div id="tip" role="status" hidden></div>\n<script id="data" type="application/json">{embedded}</script>\n'
        f"<script>\n{_file('report.js')}</script>\n</body>\n</html>\n"
    )


def _file(name: str) -> str:
    return (resources.files("trimtab.apps.simulate.html") / name).read_text(encoding="utf-8")


def _header(results: Results) -> Iterator[str]:
    facts = results.scenario
    yield '<header><button class="theme" type="button" hidden>Dark</button>'
    yield '<p class="eyebrow">Trimtab simulation</p>'
    yield f"<h1>{escape(facts.name)}</h1>"
    if facts.description:
        yield f'<p class="lead">{escape(facts.description)}</p>'
    seeds = f"{len(results.seeds)}" if len(results.seeds) > 1 else f"one, {results.seeds[0]}"
    pairs = [*_scenario_pairs(facts), ("policies", str(len(results.policies))), ("seeds", seeds)]
    items = "".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs)
    yield f'<dl class="facts">{items}</dl></header>'


def _scenario_pairs(facts: ScenarioFacts) -> Iterator[tuple[str, str]]:
    yield "nodes", str(facts.nodes)
    yield "lasts", duration_text(facts.duration)
    yield "begins", time_label(facts.begins, facts.duration)
    yield "step", duration_text(facts.step)
    if facts.warm_up:
        yield "warm-up", duration_text(facts.warm_up)
    yield "scraped every", duration_text(facts.scrape_interval)


def _main(data: ReportData) -> Iterator[str]:
    results = data.results
    if not results.runs:
        yield "<p>No run has finished.</p>"
        return
    if (finding := _finding(results)) is not None:
        yield f'<p class="finding">{finding}</p>'
    yield "<h2>Summary</h2>"
    yield summary_table(results)
    yield from _costs(results)
    yield f"<details><summary>All {len(results.measures)} measures</summary>{all_measures_table(results)}</details>"
    for section in (ratio_section, hot_section, distribution_section, heatmap_section, event_section):
        yield from section(data)
    if results.compaction:
        yield "<h2>Nodes needed</h2>"
        yield '<p class="note">The pods of the fullest moment, placed on fewer and fewer nodes until one stays pending.</p>'
        yield compaction_table(results)
    yield from _repeat(results)


def _finding(results: Results) -> str | None:
    """One sentence on the measure that most readers come for, which claims nothing that the seeds do not show."""
    hot, baseline = results.summaries["hot80"], results.baseline
    if len(results.measured) < 2 or baseline not in results.measured or not any(each.mean for each in hot.values()):
        return None
    words, first = "of node-steps above 80 % of CPU", escape(baseline)
    before = share(hot[baseline].mean)
    lowest = min(results.measured, key=lambda name: hot[name].mean)
    if len(results.seeds) == 1:
        least = f"{share(hot[lowest].mean)} {words}"
        return (
            f"With this one seed <strong>{escape(lowest)}</strong> has the fewest hot nodes: {least}; {first} {before}."
        )
    better = {
        name: each.ratio
        for name, each in hot.items()
        if each.ratio is not None and each.ratio.significant and each.ratio.ratio < 1
    }
    if not better:
        return f"No policy has fewer hot nodes than {first} beyond the noise: {before} {words}."
    best = min(better, key=lambda name: hot[name].mean)
    gain = f"{share(hot[best].mean)} {words} instead of {before} ({ratio_html(better[best], 'inline')})"
    return f"<strong>{escape(best)}</strong> has fewer hot nodes than {first}: {gain}."


def _costs(results: Results) -> Iterator[str]:
    for policy, cost in results.move_costs.items():
        yield (
            f"<p>{escape(policy)} moves {number(cost)} pods per node-minute above 80 % of CPU that "
            f"{escape(results.baseline)} has more.</p>"
        )


def _repeat(results: Results) -> Iterator[str]:
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    digests = "\n".join(f"{each.digest[:16]}  {each.name}" for each in results.policies)
    yield "<h2>Run it again</h2>"
    yield f"<p>With {escape(versions)}, the same scenario and the same policies this gives the same numbers:</p>"
    yield f"<pre><code>{escape(results.command)}</code></pre>"
    yield "<details><summary>Digests</summary>"
    yield f"<pre>{results.scenario.digest[:16]}  scenario {escape(results.scenario.name)}\n{escape(digests)}</pre></details>"
    yield "<footer>What is simulated and what is not: docs/simulator.md of Trimtab.</footer>"
