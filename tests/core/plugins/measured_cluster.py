"""Clusters with metrics, and the results of a plugin on them by node name."""

from __future__ import annotations

from collections.abc import Mapping

from tests.build import cluster, node
from tests.core.plugins.ask_plugin import rejections_in
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.framework.choose import choose
from trimtab.core.framework.evaluation_cache import EvaluationCache
from trimtab.core.framework.interface import ALL_ROWS, Filter, Plugin, Score
from trimtab.core.framework.profile import TieBreak, multipoint, score_scale_of
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.core.model.readings import Reading, Unit

NOW = 10_000.0
LAG = 10.0

Percents = Mapping[str, float]


def with_samples(state: Cluster, cpu: Percents, memory: Percents, at: float = NOW, lag: float = LAG) -> Cluster:
    """The cluster after one more scrape, in percent of each node's capacity; pods are estimated to use their requests."""
    state.load_store.apply_settings(LoadSettings(estimates=("requests",)))
    state.ingest_samples((_reading("cpu", cpu, at - lag), _reading("memory", memory, at - lag)), at)
    return state


def _reading(resource: str, percents: Percents, sampled_at: float) -> Reading:
    ratios = tuple(each / 100 for each in percents.values())
    return Reading("meter", resource, tuple(percents), ratios, (sampled_at,) * len(percents), unit=Unit.FRACTION)


def loaded(**percents: tuple[float, float]) -> Cluster:
    """Nodes of 10 cores and 10 GiB by name, with this usage of CPU and memory in percent."""
    state = cluster(*map(large, percents))
    cpu, memory = ({name: pair[index] for name, pair in percents.items()} for index in (0, 1))
    return with_samples(state, cpu, memory)


def large(name: str) -> Node:
    return node(name, cpu="10", memory="10Gi")


def points(plugin: Score, pod: Pod, state: Cluster) -> dict[str, float]:
    """Points by node."""
    column = plugin.score(state.view, pod, ALL_ROWS)
    assert column is not None
    return {
        each.name: score / score_scale_of(plugin) for each, score in zip(state.view.nodes, column.tolist(), strict=True)
    }


def rejections(plugin: Filter, pod: Pod, state: Cluster) -> dict[str, str]:
    """By node: empty when it passes, else the reasons, with a ! in front when no eviction could help."""
    return rejections_in(state, plugin, pod)


def place_all(plugin: Plugin, state: Cluster, pods: list[Pod]) -> list[str]:
    """The nodes of the pods, scheduled one after the other by this plugin alone, with cached results."""
    profile, cache, nodes = multipoint("p", [(plugin, 1)], TieBreak.NAME), EvaluationCache(), []
    for each in pods:
        verdict = choose(state.view, each, profile, (), cache)
        assert hasattr(verdict, "node")
        state.assume(each, verdict.node)
        for each_reserve in profile.reserves:
            plugin_state, _ = each_reserve.reserve(state.view, state.plugin_state.get(plugin.name), each, verdict.node)
            state.set_plugin_state(plugin.name, plugin_state)
        nodes.append(verdict.node)
    return nodes
