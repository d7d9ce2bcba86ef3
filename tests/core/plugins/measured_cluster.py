"""Clusters with metrics, and the results of a plugin on them by node name."""

from __future__ import annotations

from collections.abc import Mapping

from tests.build import cluster, node
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


def with_samples(held: Cluster, cpu: Percents, memory: Percents, at: float = NOW, lag: float = LAG) -> Cluster:
    """The cluster after one more scrape, in percent of each node's capacity; pods are taken to use what they ask for."""
    held.load_store.apply_settings(LoadSettings(estimates=("requests",)))
    held.ingest_samples((_reading("cpu", cpu, at - lag), _reading("memory", memory, at - lag)), at)
    return held


def _reading(resource: str, used: Percents, measured: float) -> Reading:
    shares = tuple(each / 100 for each in used.values())
    return Reading("meter", resource, tuple(used), shares, (measured,) * len(used), unit=Unit.FRACTION)


def loaded(**percents: tuple[float, float]) -> Cluster:
    """Nodes of 10 cores and 10 GiB by name, with percent of CPU and memory used."""
    held = cluster(*map(large, percents))
    cpu, memory = ({name: both[which] for name, both in percents.items()} for which in (0, 1))
    return with_samples(held, cpu, memory)


def large(name: str) -> Node:
    return node(name, cpu="10", memory="10Gi")


def points(plugin: Score, pod: Pod, held: Cluster) -> dict[str, float]:
    """Points per node."""
    column = plugin.score(held.view, pod, ALL_ROWS)
    assert column is not None
    return {
        each.name: score / score_scale_of(plugin) for each, score in zip(held.view.nodes, column.tolist(), strict=True)
    }


def rejections(plugin: Filter, pod: Pod, held: Cluster) -> dict[str, str]:
    """Per node: nothing when it passes, else the reasons, with a ! in front when no eviction could help."""
    view, told = held.view, {}
    for row, code in enumerate(plugin.filter(view, pod, ALL_ROWS).tolist()):
        words = ", ".join(plugin.reasons(view, pod, code)) if code else ""
        told[view.nodes[row].name] = f"! {words}" if code < 0 else words
    return told


def place_all(plugin: Plugin, held: Cluster, pods: list[Pod]) -> list[str]:
    """Where the pods go one after the other when only this plugin has a say; answers are kept between them."""
    profile, kept, gone = multipoint("p", [(plugin, 1)], TieBreak.NAME), EvaluationCache(), []
    for each in pods:
        verdict = choose(held.view, each, profile, (), kept)
        assert hasattr(verdict, "node")
        held.assume(each, verdict.node)
        for reserver in profile.reserves:
            memory, _ = reserver.reserve(held.view, held.plugin_state.get(plugin.name), each, verdict.node)
            held.set_plugin_state(plugin.name, memory)
        gone.append(verdict.node)
    return gone
