"""The per-node table behind a decision, computed from the current state: rejections with reasons, scores by plugin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

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
from trimtab.core.framework.profile import Profile, WeightedScore, plugin_name, score_scale_of, to_points
from trimtab.core.framework.rejections import PASSES
from trimtab.core.model.pod import Pod
from trimtab.core.model.schedule_result import Placement


class PluginScore(Struct, frozen=True):
    """A plugin's score of one node: as the plugin gave it, as 0 to 100, the plugin's weight, and normalised times weight."""

    raw: float
    normalised: float
    weight: int
    points: float


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
    plugins: dict[str, PluginScore] = {}


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
    columns = score_columns(view, evaluation, (charged.rejected_by == PASSES) & ~charged.excluded)
    return [_node_row(view, row, evaluation, charged, columns) for row in shown]


def _node_row(
    view: View, row: int, evaluation: Evaluation, rejections: FinalRejections, columns: Sequence[ScoreColumns]
) -> NodeRow:
    name, index = view.nodes[row].name, int(rejections.rejected_by[row])
    if rejections.excluded[row]:
        rejection = excluded_rejection(evaluation, 1)
    elif index != PASSES:
        rejection = evaluation.rejection(view, index, int(rejections.codes[row]), 1)
    else:
        scale = evaluation.profile.score_scale
        plugins = {each.scoring.name: each.score(row, scale) for each in columns}
        return NodeRow(
            name,
            scores={plugin: score.points for plugin, score in plugins.items()},
            total=to_points(sum(int(each.weighted[row]) for each in columns), scale),
            plugins=plugins,
        )
    return NodeRow(name, rejection.plugin, rejection.reasons, rejection.unresolvable)


class ScoreColumns(NamedTuple):
    """One plugin's scores, a cell per row; 0 where the row is not feasible."""

    scoring: WeightedScore
    raw: Ints
    weighted: Ints  # normalised, times the weight, in units of the profile's score scale

    def score(self, row: int, score_scale: int) -> PluginScore:
        points, weight = to_points(int(self.weighted[row]), score_scale), self.scoring.weight
        raw = to_points(int(self.raw[row]), score_scale_of(self.scoring.plugin))
        return PluginScore(raw, round(points / weight, 3), weight, points)


def score_columns(view: View, evaluation: Evaluation, feasible: Bools) -> list[ScoreColumns]:
    """The scores of all plugins that score this pod."""
    columns: list[ScoreColumns] = []
    rows = np.flatnonzero(feasible)
    for index in (*evaluation.raw_scores, *evaluation.custom_scores):
        scoring = evaluation.profile.scores[index]
        given = (
            evaluation.raw_scores[index][rows]
            if index in evaluation.raw_scores
            else scoring.plugin.score(view, evaluation.pod, rows)
        )
        if given is not None and len(rows):
            raw, weighted = np.zeros((2, view.count), dtype=np.int64)
            raw[rows], weighted[rows] = given, scoring.normalised(view, evaluation.pod, rows, given)
            columns.append(ScoreColumns(scoring, raw, weighted))
    return columns
