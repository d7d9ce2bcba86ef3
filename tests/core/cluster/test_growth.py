"""Decides nothing new: shows that columns forget what no node has any more."""

from msgspec.structs import replace

from trimtab.core.cluster.cluster import Cluster
from trimtab.core.cluster.invariants import check_invariants
from trimtab.core.model.node import Node
from trimtab.core.model.pod import HostPort, Pod, PodSpec
from trimtab.core.model.selectors import Requirement
from trimtab.core.model.taints import Taint


def test_values_that_come_and_go_are_forgotten() -> None:
    """A label and a taint that change without end leave tables no larger than a few entries a row."""
    cluster = Cluster()
    cluster.upsert_node(Node("a", "u", 1))
    for i in range(1_000):
        node = Node("a", "u", i + 2, labels={"beat": str(i)}, taints=(Taint("t", str(i)),))
        cluster.upsert_node(node)
        assert [True] == cluster.view.matching_label(Requirement("beat", "In", (str(i),))).tolist()
    columns = cluster.node_table
    assert 200 > len(columns.taint_sets)
    assert 200 > len(columns.labels.columns["beat"].values)
    assert [] == check_invariants(cluster)
    cluster.upsert_node(replace(node, version=5_000, taints=()))
    assert [] == check_invariants(cluster)


def test_keys_and_ports_that_nobody_asks_for_any_more_are_forgotten() -> None:
    """Selectors over endless keys keep a bounded number of columns; a port that was given back keeps none."""
    cluster = Cluster()
    cluster.upsert_node(Node("a", "u", 1, labels={"kept": "yes"}))
    for i in range(1_000):
        cluster.view.matching_label(Requirement(f"key-{i}", "Exists"))
        pod = Pod(
            f"uid-{i}", "default", f"pod-{i}", 1, node="a", spec=PodSpec(ports=(HostPort("TCP", "0.0.0.0", i + 1),))
        )
        cluster.upsert_pod(pod)
        cluster.delete_pod(pod.uid)
    assert 256 >= len(cluster.node_table.labels.columns)
    assert {} == cluster.node_table.host_ports.taken
    assert [True] == cluster.view.matching_label(Requirement("kept", "In", ("yes",))).tolist()
    assert [] == check_invariants(cluster)
