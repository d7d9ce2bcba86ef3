"""Nodes without some of their pods: requests, ports and counts, also where sums are capped."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.build import cluster, node, pod
from tests.laws.cluster_strategies import clusters, pods
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.cluster.view import View
from trimtab.core.model.pod import Pod


def without(held: Cluster, names: set[str], incoming: Pod) -> View:
    slots = [held.pod_table.slot[each.uid] for each in held.pods.values() if each.name in names]
    return held.view.without_pods(np.array(slots, dtype=np.intp), incoming)


@given(clusters(), st.sets(st.sampled_from([f"p{number}" for number in range(8)])), pods("incoming"))
def test_many_at_once_equal_one_by_one(held: Cluster, names: set[str], incoming: Pod) -> None:
    """For every cluster, requests, counts and port conflicts are those of an overlay made pod by pod."""
    known = {each.name for each in held.pods.values() if each.name in names and held.view.row(each.node) is not None}
    removed: dict[str, list[Pod]] = {}
    for each in held.pods.values():
        if each.name in known:
            removed.setdefault(each.node, []).append(each)
    expected, got = held.view.with_pods({}, removed), without(held, known, incoming)
    for resource in held.node_table.requested:
        assert expected.requested(resource).tolist() == got.requested(resource).tolist()
    assert expected.pod_count.tolist() == got.pod_count.tolist()
    rows = np.arange(held.view.count)
    for port in incoming.spec.ports:
        assert expected.port_conflicts((port,), rows).tolist() == got.port_conflicts((port,), rows).tolist()


def test_the_original_is_unchanged() -> None:
    """A view without a pod leaves the cluster as it was."""
    held = cluster(node("a"), pod("web", cpu="1", ports=[80], on="a"))
    assert [0] == without(held, {"web"}, pod("new", ports=[80])).requested("cpu").tolist()
    assert [1000] == held.view.requested("cpu").tolist()
    assert [1] == held.view.pod_count.tolist()


def test_nominated_pods_stay() -> None:
    """Pods added by an overlay are still there when others are removed."""
    held = cluster(node("a"), pod("web", cpu="1", on="a"))
    together = held.view.with_pods({"a": [pod("promised", cpu="2")]})
    left = together.without_pods(np.array([held.pod_table.slot["uid-web"]]), pod("new"))
    assert [2000] == left.requested("cpu").tolist()
    assert left.delta is not None
    assert (1, 1) == (len(left.delta.slots), len(left.delta.untracked))
