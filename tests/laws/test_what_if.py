"""An overlay shows each node as if only its own pods had changed, also to plugins that count across nodes."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.laws.cluster_strategies import NAMES, clusters, pods
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.framework.interface import ALL_ROWS, Filter
from trimtab.core.model.pod import Pod
from trimtab.core.plugins.inter_pod_affinity import InterPodAffinity
from trimtab.core.plugins.pod_topology_spread import PodTopologySpread

OFTEN = settings(max_examples=100, deadline=None)


def changed(cluster: Cluster, node: str, added: Iterable[Pod], removed: Iterable[Pod]) -> Cluster:
    """A real copy in which these pods are added to, and removed from, one node."""
    fork = cluster.fork()
    for pod in removed:
        fork.delete_pod(pod.uid)
    for number, pod in enumerate(added):
        fork.upsert_pod(replace(pod, uid=f"added-{number}", node=node, phase="Running"))
    return fork


def told_alone(plugin: Filter, cluster: Cluster, pod: Pod, node: str) -> int:
    view = cluster.view
    row = view.row(node)
    assert row is not None
    return int(plugin.filter(view, pod, ALL_ROWS)[row])


def usual(pod: Pod) -> bool:
    """Whether kube-scheduler counts such a pod alike when it exists and when it is only added in a dry run."""
    return not any(each.selector is not None and each.selector.empty for each in pod.spec.topology_spread)


@OFTEN
@given(
    cluster=clusters(),
    pod=pods("newcomer"),
    added=st.dictionaries(st.sampled_from(NAMES), st.lists(pods("added"), min_size=1, max_size=2), max_size=3),
    gone=st.sets(st.sampled_from([f"uid-p{number}" for number in range(8)])),
)
def test_each_node_with_its_own_changes_alone(
    cluster: Cluster, pod: Pod, added: dict[str, list[Pod]], gone: set[str]
) -> None:
    """Each row of an overlay's answer is that of a cluster in which nothing but that node was changed."""
    added = {name: [replace(each, terminating=False) for each in come] for name, come in added.items()}
    removed: dict[str, list[Pod]] = {}
    for uid in gone & cluster.placements.keys():
        place = cluster.placements[uid]
        if not place.pod.terminating:
            removed.setdefault(place.node, []).append(place.pod)
    overlay = cluster.view.with_pods(added, removed)
    plugins: list[Filter] = [InterPodAffinity(), *([PodTopologySpread()] if usual(pod) else [])]
    for plugin in plugins:
        codes = plugin.filter(overlay, pod, ALL_ROWS).tolist()
        expected = [
            told_alone(plugin, changed(cluster, name, added.get(name, ()), removed.get(name, ())), pod, name)
            for name in (node.name for node in cluster.view.nodes)
        ]
        assert expected == codes
