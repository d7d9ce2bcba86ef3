"""Choose the best node for one pod, or say why no node is feasible. Stateless; the caller assumes the pod on its node.

Nominated pods of equal or higher priority count as kube-scheduler counts them: a node must pass with them and without
them, and the rejection with them is the one that is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.node_table import name_hash
from trimtab.core.cluster.view import View
from trimtab.core.framework.evaluation import INFEASIBLE, INFEASIBLE_MAX, NO_TIMER, Evaluation, PluginTimer
from trimtab.core.framework.evaluation_cache import EvaluationCache
from trimtab.core.framework.interface import ALL_ROWS, Ints, Rows
from trimtab.core.framework.profile import Profile, TieBreak, to_points
from trimtab.core.framework.rejections import PASSES, count_by_code
from trimtab.core.model.pod import Pod
from trimtab.core.model.schedule_result import NodeScore, Placement, Rejection, Unschedulable

NominatedByNode = Mapping[str, Sequence[Pod]]

MAX_RANKED = 5
LAST = np.uint64(0xFFFFFFFFFFFFFFFF)


def choose(
    view: View,
    pod: Pod,
    profile: Profile,
    nominated: Iterable[Pod] = (),
    cache: EvaluationCache | None = None,
    timer: PluginTimer = NO_TIMER,
) -> Placement | Unschedulable:
    """Run all plugins for all nodes and take the best node; `cache` reuses results for pods of the same template."""
    if not view.count:
        return Unschedulable(0)
    evaluation = cache.evaluate(view, pod, profile, timer) if cache is not None else evaluate(view, pod, profile, timer)
    if evaluation.pre_filter_rejection is not None:
        plugin, rejection = evaluation.pre_filter_rejection
        return Unschedulable(view.count, note=rejection.reason, plugins=(plugin,))
    base_scores, rejections = _feasible_scores(view, pod, evaluation, nominated)
    total = add_normalised(view, evaluation, base_scores)
    top = int(total.argmax())
    if total[top] <= INFEASIBLE_MAX:
        rejecting_plugins = (*evaluation.node_subsets, *(each.plugin for each in rejections))
        return Unschedulable(view.count, rejections, plugins=tuple(dict.fromkeys(rejecting_plugins)))
    row = _nominated_row(view, pod, total)
    if row is None:
        row = tie_break(view, pod, profile, total == total[top])
    return _placement(view, row, total, evaluation, rejections)


def evaluate(view: View, pod: Pod, profile: Profile, timer: PluginTimer = NO_TIMER) -> Evaluation:
    evaluation = Evaluation(profile, pod)
    evaluation.compute(view, timer)
    return evaluation


def add_normalised(view: View, evaluation: Evaluation, base_scores: Ints) -> Ints:
    """Add the scores that depend on which nodes are feasible."""
    if not evaluation.relative and not evaluation.custom_scores:
        return base_scores
    total, pod = base_scores.copy(), evaluation.pod
    feasible = base_scores > INFEASIBLE_MAX
    rows: Rows = ALL_ROWS if feasible.all() else np.flatnonzero(feasible)
    if not len(base_scores[rows]):
        return base_scores
    for index in evaluation.relative:
        total[rows] += evaluation.profile.scores[index].normalised(view, pod, rows, evaluation.raw_scores[index][rows])
    for index in evaluation.custom_scores:
        scoring = evaluation.profile.scores[index]
        raw = scoring.plugin.score(view, pod, rows)
        if raw is not None:
            total[rows] += scoring.normalised(view, pod, rows, raw)
    return total


def tie_break(view: View, pod: Pod, profile: Profile, best: NDArray[np.bool_]) -> int:
    """One of the equally good nodes, independent of the order in which nodes were added."""
    if profile.tie_break is TieBreak.NAME:
        return min(map(int, np.flatnonzero(best)), key=lambda row: view.nodes[row].name)
    return int(np.where(best, view.name_hash ^ np.uint64(name_hash(pod.uid)), LAST).argmin())


def best_nodes(view: View, pod: Pod, profile: Profile, nominated: Iterable[Pod] = ()) -> tuple[str, ...]:
    """The feasible nodes with the highest score, one of which the tie break chooses; none if no node is feasible."""
    if not view.count:
        return ()
    evaluation = evaluate(view, pod, profile)
    if evaluation.pre_filter_rejection is not None:
        return ()
    base_scores, _ = _feasible_scores(view, pod, evaluation, nominated)
    total = add_normalised(view, evaluation, base_scores)
    top = total.max()
    return tuple(view.nodes[row].name for row in np.flatnonzero(total == top).tolist()) if top > INFEASIBLE_MAX else ()


class FinalRejections(NamedTuple):
    """Per row: the filter that rejects it (PASSES for none), its code, and whether a PreFilter excludes the row."""

    rejected_by: NDArray[np.int16]
    codes: Ints
    excluded: NDArray[np.bool_]


def final_rejections(view: View, pod: Pod, evaluation: Evaluation, nominated: NominatedByNode) -> FinalRejections:
    """Which filter rejects which node, with nominated pods and PreFilter results taken into account."""
    rejected_by, codes, excluded = (
        evaluation.rejections.rejected_by.copy(),
        evaluation.rejections.codes.copy(),
        _excluded_rows(view, evaluation),
    )
    if nominated:
        _filter_with_nominated(view, pod, evaluation, nominated, rejected_by, codes)
    rejected_by[excluded] = PASSES
    return FinalRejections(rejected_by, codes, excluded)


def excluded_rejection(evaluation: Evaluation, nodes: int) -> Rejection:
    """The rejection of the nodes that a PreFilter excludes."""
    names = " ".join(sorted(evaluation.node_subsets))
    return Rejection(names, (f"node(s) didn't satisfy plugin(s) [{names}]",), nodes, True)


def _feasible_scores(
    view: View, pod: Pod, evaluation: Evaluation, nominated: Iterable[Pod]
) -> tuple[Ints, tuple[Rejection, ...]]:
    """Base scores without the nodes that nominations or a PreFilter rule out, and all rejections."""
    by_node = nominated_by_node(view, pod, nominated)
    if not by_node and not evaluation.node_subsets:
        return evaluation.base_scores, evaluation.rejection_summary(view)
    rejected_by, codes, excluded = final_rejections(view, pod, evaluation, by_node)
    base_scores = evaluation.base_scores.copy()
    base_scores[excluded | (rejected_by != PASSES)] = INFEASIBLE
    rejections = [
        evaluation.rejection(view, int(index), int(code), int(number))
        for (index, code), number in sorted(count_by_code(rejected_by, codes).items())
    ]
    return base_scores, (
        *rejections,
        *([excluded_rejection(evaluation, int(excluded.sum()))] if excluded.any() else ()),
    )


def nominated_by_node(view: View, pod: Pod, nominated: Iterable[Pod]) -> NominatedByNode:
    """Nominated pods by node name, as far as this pod has to yield to them."""
    by_node: dict[str, list[Pod]] = {}
    for other in nominated:
        if other.uid != pod.uid and other.priority >= pod.priority and view.row(other.nominated_node) is not None:
            by_node.setdefault(other.nominated_node, []).append(other)
    return by_node


def _filter_with_nominated(
    view: View,
    pod: Pod,
    evaluation: Evaluation,
    nominated: NominatedByNode,
    rejected_by: NDArray[np.int16],
    final_codes: Ints,
) -> None:
    """Filter nodes with nominated pods again, as if those pods ran there; updates `rejected_by` and `final_codes`."""
    overlay = view.with_pods(nominated)
    rows = np.array([view.node_table.row[node] for node in nominated], dtype=np.intp)
    for index in sorted(evaluation.codes, reverse=True):
        codes = evaluation.profile.filters[index].filter(overlay, pod, rows)
        rejected = rows[codes != 0]
        rejected_by[rejected], final_codes[rejected] = index, codes[codes != 0]


def _excluded_rows(view: View, evaluation: Evaluation) -> NDArray[np.bool_]:
    excluded = np.zeros(view.count, dtype=np.bool_)
    for subset in evaluation.node_subsets.values():
        excluded |= ~view.rows_named(subset.node_names)
    return excluded


def _nominated_row(view: View, pod: Pod, total: Ints) -> int | None:
    """The pod's own nominated node goes before all others if it is still feasible."""
    row = view.row(pod.nominated_node) if pod.nominated_node else None
    return row if row is not None and total[row] > INFEASIBLE_MAX else None


def _placement(
    view: View, row: int, total: Ints, evaluation: Evaluation, rejections: tuple[Rejection, ...]
) -> Placement:
    feasible = view.count - sum(each.nodes for each in rejections)
    offset, scale = evaluation.offset, evaluation.profile.score_scale
    return Placement(
        node=view.nodes[row].name,
        total=to_points(total.item(row) + offset, scale),
        feasible=feasible,
        nodes=view.count,
        best=tuple(
            NodeScore(view.nodes[each].name, to_points(total.item(each) + offset, scale))
            for each in _top_rows(total, row)
        ),
        rejections=rejections,
    )


def _top_rows(total: Ints, chosen: int) -> list[int]:
    """The chosen row and the next best few; `total` is restored before returning."""
    rows, saved = [chosen], [total[chosen]]
    total[chosen] = INFEASIBLE
    for _ in range(min(MAX_RANKED, len(total)) - 1):
        row = int(total.argmax())
        if total[row] <= INFEASIBLE_MAX:
            break
        rows.append(row)
        saved.append(total[row])
        total[row] = INFEASIBLE
    total[rows] = saved
    return rows
