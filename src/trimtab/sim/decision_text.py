"""Turns the table of a decision into sentences for people; decides nothing and changes nothing."""

from __future__ import annotations

from collections import Counter

from trimtab.core.framework.explain import Explanation, NodeRow

ONLY_FEASIBLE = "the only node that will do"


def full_reason(explanation: Explanation, by_requests: str = "") -> str:
    """Why this node and no other, or in kube-scheduler's words why none; and why not the one that requests speak for."""
    if not explanation.node:
        return explanation.verdict
    feasible = [line for line in explanation.lines if not line.refused_by]
    chosen = next(line for line in feasible if line.node == explanation.node)
    others = [line for line in feasible if line is not chosen]
    among = f"best of {len(feasible)} of {len(explanation.lines)} nodes"
    words = f"{among}: {_comparison(chosen, others)}" if others else ONLY_FEASIBLE
    elsewhere = [line for line in explanation.lines if line.node == by_requests and line is not chosen]
    told = [f"by requests alone: {line.node} ({_why_not(chosen, line)})" for line in elsewhere]
    return "; ".join([words, *_rejections(explanation.lines), *told])


def short_reason(explanation: Explanation) -> str:
    """The same for a table's cell: the score, the next best, and how many nodes were out of the question."""
    if not explanation.node:
        return explanation.verdict
    chosen = next(line for line in explanation.lines if line.node == explanation.node)
    others = [line for line in explanation.lines if line is not chosen and not line.refused_by]
    out = len(explanation.lines) - len(others) - 1
    refused = f"; {out} refused" if out else ""
    if not others:
        return f"{ONLY_FEASIBLE}{refused}"
    same = "tie with" if others[0].total == chosen.total else "next"
    score, rival = format_scores(chosen.total, others[0].total)
    return f"score {score}, {same} {others[0].node} {rival}{refused}"


def format_scores(one: float, other: float) -> tuple[str, str]:
    """Two scores with no more decimals than it takes to tell them apart."""
    places = next((places for places in (0, 1, 2) if round(one, places) != round(other, places)), 3)
    return f"{one:.{0 if one == other else places}f}", f"{other:.{0 if one == other else places}f}"


def _comparison(chosen: NodeRow, others: list[NodeRow]) -> str:
    """Only the scores that tell the chosen node from the next best; the rest is the same on both."""
    rivals = [line.node for line in others if line.total == chosen.total]
    if rivals:
        return f"score {chosen.total:.0f}, a tie with {' and '.join(rivals)}, broken by a hash of pod and node"
    score, rival = format_scores(chosen.total, others[0].total)
    return f"score {score}, next {others[0].node} {rival} ({_score_differences(chosen, others[0])})"


def _score_differences(chosen: NodeRow, other: NodeRow) -> str:
    pairs = ((plugin, score, other.scores[plugin]) for plugin, score in chosen.scores.items())
    return ", ".join(
        f"{plugin} {' against '.join(format_scores(one, two))}" for plugin, one, two in pairs if one != two
    )


def _why_not(chosen: NodeRow, other: NodeRow) -> str:
    return f"refused by {other.refused_by}" if other.refused_by else _score_differences(chosen, other)


def _rejections(lines: tuple[NodeRow, ...]) -> list[str]:
    counts = Counter(reason for line in lines for reason in line.reasons)
    told = sorted(f"{count} {reason}" for reason, count in counts.items())
    return [f"refused: {', '.join(told)}"] if told else []
