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
    """Per node: nothing when it passes, else the reasons, with a ! in front when no eviction could help."""
    view = cluster(*objects).view
    told = {}
    for row, code in enumerate(plugin.filter(view, pod, ALL_ROWS).tolist()):
        words = ", ".join(plugin.reasons(view, pod, code)) if code else PASSES
        told[view.nodes[row].name] = f"! {words}" if code < 0 else words
    return told


def rejection(plugin: Filter, pod: Pod, node: Node, *standing: Pod | Object) -> str:
    """The same for a single node."""
    return rejections(plugin, pod, node, *standing)[node.name]


def raw_scores(plugin: Score, pod: Pod, *objects: Node | Pod | Object) -> dict[str, int] | None:
    """Per node, as the plugin gives them; None when it has no opinion."""
    return _by_name(cluster(*objects), plugin, pod, scaled=False)


def scores(plugin: Score, pod: Pod, *objects: Node | Pod | Object) -> dict[str, int] | None:
    """Per node, normalised over all of them."""
    return _by_name(cluster(*objects), plugin, pod, scaled=True)


def _by_name(held: Cluster, plugin: Score, pod: Pod, *, scaled: bool) -> dict[str, int] | None:
    column = plugin.score(held.view, pod, ALL_ROWS)
    if column is None:
        return None
    column = WeightedScore.of(plugin, 1).normalised(held.view, pod, ALL_ROWS, column) if scaled else column
    return {node.name: int(score) for node, score in zip(held.view.nodes, column, strict=True)}
