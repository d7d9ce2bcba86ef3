"""check_invariants finds every kind of damage, and nothing in an intact cluster."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tests.core.engine_harness import node, pod
from trimtab.core.cluster.cluster import Cluster, PodPlacement
from trimtab.core.cluster.invariants import check_invariants
from trimtab.core.cluster.topology.pod_selectors import PodSelector
from trimtab.core.model.node import Image
from trimtab.core.model.pod import HostPort, PodSpec
from trimtab.core.model.resources import CPU
from trimtab.core.model.selectors import LabelSelector, Requirement
from trimtab.core.model.taints import NO_SCHEDULE, Taint

ANYBODY = PodSelector(None, LabelSelector())
PORT = HostPort("TCP", "0.0.0.0", 80)


def busy_cluster() -> Cluster:
    """Two nodes, a running pod, an assumed one and a nominated one."""
    cluster = Cluster()
    cluster.upsert_node(node("a", labels={"zone": "x"}, taints=(Taint("k", "", NO_SCHEDULE),)))
    cluster.upsert_node(node("b", images=(Image(("app:1",), 10),)))
    cluster.view.matching_label(Requirement("zone", "In", ("x",)))
    cluster.upsert_pod(pod("runs", cpu=100, node="a", spec=PodSpec(ports=(PORT,))))
    waits = pod("waits", cpu=200)
    cluster.upsert_pod(waits)
    cluster.assume(waits, "b")
    cluster.upsert_pod(pod("promised", nominated_node="b"))
    return cluster


def test_an_intact_cluster_has_no_errors() -> None:
    """The damage below is made by the tests."""
    assert [] == check_invariants(busy_cluster())


def swap_rows(cluster: Cluster) -> None:
    cluster.node_table.row["a"], cluster.node_table.row["b"] = 1, 0


def raise_a_limit(cluster: Cluster) -> None:
    cluster.node_table.limits[CPU].add(0, 100)


def count_cpu_twice(cluster: Cluster) -> None:
    cluster.node_table.requested[CPU].add(0, 100)


def wrong_cell(cluster: Cluster) -> None:
    cluster.node_table.allocatable[CPU].array[1] = 1


def one_pod_more(cluster: Cluster) -> None:
    cluster.node_table.pod_count[0] += 1


def cordoned(cluster: Cluster) -> None:
    cluster.node_table.unschedulable[1] = True


def other_taints(cluster: Cluster) -> None:
    cluster.node_table.taint_set[1] = cluster.node_table.taint_set[0]


def other_label(cluster: Cluster) -> None:
    ids = cluster.node_table.labels.columns["zone"].ids
    ids[0] = ids[1]


def port_released(cluster: Cluster) -> None:
    cluster.node_table.host_ports.add(0, (PORT,), -1)


def images_dropped(cluster: Cluster) -> None:
    cluster.node_table.images.clear()


def nonzero_cpu_twice(cluster: Cluster) -> None:
    cluster.node_table.nonzero_cpu.add(1, 5)


def placed_on_another_node(cluster: Cluster) -> None:
    cluster.placements["uid-runs"] = PodPlacement("b", cluster.placements["uid-runs"].pod, assumed=False)


def unknown_pod(cluster: Cluster) -> None:
    del cluster.pods["uid-waits"]


def does_not_count(cluster: Cluster) -> None:
    place = cluster.placements.pop("uid-runs")
    del cluster.on_node["a"]
    cluster.node_table.remove_pod("a", place.pod)


def outdated_pod(cluster: Cluster) -> None:
    cluster.pods["uid-runs"] = replace(cluster.pods["uid-runs"], labels={"new": "label"})


def outdated_nomination(cluster: Cluster) -> None:
    del cluster.pods["uid-promised"]


def in_another_row(cluster: Cluster) -> None:
    cluster.pod_table.row[cluster.pod_table.slot["uid-runs"]] = 1


def no_slot(cluster: Cluster) -> None:
    cluster.pod_table.remove_pod("uid-runs")


def counted_twice(cluster: Cluster) -> None:
    cluster.topology_counts.count_selected((ANYBODY,)).add(0, 1)


def another_domain(cluster: Cluster) -> None:
    cluster.topology_counts.count_selected((ANYBODY,)).by_key(cluster.topology_counts.key("zone")).counts[0] += 1


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (swap_rows, "looked up"),
        (count_cpu_twice, "requested cpu of a"),
        (raise_a_limit, "limits cpu of a"),
        (wrong_cell, "allocatable cpu of b"),
        (one_pod_more, "pod_count of a"),
        (cordoned, "unschedulable of b"),
        (other_taints, "taints of b"),
        (other_label, "label zone of a"),
        (port_released, "ports of a"),
        (images_dropped, "images differ"),
        (nonzero_cpu_twice, "nonzero_cpu of b"),
        (placed_on_another_node, "not among its pods"),
        (unknown_pod, "but not known"),
        (does_not_count, "does not count there"),
        (outdated_pod, "in an outdated version"),
        (outdated_nomination, "nominated to b"),
        (in_another_row, "is in its slot as"),
        (no_slot, "slots for"),
        (counted_twice, "a count by label_set is [2.0, 1.0], computed [1.0, 1.0]"),
        (another_domain, "the domain zone=x has 2.0, computed 1.0"),
    ],
)
def test_each_kind_of_damage_is_found(damage: Callable[[Cluster], None], expected: str) -> None:
    """A sentence names what is wrong and where."""
    cluster = busy_cluster()
    damage(cluster)
    assert any(expected in error for error in check_invariants(cluster)), check_invariants(cluster)
