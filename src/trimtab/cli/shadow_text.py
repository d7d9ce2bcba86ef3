"""The report of a shadow as text: counts, load on both sides, and the newest differences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trimtab.core.model.duration import format_duration
from trimtab.sim.shadow.outcomes import Comparison, Outcome
from trimtab.sim.shadow.report import Report

ROWS = {
    "same": "same node",
    "equal": "equally good node",
    "different": "different node",
    "pending": "would be pending",
}
ASIDE = {
    "late": "of these decided when they were seen bound",
    "preempting": "of these after a preemption",
    "undecided": "not decided",
    "unscheduled": "deleted before they were scheduled",
    "unbound": "would be scheduled, and still wait",
}
DIFFERENCES_SHOWN = 20
ONE_STEP = (
    "the shadow's load is too high on nodes that stay quiet in reality, as placements do not add up: see --cumulative"
)


def render(report: Report) -> Iterator[str]:
    """The lines to print."""
    policy, watched = report.policy, format_duration(float(round(report.watched_seconds)))
    mode = ", cumulative" if policy.cumulative else ""
    yield f"shadow of {policy.file} (profiles: {', '.join(policy.profiles)}{mode}), watched for {watched}"
    yield from _counts(report.summary)
    yield from _load(report.summary, cumulative=policy.cumulative)
    yield from _differences(report.differences)


def _counts(summary: dict[str, Any]) -> Iterator[str]:
    decided = summary["decided"]
    yield f"{decided:>8}  pods decided"
    for name, words in ROWS.items():
        share = f"  ({100 * summary[name] / decided:.1f} %)" if decided else ""
        yield f"{summary[name]:>8}  {words}{share}"
    for name, words in ASIDE.items():
        if summary[name]:
            yield f"{summary[name]:>8}  {words}"


def _load(summary: dict[str, Any], *, cumulative: bool) -> Iterator[str]:
    if "load" not in summary:
        yield "load: not measured; the policy names no metric source, or it returned nothing"
        return
    yield f"{'load':<28}{'real':>12}{'shadow':>12}"
    for resource, load in summary["load"].items():
        real, shadow = load["real"], load["shadow"]
        for level in real["hotNodeMinutes"]:
            hot = real["hotNodeMinutes"][level], shadow["hotNodeMinutes"][level]
            yield f"{f'{resource} node-minutes >= {level} %':<28}{hot[0]:>12.1f}{hot[1]:>12.1f}"
        yield f"{f'{resource} spread':<28}{_percent(real['spread']):>12}{_percent(shadow['spread']):>12}"
        yield f"{f'{resource} hottest node':<28}{_percent(real['peak']):>12}{_percent(shadow['peak']):>12}"
        yield f"{'':<28}{real['peakNode'][:24]:>12} {shadow['peakNode'][:24]:>11}"
    if not cumulative:
        yield ONE_STEP
    if summary["unmeasured"]:
        yield f"{summary['unmeasured']} pods that would be elsewhere are not measured, so their load is not moved"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _differences(differences: tuple[Outcome, ...]) -> Iterator[str]:
    for each in differences[-DIFFERENCES_SHOWN:]:
        if each.comparison is Comparison.PENDING:
            yield f"{each.pod}: {each.real}, would be pending: {each.reason}"
        else:
            yield f"{each.pod}: {each.real}, would be {each.shadow}"
    if (more := len(differences) - DIFFERENCES_SHOWN) > 0:
        yield f"and {more} more: see --out"
