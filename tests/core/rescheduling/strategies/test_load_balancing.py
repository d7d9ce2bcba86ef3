"""Pods leave the fuller nodes of a pool that is used too unevenly."""

import pytest

from tests.core.rescheduling.measured_pods import context, large, measured, running, suggested
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.rescheduling.strategies.load_balancing import LoadBalancing


def cluster_with(**percent: float) -> Cluster:
    """Nodes with this CPU usage; the first letter of the name is the pool."""
    nodes = [large(name, labels={"pool": name[0]}) for name in percent]
    pods = [running(f"on-{name}", on=name) for name in percent]
    return measured(*nodes, *pods, cpu={f"on-{name}": [100 * each] for name, each in percent.items()})


@pytest.mark.parametrize(
    ("strategy", "percent", "expected"),
    [
        (LoadBalancing(), {"a": 60, "b": 50, "c": 40}, []),
        (LoadBalancing(), {"a": 61, "b": 50, "c": 40}, ["a"]),
        (LoadBalancing(), {"a": 60, "b": 70, "c": 20}, ["b", "a"]),
        (LoadBalancing(imbalance_threshold=60.0), {"a": 60, "b": 70, "c": 20}, []),
        (LoadBalancing(measure="deviation"), {"a": 60, "b": 70, "c": 20}, []),
        (LoadBalancing(measure="deviation", imbalance_threshold=15.0), {"a": 60, "b": 70, "c": 20}, ["b"]),
        (LoadBalancing(pool_label="pool"), {"a1": 70, "a2": 60, "b1": 30, "b2": 20}, []),
        (LoadBalancing(pool_label="pool"), {"a1": 70, "a2": 40, "b1": 30, "b2": 20}, ["a1"]),
        (LoadBalancing(), {"a": 90}, []),
    ],
)
def test_uneven_pools(strategy: LoadBalancing, percent: dict[str, float], expected: list[str]) -> None:
    """By the spread between two nodes, or by a node's deviation from the mean, within each pool."""
    assert expected == list(suggested(strategy, cluster_with(**percent)))


def test_the_imbalance_pays_for_the_disruption() -> None:
    """The reason has the figures, and the worth is what moving a pod costs."""
    (found,) = LoadBalancing().suggest(context(cluster_with(a=80, b=20), cost=16.0))
    assert ("cpu at 80%, mean 50%, lowest 20%", 16.0) == (found.reason, found.worth)


def test_unmeasured_nodes() -> None:
    """A node without samples is neither full nor empty."""
    cluster = cluster_with(a=60, b=50)
    cluster.upsert_node(large("new"))
    assert {} == suggested(LoadBalancing(), cluster)
