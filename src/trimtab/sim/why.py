"""Turns the table of a decision into sentences for people; decides nothing and changes nothing."""

from __future__ import annotations

from collections import Counter

from trimtab.core.placing.explain import Explanation, Line

ONLY = "the only node that will do"


def sentence(explanation: Explanation) -> str:
    """Why this node and no other, or in kube-scheduler's words why none."""
    if not explanation.node:
        return explanation.verdict
    feasible = [line for line in explanation.lines if not line.refused_by]
    chosen = next(line for line in feasible if line.node == explanation.node)
    others = [line for line in feasible if line is not chosen]
    among = f"best of {len(feasible)} of {len(explanation.lines)} nodes"
    words = f"{among}: {_comparison(chosen, others)}" if others else ONLY
    return "; ".join([words, *_refusals(explanation.lines)])


def in_short(explanation: Explanation) -> str:
    """The same for a table's cell: the score, the next best, and how many nodes were out of the question."""
    if not explanation.node:
        return explanation.verdict
    chosen = next(line for line in explanation.lines if line.node == explanation.node)
    others = [line for line in explanation.lines if line is not chosen and not line.refused_by]
    out = len(explanation.lines) - len(others) - 1
    refused = f"; {out} refused" if out else ""
    if not others:
        return f"{ONLY}{refused}"
    same = "tie with" if others[0].total == chosen.total else "next"
    return f"score {chosen.total}, {same} {others[0].node} {others[0].total}{refused}"


def _comparison(chosen: Line, others: list[Line]) -> str:
    """Only the scores that tell the chosen node from the next best; the rest is the same on both."""
    rivals = [line.node for line in others if line.total == chosen.total]
    if rivals:
        return f"score {chosen.total}, a tie with {' and '.join(rivals)}, broken by a hash of pod and node"
    telling = [
        f"{plugin} {score} against {others[0].scores[plugin]}"
        for plugin, score in chosen.scores.items()
        if score != others[0].scores[plugin]
    ]
    return f"score {chosen.total}, next {others[0].node} {others[0].total} ({', '.join(telling)})"


def _refusals(lines: tuple[Line, ...]) -> list[str]:
    counts = Counter(reason for line in lines for reason in line.reasons)
    told = sorted(f"{count} {reason}" for reason, count in counts.items())
    return [f"refused: {', '.join(told)}"] if told else []
