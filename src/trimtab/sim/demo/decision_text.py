"""Explains a scheduling decision in one sentence, from the table of scores and rejections."""

from __future__ import annotations

from collections import Counter

from trimtab.core.framework.explain import Explanation, NodeRow

ONLY_FEASIBLE = "the only feasible node"


def full_reason(explanation: Explanation, by_requests: str = "") -> str:
    """Why this node was chosen, or why none; and why not `by_requests`, the node that requests alone would choose."""
    if not explanation.node:
        return explanation.verdict
    feasible = [row for row in explanation.rows if not row.rejected_by]
    chosen = next(row for row in feasible if row.node == explanation.node)
    others = [row for row in feasible if row is not chosen]
    best = f"best of {len(feasible)} of {len(explanation.rows)} nodes"
    reason = f"{best}: {_comparison(chosen, others)}" if others else ONLY_FEASIBLE
    alternatives = [row for row in explanation.rows if row.node == by_requests and row is not chosen]
    why_not = [f"by requests alone: {row.node} ({_why_not(chosen, row)})" for row in alternatives]
    return "; ".join([reason, *_rejections(explanation.rows), *why_not])


def short_reason(explanation: Explanation) -> str:
    """For a table cell: the score, the next best node, and the number of rejected nodes."""
    if not explanation.node:
        return explanation.verdict
    chosen = next(row for row in explanation.rows if row.node == explanation.node)
    others = [row for row in explanation.rows if row is not chosen and not row.rejected_by]
    count = len(explanation.rows) - len(others) - 1
    rejected = f"; {count} rejected" if count else ""
    if not others:
        return f"{ONLY_FEASIBLE}{rejected}"
    relation = "tie with" if others[0].total == chosen.total else "next"
    score, next_score = format_scores(chosen.total, others[0].total)
    return f"score {score}, {relation} {others[0].node} {next_score}{rejected}"


def format_scores(one: float, other: float) -> tuple[str, str]:
    """Two scores with only as many decimals as are needed to tell them apart."""
    places = next((places for places in (0, 1, 2) if round(one, places) != round(other, places)), 3)
    return f"{one:.{0 if one == other else places}f}", f"{other:.{0 if one == other else places}f}"


def _comparison(chosen: NodeRow, others: list[NodeRow]) -> str:
    """With the scores that differ between the chosen node and the next best."""
    tied = [row.node for row in others if row.total == chosen.total]
    if tied:
        return f"score {chosen.total:.0f}, a tie with {' and '.join(tied)}, broken by a hash of pod and node"
    score, next_score = format_scores(chosen.total, others[0].total)
    return f"score {score}, next {others[0].node} {next_score} ({_score_differences(chosen, others[0])})"


def _score_differences(chosen: NodeRow, other: NodeRow) -> str:
    pairs = ((plugin, score, other.scores[plugin]) for plugin, score in chosen.scores.items())
    return ", ".join(f"{plugin} {' vs '.join(format_scores(one, two))}" for plugin, one, two in pairs if one != two)


def _why_not(chosen: NodeRow, other: NodeRow) -> str:
    return f"rejected by {other.rejected_by}" if other.rejected_by else _score_differences(chosen, other)


def _rejections(rows: tuple[NodeRow, ...]) -> list[str]:
    counts = Counter(reason for row in rows for reason in row.reasons)
    reasons = sorted(f"{count} {reason}" for reason, count in counts.items())
    return [f"rejected: {', '.join(reasons)}"] if reasons else []
