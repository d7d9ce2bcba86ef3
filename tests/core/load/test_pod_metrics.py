"""Further resources: what pods are measured to use, what stands in for missing values, and which nodes are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.core.load.builders import by_name, cluster_of, ingest, pod_reading, reading, running_pod
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.load.ingest import ingest_history
from trimtab.core.load.pod_metrics import Capacity
from trimtab.core.load.snapshots import common_times
from trimtab.core.model.readings import Reading, Statistic, Unit

NET = "network"
STALE = 300.0
HUNDRED = Capacity(amount=100.0)


def cluster(*pods: tuple[str, str], capacity: Capacity = HUNDRED, nodes: Sequence[str] = "abc") -> Cluster:
    """Pods on nodes, each with an owner that is named like it up to the dash; network is a resource."""
    made = cluster_of(*nodes)
    made.load_store.keep_snapshots(True, {NET: capacity})
    for name, on in pods:
        made.upsert_pod(running_pod(name, on, owner=name.partition("-")[0], started=-1000.0))
    return made


def network(values: dict[str, float], at: float = 0.0, **more: Any) -> Reading:
    return pod_reading(values, at, NET, **{"unit": Unit.RAW, **more})


def usage(of: Cluster) -> dict[str, float | None]:
    return by_name(of, of.view.load.expected(NET))


def trust(of: Cluster) -> dict[str, float | None]:
    return by_name(of, of.view.load.trust(NET))


def test_a_node_uses_what_its_pods_use() -> None:
    """An empty node uses nothing, which is known because others are measured."""
    made = cluster(("web-1", "a"), ("db-1", "a"), ("web-2", "b"))
    assert {} == ingest(made, network({"web-1": 30.0, "db-1": 12.5, "web-2": 7.0}))
    assert {"a": 42.5, "b": 7.0, "c": 0.0} == usage(made)
    assert {"a": 1.0, "b": 1.0, "c": 1.0} == trust(made)
    assert {"a": 0.0, "b": 0.0, "c": 0.0} == by_name(made, made.view.load.sampled_at(NET))
    assert not made.view.load.node_metrics_only(NET).any()


def test_nothing_is_known_before_the_first_value() -> None:
    """Not even of an empty node."""
    made = cluster(("web-1", "a"))
    assert ({"a": None, "b": None, "c": None}, {"a": 0.0, "b": 0.0, "c": 0.0}) == (usage(made), trust(made))


def test_a_pod_that_leaves_takes_its_usage_along() -> None:
    """At once, and not with the next sample; so does one that is terminating."""
    made = cluster(("web-1", "a"), ("db-1", "a"))
    ingest(made, network({"web-1": 30.0, "db-1": 12.0}))
    made.delete_pod("uid-web-1")
    assert {"a": 12.0, "b": 0.0, "c": 0.0} == usage(made)


def test_a_pod_of_a_workload_that_never_had_a_value_uses_nothing() -> None:
    """A node with such pods alone is known."""
    made = cluster(("web-1", "a"), ("agent-1", "a"), ("agent-2", "b"))
    ingest(made, network({"web-1": 30.0}))
    assert {"a": 30.0, "b": 0.0, "c": 0.0} == usage(made)
    assert {"a": 1.0, "b": 1.0, "c": 1.0} == trust(made)


def test_siblings_stand_in_for_a_pod_without_a_value() -> None:
    """A young pod counts with their mean; once its own value is overdue, and no other pod's is there, its node is unknown."""
    made = cluster(("web-1", "a"), ("web-2", "a"))
    made.upsert_pod(running_pod("web-3", "b", owner="web", started=-10.0))
    ingest(made, network({"web-1": 30.0, "web-2": 10.0}))
    assert ({"a": 40.0, "b": 20.0, "c": 0.0}, 1.0) == (usage(made), trust(made)["b"])
    ingest(made, network({"web-1": 30.0, "web-2": 10.0}, at=STALE))
    assert {"a": 40.0, "b": None, "c": 0.0} == usage(made)
    assert {"a": 1.0, "b": 0.0, "c": 1.0} == trust(made)


def test_one_missing_pod_among_measured_ones_keeps_its_last_value() -> None:
    """As with CPU and memory, a node is known while one of its pods is; what is missing is not zero."""
    made = cluster(("web-1", "a"), ("db-1", "a"))
    ingest(made, network({"web-1": 30.0, "db-1": 12.0}))
    ingest(made, network({"web-1": 31.0}, at=2 * STALE))
    assert {"a": 43.0, "b": 0.0, "c": 0.0} == usage(made)


def test_values_age() -> None:
    """Half trusted after `freshFor`, and not at all after `staleAfter`; then nothing is known of empty nodes either."""
    made = cluster(("web-1", "a"))
    ingest(made, network({"web-1": 30.0}))
    for now, expected in ((121.0, 0.5), (301.0, 0.0)):
        made.age_load(now)
        assert {"a": expected, "b": expected, "c": expected} == trust(made)


def test_a_discarded_source_is_not_trusted() -> None:
    """Until it answers again, with however old a sample."""
    made = cluster(("web-1", "a"))
    ingest(made, network({"web-1": 30.0}))
    made.load_store.discard_source("pods", 1.0)
    assert {"a": 0.0, "b": 0.0, "c": 0.0} == trust(made)
    ingest(made, network({"web-1": 30.0}), at=2.0)
    assert {"a": 1.0, "b": 1.0, "c": 1.0} == trust(made)


def test_a_replacement_counts_with_what_its_predecessor_used() -> None:
    """Before its own first value."""
    made = cluster(("web-1", "a"))
    ingest(made, network({"web-1": 30.0}))
    ingest(made, network({"web-1": 10.0}, at=300.0))
    made.delete_pod("uid-web-1")
    made.upsert_pod(running_pod("web-9", "b", owner="web", version=2))
    assert (
        pytest.approx((30.0 + 10.0 + 30.0) / 3) == made.load_store.usual_of_pods(NET)[made.pod_table.slot["uid-web-9"]]
    )


def test_a_past_without_a_present() -> None:
    """Values that only history has stand in, too: a node whose metrics ended before the start is not idle."""
    made = cluster(("web-1", "a"), ("db-1", "b"))
    ingest(made, network({"web-1": 30.0}, at=1200.0))
    ingest_history(made.load_store, [network({"db-1": 50.0}, at=600.0)], 1200.0, made.node_table)
    assert {"a": 30.0, "b": None, "c": 0.0} == usage(made)
    assert 50.0 == made.load_store.usual_of_pods(NET)[made.pod_table.slot["uid-db-1"]]


def test_snapshots_have_live_and_past_values() -> None:
    """Aligned with those of CPU and memory."""
    made = cluster(("web-1", "a"))
    ingest(made, network({"web-1": 30.0}, at=600.0))
    assert {} == ingest_history(made.load_store, [network({"web-1": 20.0}, at=300.0)], 600.0, made.node_table)
    snapshots = made.load_store.snapshots[NET]
    slots = made.load_store.placed_pods.slots_of(("default/web-1",))
    (found,) = snapshots.filled(common_times([snapshots]), slots, NONE, made.load_store.workloads)
    assert [30.0, 20.0] == found.tolist()[:2]


NONE = np.array([-1.0])


@pytest.mark.parametrize(
    ("sample", "reason"),
    [
        (network({"web-1": -1.0}), "negative"),
        (network({"web-1": float("nan")}), "not a number"),
        (network({"web-1": float("inf")}), "infinite"),
        (network({"web-1": 1e300}), "implausible"),
        (network({"gone": 1.0}), "unknown"),
        (network({"web-1": 1.0}, at=-400.0), "stale"),
        (network({"web-1": 1.0}, at=900.0), "future"),
        (network({"web-1": 1.0}, statistic=Statistic.MEAN), "unused"),
        (network({"web-1": 1.0}, unit=Unit.ABSOLUTE), "unused"),
        (pod_reading({"web-1": 1.0}, resource="disk", unit=Unit.RAW), "unused"),
        (network({}), "empty"),
    ],
)
def test_what_is_rejected(sample: Reading, reason: str) -> None:
    """What is no amount, of no pod, of no time, or of nothing that is limited; and the node stays unknown."""
    made = cluster(("web-1", "a"))
    assert (1, [reason]) == (sum((found := ingest(made, sample, at=0.0)).values()), [*found])
    assert 0.0 == trust(made)["a"]


def test_more_than_a_node_has_is_no_nonsense() -> None:
    """A capacity of requests per second is what a node should serve, and not what it can."""
    made = cluster(("web-1", "a"))
    ingest(made, network({"web-1": 150.0}))
    assert 150.0 == usage(made)["a"]


def test_samples_of_an_earlier_pod_of_the_name_are_rejected() -> None:
    """Also those that were taken before it started."""
    made = cluster()
    made.upsert_pod(running_pod("web-1", "a", owner="web", started=50.0))
    assert {"earlier": 1} == ingest(made, network({"web-1": 30.0}, at=40.0), at=60.0)


def test_capacities() -> None:
    """An amount, a metric of nodes, or a resource of their allocatable; of CPU and memory it is their allocatable."""
    made = cluster(("web-1", "a"))
    assert {"a": 100.0, "b": 100.0, "c": 100.0} == by_name(made, made.view.usable(NET))
    assert {"a": 4000.0, "b": 4000.0, "c": 4000.0} == by_name(made, made.view.usable("cpu"))
    made.load_store.keep_snapshots(True, {NET: Capacity(allocatable="cpu")})
    assert 4000.0 == by_name(made, made.view.usable(NET))["a"]
    made.load_store.keep_snapshots(True, {NET: Capacity(metric="speed")})
    ingest(made, network({"web-1": 30.0}), reading({"a": 80.0, "b": 0.0, "c": -1.0}, resource="speed", unit=Unit.RAW))
    assert {"a": 80.0, "b": 0.0, "c": None} == by_name(made, made.view.usable(NET))
    assert {"a": 1.0, "b": 1.0, "c": 0.0} == trust(made)


def test_a_fork_has_its_own() -> None:
    """What is measured later is not seen by the fork, and what the fork removes stays known here."""
    made = cluster(("web-1", "a"))
    ingest(made, network({"web-1": 30.0}))
    fork = made.fork()
    ingest(made, network({"web-1": 50.0}, at=10.0))
    assert (30.0, 50.0) == (usage(fork)["a"], usage(made)["a"])
    fork.delete_pod("uid-web-1")
    assert (True, 50.0) == (np.isnan(fork.load_store.usual_of_pods(NET)).all(), usage(made)["a"])


def test_new_settings() -> None:
    """A resource that stays keeps its values, one that is no longer limited is dropped, and a new one knows the siblings of
    pods that were there before."""
    made = cluster(("web-1", "a"), ("web-2", "b"))
    ingest(made, network({"web-1": 30.0}))
    made.load_store.keep_snapshots(True, {NET: Capacity(amount=50.0), "disk": Capacity(amount=1.0)})
    assert 30.0 == usage(made)["a"]
    disk = made.load_store.snapshots["disk"]
    slots = made.load_store.placed_pods.slots_of(("default/web-1", "default/web-2"))
    disk.add(0.0, slots[:1], np.array([7.0]))
    found = disk.filled(common_times([disk]), slots, np.array([-1.0, -1.0]), made.load_store.workloads)
    assert [[7.0, 7.0], [7.0, 7.0]] == found.tolist()
    made.load_store.keep_snapshots(True)
    assert ({"cpu", "memory"}, {}) == (set(made.load_store.snapshots), made.load_store.pod_metrics)


def test_many_pods_and_nodes() -> None:
    """Tables grow, and rows move when a node is removed."""
    names = [f"p{number}-0" for number in range(200)]
    made = cluster(
        *((name, f"n{number % 20}") for number, name in enumerate(names)), nodes=[f"n{n}" for n in range(20)]
    )
    ingest(made, network(dict.fromkeys(names, 2.0)))
    made.delete_node("n0")
    assert {f"n{number}": 20.0 for number in range(1, 20)} == usage(made)
