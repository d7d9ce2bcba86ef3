"""Decides nothing new: shows that columns forget what no node has any more."""

from msgspec.structs import replace

from trimtab.core.cluster.invariants import faults
from trimtab.core.cluster.state import Cluster
from trimtab.core.model.node import Node
from trimtab.core.model.pod import HostPort, Pod, PodSpec
from trimtab.core.model.selectors import Requirement
from trimtab.core.model.taints import Taint


def test_values_that_come_and_go_are_forgotten() -> None:
    """A label and a taint that change without end leave tables no larger than a few entries a row."""
    cluster = Cluster()
    cluster.see_node(Node("a", "u", 1))
    for i in range(1_000):
        node = Node("a", "u", i + 2, labels={"beat": str(i)}, taints=(Taint("t", str(i)),))
        cluster.see_node(node)
        assert [True] == cluster.view.labelled(Requirement("beat", "In", (str(i),))).tolist()
    columns = cluster.columns
    assert 200 > len(columns.taint_sets)
    assert 200 > len(columns.labels.columns["beat"].values)
    assert [] == faults(cluster)
    cluster.see_node(replace(node, version=5_000, taints=()))
    assert [] == faults(cluster)


def test_keys_and_ports_that_nobody_asks_for_any_more_are_forgotten() -> None:
    """Selectors over endless keys keep a bounded number of columns; a port that was given back keeps none."""
    cluster = Cluster()
    cluster.see_node(Node("a", "u", 1, labels={"kept": "yes"}))
    for i in range(1_000):
        cluster.view.labelled(Requirement(f"key-{i}", "Exists"))
        pod = Pod(
            f"uid-{i}", "default", f"pod-{i}", 1, node="a", spec=PodSpec(ports=(HostPort("TCP", "0.0.0.0", i + 1),))
        )
        cluster.see_pod(pod)
        cluster.lose_pod(pod.uid)
    assert 256 >= len(cluster.columns.labels.columns)
    assert {} == cluster.columns.ports.taken
    assert [True] == cluster.view.labelled(Requirement("kept", "In", ("yes",))).tolist()
    assert [] == faults(cluster)
