"""The per-node table behind a decision, computed from the current state: rejections with reasons, scores by plugin."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec import Struct, field

from trimtab.core.cluster.view import View
from trimtab.core.framework.choose import (
    FinalRejections,
    choose,
    evaluate,
    excluded_rejection,
    final_rejections,
    nominated_by_node,
)
from trimtab.core.framework.evaluation import Evaluation
from trimtab.core.framework.interface import Bools, ExplainNote, Ints
from trimtab.core.framework.profile import Profile, plugin_name, to_points
from trimtab.core.framework.rejections import PASSES
from trimtab.core.model.pod import Pod
from trimtab.core.model.schedule_result import Placement


class NodeRow(Struct, frozen=True):
    """One node of the table: rejected by a plugin with reasons, or its weighted scores by plugin and their sum.

    The names in JSON are older than those in code, and stay for those who read the explain pages.
    """

    node: str
    rejected_by: str = field(default="", name="refused_by")
    reasons: tuple[str, ...] = ()
    unresolvable: bool = field(default=False, name="final")
    scores: dict[str, float] = {}
    total: float = 0


class Explanation(Struct, frozen=True):
    """The decision as it would be taken now, in a sentence, and the table behind it, best node first."""

    pod: str
    verdict: str
    node: str
    rows: tuple[NodeRow, ...] = field(name="lines")


def explain(view: View, pod: Pod, profile: Profile, nominated: Iterable[Pod] = ()) -> Explanation:
    nominated_pods = tuple(nominated)
    verdict = choose(view, pod, profile, nominated_pods)
    rows = sorted(
        node_rows(view, pod, evaluate(view, pod, profile), nominated_pods),
        key=lambda row: (bool(row.rejected_by), -row.total, row.node),
    )
    if isinstance(verdict, Placement):
        text = f"{verdict.node}: best of {verdict.feasible} of {verdict.nodes} nodes"
        return Explanation(pod.key, text + _notes(view, pod, profile), verdict.node, tuple(rows))
    return Explanation(pod.key, verdict.message() + _notes(view, pod, profile), "", tuple(rows))


def _notes(view: View, pod: Pod, profile: Profile) -> str:
    plugins = {plugin_name(each): each for each in (*profile.filters, *(score.plugin for score in profile.scores))}
    notes = ((name, each.explain_note(view, pod)) for name, each in plugins.items() if isinstance(each, ExplainNote))
    return "".join(f" ({name}: {note})" for name, note in notes if note)


def node_rows(
    view: View, pod: Pod, evaluation: Evaluation, nominated: Iterable[Pod] = (), rows: Iterable[int] | None = None
) -> list[NodeRow]:
    """A row per node, in view order; all nodes unless some are named."""
    shown = range(view.count) if rows is None else rows
    if evaluation.pre_filter_rejection is not None:
        plugin, rejection = evaluation.pre_filter_rejection
        return [NodeRow(view.nodes[row].name, plugin, (rejection.reason,), rejection.unresolvable) for row in shown]
    charged = final_rejections(view, pod, evaluation, nominated_by_node(view, pod, nominated))
    weighted = weighted_scores(view, evaluation, (charged.rejected_by == PASSES) & ~charged.excluded)
    return [_node_row(view, row, evaluation, charged, weighted) for row in shown]


def _node_row(
    view: View, row: int, evaluation: Evaluation, rejections: FinalRejections, weighted: dict[str, Ints]
) -> NodeRow:
    name, index = view.nodes[row].name, int(rejections.rejected_by[row])
    if rejections.excluded[row]:
        rejection = excluded_rejection(evaluation, 1)
    elif index != PASSES:
        rejection = evaluation.rejection(view, index, int(rejections.codes[row]), 1)
    else:
        scale, cells = evaluation.profile.score_scale, {plugin: int(column[row]) for plugin, column in weighted.items()}
        return NodeRow(
            name,
            scores={plugin: to_points(cell, scale) for plugin, cell in cells.items()},
            total=to_points(sum(cells.values()), scale),
        )
    return NodeRow(name, rejection.plugin, rejection.reasons, rejection.unresolvable)


def weighted_scores(view: View, evaluation: Evaluation, feasible: Bools) -> dict[str, Ints]:
    """Normalised scores times weight by plugin, one cell per row, 0 where the row is not feasible."""
    columns: dict[str, Ints] = {}
    rows = np.flatnonzero(feasible)
    for index in (*evaluation.raw_scores, *evaluation.custom_scores):
        scoring = evaluation.profile.scores[index]
        raw = (
            evaluation.raw_scores[index][rows]
            if index in evaluation.raw_scores
            else scoring.plugin.score(view, evaluation.pod, rows)
        )
        if raw is not None and len(rows):
            column = columns[scoring.name] = np.zeros(view.count, dtype=np.int64)
            column[rows] = scoring.normalised(view, evaluation.pod, rows, raw)
    return columns
