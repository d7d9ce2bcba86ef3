"""Runs one plugin and returns results by node name and reason, so that test tables are readable."""

from __future__ import annotations

from tests.build import cluster
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.framework.interface import ALL_ROWS, Filter, Score
from trimtab.core.framework.profile import WeightedScore
from trimtab.core.model.node import Node
from trimtab.core.model.objects import Object
from trimtab.core.model.pod import Pod

PASSES = ""


def rejections(plugin: Filter, pod: Pod, *objects: Node | Pod | Object) -> dict[str, str]:
    """By node: empty when it passes, else the reasons, with a ! in front when no eviction could help."""
    return rejections_in(cluster(*objects), plugin, pod)


def rejections_in(cluster: Cluster, plugin: Filter, pod: Pod) -> dict[str, str]:
    """The same for the nodes of this cluster."""
    view, found = cluster.view, {}
    for row, code in enumerate(plugin.filter(view, pod, ALL_ROWS).tolist()):
        reasons = ", ".join(plugin.reasons(view, pod, code)) if code else PASSES
        found[view.nodes[row].name] = f"! {reasons}" if code < 0 else reasons
    return found


def rejection(plugin: Filter, pod: Pod, node: Node, *others: Pod | Object) -> str:
    """The same for a single node."""
    return rejections(plugin, pod, node, *others)[node.name]


def raw_scores(plugin: Score, pod: Pod, *objects: Node | Pod | Object) -> dict[str, int] | None:
    """Raw scores by node; None if the plugin skips the pod."""
    return _by_name(cluster(*objects), plugin, pod, scaled=False)


def scores(plugin: Score, pod: Pod, *objects: Node | Pod | Object) -> dict[str, int] | None:
    """By node, normalised over all of them."""
    return _by_name(cluster(*objects), plugin, pod, scaled=True)


def _by_name(state: Cluster, plugin: Score, pod: Pod, *, scaled: bool) -> dict[str, int] | None:
    column = plugin.score(state.view, pod, ALL_ROWS)
    if column is None:
        return None
    column = WeightedScore.of(plugin, 1).normalised(state.view, pod, ALL_ROWS, column) if scaled else column
    return {node.name: int(score) for node, score in zip(state.view.nodes, column, strict=True)}
