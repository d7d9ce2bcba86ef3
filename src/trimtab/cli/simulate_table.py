"""The tables of `trimtab simulate`: policies as rows, measures as columns, ratios to the first policy below the values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trimtab.apps.simulate.figures import NOISE, figure, heading, number, ratio_text, shown_measures

if TYPE_CHECKING:
    from trimtab.apps.simulate.results import Results
    from trimtab.apps.simulate.study import StudyProgress
    from trimtab.sim.comparison import Summary

PLAIN_WIDTH = 120  # where the output is no terminal
NAME_WIDTH, CELL_WIDTH = 24, 20


def print_results(results: Results, measures: Sequence[str], progress: StudyProgress) -> None:
    """As many tables as fit beside each other's columns, then compaction, costs and speed."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=PLAIN_WIDTH)
    shown, zero = shown_measures(results, measures) if results.runs else ([], [])
    for part in _parts(shown, max(1, (console.width - NAME_WIDTH) // CELL_WIDTH)):
        console.print(_table(results, part))
    if zero:
        console.print(f"0 for all policies: {', '.join(zero)}.", style="dim", soft_wrap=True)
    if results.compaction:
        console.print(_compaction_table(results))
    for line in _footer(results, progress):
        console.print(line, style="dim", soft_wrap=True)


def _parts(measures: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (measures[start : start + size] for start in range(0, len(measures), size))


def _table(results: Results, measures: Sequence[str]) -> Table:
    seeds = f"{len(results.seeds)} seed{'' if len(results.seeds) == 1 else 's'}"
    table = Table(title=f"{results.scenario.name}, {seeds}", title_justify="left", title_style="bold")
    table.add_column("policy", no_wrap=True)
    for name in measures:
        table.add_column(heading(name), justify="right")
    for policy in results.measured:
        table.add_row(policy, *(cell(name, results.summaries[name][policy]) for name in measures))
    return table


def cell(measure: str, summary: Summary) -> Text:
    """The mean, and below it the ratio to the first policy with its 95 % interval; ≈ is within the noise."""
    text = Text(figure(measure, summary.mean))
    if summary.ratio is None:
        return text
    ratio = summary.ratio
    style = "dim" if not ratio.significant else "green" if ratio.ratio < 1 else "red"
    return text.append("\n").append(ratio_text(ratio), style=style)


def _compaction_table(results: Results) -> Table:
    table = Table(title="nodes needed for the pods of the fullest moment", title_justify="left", title_style="bold")
    for column in ("policy", "90th percentile", "of nodes", "pods", "trials"):
        table.add_column(column, justify="left" if column == "policy" else "right")
    for policy, found in results.compaction.items():
        trials = f"{min(found.needed)}–{max(found.needed)} in {len(found.needed)}"
        table.add_row(policy, str(found.percentile90), str(found.nodes), str(found.pods), trials)
    return table


def _footer(results: Results, progress: StudyProgress) -> Iterator[str]:
    if any(summary.ratio is not None for of in results.summaries.values() for summary in of.values()):
        interval = "[…] its 95 % interval over seeds, " if len(results.seeds) > 1 else ""
        noise = f"{NOISE} within the noise" if len(results.seeds) > 1 else "one seed gives no interval"
        yield f"× relative to {results.baseline}, {interval}{noise}; less is better."
    for policy, cost in results.move_costs.items():
        yield f"{policy}: {number(cost)} moves per node-minute above 80 % of CPU that {results.baseline} has more."
    timings = [each.timing for _, each in progress.finished if each.timing.decisions]
    seconds, decisions = sum(each.seconds for each in timings), sum(each.decisions for each in timings)
    if timings:
        runs = "1 run" if len(timings) == 1 else f"{len(timings)} runs"
        yield f"{runs}, {decisions:,} decisions; {number(seconds / len(timings))} s per run here."
