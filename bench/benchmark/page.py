"""Writes docs/benchmark.md: a table and a plot for each trace, one table for the scenarios, and how to repeat it all."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from bench.benchmark.plots import ratio_plot
from bench.benchmark.suites import BASELINE, LATE_VARIANTS, OURS, TRACES
from trimtab.apps.simulate.results import Results
from trimtab.sim.comparison import Ratio, Summary, pooled_ratio
from trimtab.sim.measures import RunResult

COLUMNS = (
    ("hot80", "hot80", 4),
    ("hot100", "hot100", 4),
    ("unmet", "unmet", 5),
    ("mem90", "mem90", 4),
    ("spread", "spread", 3),
    ("top p99", "top_p99", 2),
    ("pending p99", "pending_p99", 1),
    ("unplaced", "unplaced", 1),
)
MOVE_COLUMNS = (
    ("hot80", "hot80", 4),
    ("unmet", "unmet", 5),
    ("top p99", "top_p99", 2),
    ("moves", "moves", 0),
    ("helped", "moves_helped", 0),
    ("hurt", "moves_hurt", 0),
    ("plan error", "plan_error", 3),
    ("pending p99", "pending_p99", 1),
)
SCENARIO_COLUMNS = ("hot80", "unmet", "pending", "oom_kills", "unplaced")
POOLED_RATIOS = ("hot80", "hot100", "unmet")
LATE = "*metrics late* is hot80 on {} relative to {}."
TEXTS = {variant.name: variant.text for variant in TRACES}
WITH_MOVES = frozenset(variant.name for variant in TRACES if variant.movers)
HEAD = """# Benchmark of load-aware policies

Every policy, on public traces and on the scenarios that Trimtab ships, with the same pods in the same order for all.
`make benchmark` writes this page; nothing in it is written by hand.

- **hot80** is the share of node-steps with CPU demand above 80 % of the capacity, hot100 above 100 %, and mem90 with memory
  above 90 %. **unmet** is the CPU that pods wanted and did not get. *spread* is the deviation between nodes, *top p99* the
  fullest node. *pending p99* is in seconds, *unplaced* counts pods without a node at the end. Less is better, always.
- The ratio is to {baseline}, paired by seed, with its 95 % interval. **Bold** ratios exclude 1; all others are within the
  noise.
- `NAME-strict` is a policy as its origin behaves: its own window, freshness and estimates, its filter on. Without `-strict`
  it has Trimtab's accounting of pods that no sample shows yet, its trust in samples and finer scores.
- Sections that end in `-moves` compare policies that move pods: how many moves, how many of them *helped* and *hurt* within
  six hours, and the median *plan error*, see [simulator.md](simulator.md#measures).
- On other variants of k8s-mix-a only {baseline} and those policies are run that came near the best on the published one.
- A policy with a filter may look good because it leaves pods pending: read the last two columns, too.

"""


class Section(NamedTuple):
    """The results of one scenario, and its runs."""

    results: Results
    runs: list[RunResult]


def write_page(sections: Sequence[Section], docs: Path, left_out: Sequence[str]) -> None:
    traces = [each for each in sections if each.results.scenario.name in TEXTS]
    scenarios = [each for each in sections if each.results.scenario.name not in TEXTS]
    parts = [HEAD.format(baseline=BASELINE)]
    for section in traces:
        parts += _trace_part(section, docs)
    by_name = {each.results.scenario.name: each for each in traces}
    pooled = [by_name[variant.name] for variant in TRACES if variant.pooled and variant.name in by_name]
    if len(pooled) > 1:
        both = LATE_VARIANTS[0] in by_name and LATE_VARIANTS[1] in by_name
        parts += _pooled_part(pooled, (by_name[LATE_VARIANTS[0]], by_name[LATE_VARIANTS[1]]) if both else None)
    if scenarios:
        parts += _scenario_part(scenarios)
    parts += _how(sections, left_out)
    (docs / "benchmark.md").write_text("\n".join(parts))


def _trace_part(section: Section, docs: Path) -> list[str]:
    name = section.results.scenario.name
    picture = docs / "img" / f"benchmark-{name}.svg"
    hot = section.results.summaries["hot80"]
    ratios = {policy: summary.ratio for policy, summary in hot.items() if summary.ratio is not None}
    picture.write_text(ratio_plot(f"{name}: hot80 relative to {BASELINE}", ratios))
    columns = MOVE_COLUMNS if name in WITH_MOVES else COLUMNS
    heads = ["policy", "hot80 ratio", *(head for head, _, _ in columns)]
    rows = [_row(section.results, policy, columns) for policy in section.results.measured]
    return [
        f"## {name}",
        "",
        TEXTS[name][0].upper() + TEXTS[name][1:] + ".",
        "",
        f"![hot80 of every policy](img/{picture.name})",
        "",
        *_table(heads, rows),
        "",
    ]


def _row(results: Results, policy: str, columns: Sequence[tuple[str, str, int]]) -> list[str]:
    cells = [_number(results.summaries[measure][policy], places) for _, measure, places in columns]
    return [policy, _ratio(results.summaries["hot80"][policy]), *cells]


def _number(summary: Summary, places: int) -> str:
    deviation = f" ± {summary.deviation:.{places}f}" if summary.deviation else ""
    return f"{summary.mean:.{places}f}{deviation}"


def _ratio(summary: Summary) -> str:
    return "1" if summary.ratio is None else _interval(summary.ratio)


def _interval(ratio: Ratio) -> str:
    if ratio.low is None or ratio.high is None:
        return f"{ratio.ratio:.2f}"
    text = f"{ratio.ratio:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"
    return f"**{text}**" if ratio.significant else text


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *(f"| {' | '.join(row)} |" for row in rows)]


def _pooled_part(pooled: Sequence[Section], delayed: tuple[Section, Section] | None) -> list[str]:
    """Sums over the variants, so that a variant counts by how hot it gets, with intervals over the variants."""
    policies = [name for name in pooled[0].results.measured if all(name in each.results.measured for each in pooled)]

    def means(measure: str, policy: str) -> list[float]:
        return [each.results.summaries[measure][policy].mean for each in pooled]

    rows = [
        [
            policy,
            *(_pooled(pooled_ratio(means(measure, policy), means(measure, BASELINE))) for measure in POOLED_RATIOS),
            _pooled(pooled_ratio(means("hot80", OURS), means("hot80", policy))),
            f"{max(means('pending_p99', policy)):.1f}",
            _late(policy, delayed),
        ]
        for policy in sorted(policies, key=lambda each: sum(means("hot80", each)))
    ]
    to_baseline = [f"{measure} to {BASELINE}" for measure in POOLED_RATIOS]
    return [
        "## All variants together",
        "",
        f"Sums over {', '.join(each.results.scenario.name for each in pooled)}, with 90 % intervals over these variants.",
        *([LATE.format(*(each.results.scenario.name for each in delayed))] if delayed else []),
        "",
        *_table(["policy", *to_baseline, f"hot80 of {OURS} to it", "pending p99", "metrics late"], rows),
        "",
    ]


def _late(policy: str, delayed: tuple[Section, Section] | None) -> str:
    if delayed is None:
        return ""
    late, timely = (each.results.summaries["hot80"][policy].mean for each in delayed)
    return f"{late / timely:.2f}" if timely else ""


def _pooled(ratio: Ratio | None) -> str:
    return "" if ratio is None else _interval(ratio)


def _scenario_part(sections: Sequence[Section]) -> list[str]:
    parts = [
        "## Shipped scenarios",
        "",
        "Means over the seeds; the scenarios are described in [scenarios.md](scenarios.md).",
        "",
    ]
    for section in sections:
        summaries = section.results.summaries
        rows = [
            [policy, *(f"{summaries[measure][policy].mean:.4g}" for measure in SCENARIO_COLUMNS)]
            for policy in section.results.measured
        ]
        parts += [f"### {section.results.scenario.name}", "", section.results.scenario.description, ""]
        parts += [*_table(["policy", *SCENARIO_COLUMNS], rows), ""]
    return parts


def _how(sections: Sequence[Section], left_out: Sequence[str]) -> list[str]:
    seeds = len(sections[0].results.seeds) if sections else 0
    machine = f"{os.cpu_count()} cores ({platform.machine()}, {platform.system()})"
    return [
        "## How to repeat it",
        "",
        f"Trimtab {version('trimtab')}, Python {platform.python_version()}, numpy {version('numpy')}, {seeds} seeds, on",
        f"{machine}.",
        "Results depend on the seeds and not on the machine; the same version gives the same figures.",
        *([f"Not run this time: {', '.join(left_out)}."] if left_out else []),
        "",
        "```console",
        "$ make benchmark DATA=traces     # folders named as the sections above; finished runs are kept in .benchmark",
        "$ trimtab simulate burst --policy LeastAllocated --policy PeakRisk --seeds 6 --html report.html",
        "```",
        "",
        "[scenarios.md](scenarios.md) describes the format of traces and where public ones come from.",
        "",
    ]
