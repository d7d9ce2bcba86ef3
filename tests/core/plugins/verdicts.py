"""Puts a question to one plugin and answers in names and words, so that tables read like sentences; proves nothing itself."""

from __future__ import annotations

from tests.build import cluster
from trimtab.core.cluster.state import Cluster
from trimtab.core.model.node import Node
from trimtab.core.model.objects import Object
from trimtab.core.model.pod import Pod
from trimtab.core.placing.contract import ALL, Filter, Score
from trimtab.core.placing.profile import Scoring

PASSES = ""


def refusals(plugin: Filter, pod: Pod, *objects: Node | Pod | Object) -> dict[str, str]:
    """Per node: nothing when it passes, else the reasons, with a ! in front when no eviction could help."""
    view = cluster(*objects).view
    told = {}
    for row, code in enumerate(plugin.filter(view, pod, ALL).tolist()):
        words = ", ".join(plugin.reasons(view, pod, code)) if code else PASSES
        told[view.nodes[row].name] = f"! {words}" if code < 0 else words
    return told


def refusal(plugin: Filter, pod: Pod, node: Node, *standing: Pod | Object) -> str:
    """The same for a single node."""
    return refusals(plugin, pod, node, *standing)[node.name]


def raw_scores(plugin: Score, pod: Pod, *objects: Node | Pod | Object) -> dict[str, int] | None:
    """Per node, as the plugin gives them; None when it has no opinion."""
    return _by_name(cluster(*objects), plugin, pod, scaled=False)


def scores(plugin: Score, pod: Pod, *objects: Node | Pod | Object) -> dict[str, int] | None:
    """Per node, normalised over all of them."""
    return _by_name(cluster(*objects), plugin, pod, scaled=True)


def _by_name(held: Cluster, plugin: Score, pod: Pod, *, scaled: bool) -> dict[str, int] | None:
    column = plugin.score(held.view, pod, ALL)
    if column is None:
        return None
    column = Scoring.of(plugin, 1).scaled(held.view, pod, ALL, column) if scaled else column
    return {node.name: int(score) for node, score in zip(held.view.nodes, column, strict=True)}
