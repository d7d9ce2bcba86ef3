"""The report's tables: policies by the main measures, every measure with its words, and nodes needed."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from trimtab.apps.simulate.figures import MAIN_MEASURES, NOISE, figure, heading, ratio_text, shown_measures
from trimtab.apps.simulate.html.charts import fill
from trimtab.apps.simulate.results import Results
from trimtab.sim.comparison import Ratio, Summary
from trimtab.sim.measures import MEASURES_BY_NAME


def swatch(policy_number: int) -> str:
    return f'<span class="swatch {fill(policy_number)}" aria-hidden="true"></span>'


def summary_table(results: Results) -> str:
    """One row per policy."""
    names, zero = shown_measures(results, MAIN_MEASURES)
    heads = "".join(
        f'<th scope="col" title="{escape(MEASURES_BY_NAME[name].text)}">{heading(name)}</th>' for name in names
    )
    rows = []
    for index, policy in enumerate(each.name for each in results.policies):
        if policy in results.measured:
            cells = "".join(_cell(results, name, policy) for name in names)
            rows.append(f'<tr><th scope="row">{swatch(index)}{escape(policy)}</th>{cells}</tr>')
    zeros = f" 0 for all policies, and left out: {', '.join(zero)}." if zero else ""
    caption = (
        f"Means over seeds; × relative to {escape(results.baseline)} with its 95 % interval. Less is better; "
        f"underlined is the lowest mean, unless it is within the noise ({NOISE}).{zeros}"
    )
    head = f'<thead><tr><th scope="col">policy</th>{heads}</tr></thead>'
    table = f'<table aria-describedby="summary-note">{head}<tbody>{"".join(rows)}</tbody></table>'
    return f'<p class="note" id="summary-note">{caption}</p>{_scrolled("Summary", table)}'


def _cell(results: Results, measure: str, policy: str) -> str:
    summary = results.summaries[measure][policy]
    best = _is_best(policy, results.summaries[measure])
    ratio = ratio_html(summary.ratio) if summary.ratio is not None else ""
    mean = figure(measure, summary.mean)
    return f'<td{" class=best" if best else ""}><span class="mean">{mean}</span>{ratio}</td>'


def _is_best(policy: str, summaries: Mapping[str, Summary]) -> bool:
    """The lowest mean, if it is lower than the baseline's beyond the noise; the baseline's, if all others are higher so."""
    summary, means = summaries[policy], [each.mean for each in summaries.values()]
    if not summary.mean == min(means) < max(means):
        return False
    compared = [summary.ratio] if summary.ratio is not None else [each.ratio for each in summaries.values()]
    return all(each is None or each.significant for each in compared)


def ratio_html(ratio: Ratio, kind: str = "ratio") -> str:
    """In colour where it is not within the noise, which the text says as well."""
    verdict = "" if not ratio.significant else " good" if ratio.ratio < 1 else " bad"
    words = ratio_text(ratio).replace(NOISE, f'<abbr title="within the noise">{NOISE}</abbr>')
    return f'<span class="{kind}{verdict}">{words}</span>'


def all_measures_table(results: Results) -> str:
    """One row per measure, with what it says."""
    policies = results.measured
    heads = "".join(f'<th scope="col">{escape(policy)}</th>' for policy in policies)
    rows = []
    for measure in results.measures:
        cells = "".join(_cell(results, measure.name, policy) for policy in policies)
        rows.append(
            f'<tr><th scope="row">{heading(measure.name)}</th>{cells}<td class="words">{escape(measure.text)}</td></tr>'
        )
    head = f'<thead><tr><th scope="col">measure</th>{heads}<th scope="col">what it is</th></tr></thead>'
    return _scrolled("All measures", f"<table>{head}<tbody>{''.join(rows)}</tbody></table>")


def compaction_table(results: Results) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(policy)}</th><td>{found.percentile90}</td><td>{found.nodes}</td>'
        f"<td>{found.pods}</td><td>{min(found.needed)}–{max(found.needed)} in {len(found.needed)}</td></tr>"
        for policy, found in results.compaction.items()
    )
    heads = "".join(
        f'<th scope="col">{name}</th>' for name in ("policy", "90th percentile", "of nodes", "pods", "trials")
    )
    return _scrolled("Nodes needed", f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>")


def _scrolled(label: str, table: str) -> str:
    """A wide table scrolls by itself, also by keyboard."""
    return f'<div class="scroll" role="region" aria-label="{label}" tabindex="0">{table}</div>'
