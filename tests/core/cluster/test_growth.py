"""Node tables do not keep what no node has any more."""

from msgspec.structs import replace

from trimtab.core.cluster.cluster import Cluster
from trimtab.core.cluster.invariants import check_invariants
from trimtab.core.model.node import Node
from trimtab.core.model.pod import HostPort, Pod, PodSpec
from trimtab.core.model.selectors import Requirement
from trimtab.core.model.taints import Taint


def test_label_values_and_taint_sets_stay_bounded() -> None:
    """A label and a taint that change forever leave only a few entries per row."""
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


def test_label_keys_and_host_ports_stay_bounded() -> None:
    """Selectors over ever new keys keep a bounded number of columns; a released port keeps none."""
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
