"""The descheduler's LowNodeUtilization evicts what it evicts upstream; all figures are computed by hand."""

from __future__ import annotations

import pytest

from tests.build import asks
from tests.core.rescheduling.measured_pods import context, large, measured, running
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import ContainerRequests, PodRequests, pod_requests
from trimtab.core.rescheduling.rivals.descheduler_low_node_utilization import DeschedulerLowNodeUtilization as Rival
from trimtab.core.rescheduling.rivals.thresholds import Thresholds
from trimtab.wire.quantity import nanos

CPU_ONLY = Rival(thresholds=Thresholds(cpu=20), target_thresholds=Thresholds(cpu=50))


def evicted(rival: Rival, cluster: Cluster) -> list[str]:
    found, _ = rival.evictions(context(cluster), None)
    return [cluster.pods[each.uid].name for each in found]


def pods_of(node: str, *cpu: str, priority: int = 0) -> list[Pod]:
    return [running(f"{node}{number}", on=node, cpu=each, priority=priority) for number, each in enumerate(cpu)]


def guaranteed(cpu: str, memory: str) -> PodRequests:
    amounts = {"cpu": nanos(cpu), "memory": nanos(memory)}
    return pod_requests([ContainerRequests(amounts, amounts)])


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        (("2", "2", "2"), ["a0"]),  # 60% to 40%
        (("1", "2", "2", "2", "1"), ["a0", "a1"]),  # 80% to 70% to 50%, which is not above the threshold
        (("5",), []),  # 50% is not above it
        (("6",), ["a0"]),  # more than the headroom of 5 cores, which is compared before, and not after
    ],
)
def test_until_the_source_is_below(requested: tuple[str, ...], expected: list[str]) -> None:
    """One target with 5 cores of headroom; pods leave in their order until the source is at 50% or below."""
    found = evicted(CPU_ONLY, measured(large("a"), large("b"), *pods_of("a", *requested)))
    assert expected == found


def test_summed_headroom() -> None:
    """Two targets with 4 cores each have room for a pod of 5 together: it is evicted, and fits nowhere below 50%."""
    targets = [*pods_of("b", "1"), *pods_of("c", "1")]
    cluster = measured(large("a"), large("b"), large("c"), *pods_of("a", "5", "4"), *targets)
    assert ["a0"] == evicted(CPU_ONLY, cluster)


def test_headroom_is_used_up() -> None:
    """With 3 of 5 cores left after the first source, the second loses one pod of 3 cores, and no other."""
    nodes = [large("a"), large("b"), large("target")]
    cluster = measured(*nodes, *pods_of("a", "2", "5"), *pods_of("b", "3", "3", "3"))
    assert ["b0", "b1"] == evicted(CPU_ONLY, cluster)


@pytest.mark.parametrize(
    ("rival", "nodes"),
    [
        (CPU_ONLY, [large("a")]),
        (CPU_ONLY, [large("a"), large("cordoned", unschedulable=True)]),
        (
            Rival(thresholds=Thresholds(cpu=20), target_thresholds=Thresholds(cpu=50), number_of_nodes=1),
            [large("a"), large("b")],
        ),
        (Rival(thresholds=Thresholds(cpu=20), target_thresholds=Thresholds(cpu=90)), [large("a"), large("b")]),
        (Rival(thresholds=Thresholds(cpu=90), target_thresholds=Thresholds(cpu=95)), [large("a"), large("b")]),
    ],
)
def test_nothing_to_do(rival: Rival, nodes: list[Node]) -> None:
    """No target, too few of them, no source, or all nodes are targets."""
    assert [] == evicted(rival, measured(*nodes, *pods_of("a", "3", "3")))


def test_order_of_pods() -> None:
    """By priority, then best effort before burstable before guaranteed, whatever they use."""
    pods = [
        running("high", on="a", cpu="1", priority=10),
        running("guaranteed", on="a", requests=guaranteed("1", "1Gi")),
        running("burstable", on="a", requests=asks(cpu="1")),
        running("best-effort", on="a"),
        running("filler", on="a", cpu="5", priority=20),
    ]
    assert ["best-effort", "burstable", "guaranteed", "high"] == evicted(
        Rival(thresholds=Thresholds(cpu=20), target_thresholds=Thresholds(cpu=50)),
        measured(large("a"), large("b"), *pods),
    )


def test_memory_decides_which_node_is_first() -> None:
    """A node at 60% of much memory comes before one at 90% of its CPU."""
    rival = Rival(
        thresholds=Thresholds(cpu=20, memory=20), target_thresholds=Thresholds(cpu=50, memory=50), eviction_limit=1
    )
    pods = [*pods_of("a", "3", "3", "3"), running("big", on="b", memory="6Gi")]
    assert ["big"] == evicted(rival, measured(large("a"), large("b"), large("c"), *pods))


def test_pods_that_stay() -> None:
    """Pods of DaemonSets, without an owner, that are critical, or that tolerate no target."""
    stay = [
        running("daemon", on="a", kind="DaemonSet", cpu="2"),
        running("bare", on="a", owner="", cpu="2"),
        running("critical", on="a", priority=2_000_000_000, cpu="2"),
        running("intolerant", on="a", cpu="2"),
        running("tolerant", on="a", cpu="2", tolerations=["gpu"], priority=5),
    ]
    nodes = [large("a"), large("b", taints=["gpu=yes:NoSchedule"])]
    assert ["tolerant"] == evicted(CPU_ONLY, measured(*nodes, *stay))


def test_deviation() -> None:
    """Means of 40%: below 20% is a target, above 60% a source, which must come down to 60%."""
    rival = Rival(thresholds=Thresholds(cpu=20), target_thresholds=Thresholds(cpu=20), use_deviation_thresholds=True)
    pods = [*pods_of("a", "1", "1", "1", "4"), *pods_of("b", "4"), *pods_of("c", "1")]
    assert ["a0"] == evicted(rival, measured(large("a"), large("b"), large("c"), *pods))


def test_limits() -> None:
    """Of evictions from one node, and from all of them."""
    pods = [*pods_of("a", *["1"] * 9), *pods_of("b", *["1"] * 8)]
    cluster = measured(large("a"), large("b"), large("c"), large("d"), *pods)
    low, high = Thresholds(cpu=20), Thresholds(cpu=50)
    assert ["a0", "a1", "b0", "b1"] == evicted(Rival(low, high, eviction_limit_per_node=2), cluster)
    assert ["a0", "a1", "a2"] == evicted(Rival(low, high, eviction_limit=3), cluster)


def test_node_fit() -> None:
    """A pod that fits on no other node is evicted, unless `node_fit` is set."""
    cluster = measured(
        large("a"), large("b"), *(running(f"a{each}", on="a", cpu="3", selector={"x": "y"}) for each in "01")
    )
    low, high = Thresholds(cpu=20), Thresholds(cpu=50)
    assert (["a0"], []) == (evicted(CPU_ONLY, cluster), evicted(Rival(low, high, node_fit=True), cluster))


@pytest.mark.parametrize(("source", "expected"), [("KubernetesMetrics", ["x", "y"]), ("Prometheus", ["x"])])
def test_measured_usage(source: str, expected: list[str]) -> None:
    """By metrics, pods leave until the node is at 50%; by one metric of Prometheus one pod leaves."""
    rival = Rival(Thresholds(cpu=20), Thresholds(cpu=50), metrics_source=source)
    pods = [running(name, on="a") for name in "xyz"]
    usage = {"x": [1000.0], "y": [3000.0], "z": [4500.0]}
    assert expected == evicted(rival, measured(large("a"), large("b"), *pods, cpu=usage))


def test_one_node_without_metrics() -> None:
    """A node without a sample ends the round."""
    cluster = measured(large("a"), large("b"), running("x", on="a"), cpu={"x": [8000.0]})
    cluster.upsert_node(large("new"))
    rival = Rival(Thresholds(cpu=20), Thresholds(cpu=50), metrics_source="KubernetesMetrics")
    assert [] == evicted(rival, cluster)
