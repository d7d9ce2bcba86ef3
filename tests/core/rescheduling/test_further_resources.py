"""Plans by a metric of pods that is neither CPU nor memory: it counts as they do, for sources, targets and guards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from tests.core.engine_harness import OURS, profile
from tests.core.load.builders import cluster_of, ingest, pod_reading, reading, running_pod
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.load.pod_metrics import Capacity
from trimtab.core.model.plan import Plan
from trimtab.core.model.readings import Unit
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.rescheduling.guards import GuardContext, cluster_refusal
from trimtab.core.rescheduling.planner import Planner
from trimtab.core.rescheduling.settings import LIMITS, ReschedulingSettings
from trimtab.core.rescheduling.strategies.hot_spot import HotSpot
from trimtab.core.rescheduling.strategies.interface import Strategy
from trimtab.core.rescheduling.strategies.load_balancing import LoadBalancing
from trimtab.core.rescheduling.strategies.resource_optimization import ResourceOptimization

NET = "network"
STEPS, NOW = 6, 1500.0
SAME = Capacity(amount=1000.0)
PROFILE, BY_LIMIT = profile(), ResourceOptimization()
# Calm by CPU and memory; the network of a is used to 90 %.
PODS = {"large": ("a", 650.0), "middle": ("a", 200.0), "tiny": ("a", 50.0), "quiet": ("a", None), "other": ("b", 300.0)}


def measured(
    pods: Mapping[str, tuple[str, float | None]] = PODS,
    capacity: Capacity = SAME,
    nodes: Sequence[str] = ("a", "b", "c"),
    speeds: Mapping[str, float] | None = None,
) -> Cluster:
    """Nodes of 4 cores whose pods use 0.2 cores each, and so much of the network."""
    cluster = cluster_of(*nodes)
    cluster.load_store.keep_snapshots(True, {NET: capacity})
    for name, (on, _) in pods.items():
        pod = running_pod(name, on, cpu="100m", owner=f"owner-of-{name}", started=-5000.0)
        cluster.upsert_pod(replace(pod, ready=True, scheduler_name=OURS))
    for number in range(STEPS):
        at, used = 300.0 * number, dict.fromkeys(pods, 200.0)
        ingest(
            cluster,
            *(reading(dict.fromkeys(nodes, 1000.0), at, resource) for resource in (CPU, MEMORY)),
            *(pod_reading(used, at, resource) for resource in (CPU, MEMORY)),
            pod_reading(
                {name: value for name, (_, value) in pods.items() if value is not None}, at, NET, unit=Unit.RAW
            ),
            reading(speeds or {}, at, "speed", unit=Unit.RAW),
        )
    return cluster


def guards(cluster: Cluster, capacity: Capacity = SAME, strategy: Strategy = BY_LIMIT) -> GuardContext:
    settings = ReschedulingSettings(
        limits={**LIMITS, NET: 0.8},
        capacities={NET: capacity},
        required_gain=16.0,
        strategies=(strategy,),
        allow_last_replica=True,
    )
    return GuardContext(cluster, settings, NOW)


def plan(cluster: Cluster, **more: Any) -> Plan:
    planner = Planner(guards(cluster, **more), {OURS: PROFILE}.get)
    for _ in planner.steps():
        pass
    assert planner.plan is not None
    return planner.plan


def moves(found: Plan) -> list[tuple[str, str, str]]:
    return [(move.pod.removeprefix("default/"), move.source, move.target) for move in found.moves]


def test_a_pod_leaves_a_node_whose_network_is_full() -> None:
    """Although CPU and memory are calm; the reason names the resource, and c has more of it left than b."""
    found = plan(measured())
    assert [("large", "a", "c")] == moves(found)
    assert "network at 90%, above 80%" == found.moves[0].reason


def test_without_a_limit_nothing_moves() -> None:
    """The same cluster by CPU and memory alone."""
    context = guards(measured())
    settings = ReschedulingSettings(required_gain=16.0, allow_last_replica=True)
    planner = Planner(GuardContext(context.cluster, settings, NOW), {OURS: PROFILE}.get)
    assert [] == [*planner.steps()][1:] and planner.plan is not None
    assert () == planner.plan.moves


@pytest.mark.parametrize("strategy", [HotSpot(), LoadBalancing()])
def test_other_strategies_see_it(strategy: Strategy) -> None:
    """Those that look at usage look at every limited resource."""
    found = plan(measured(), strategy=strategy)
    assert {"a"} == {move.source for move in found.moves}
    assert all(NET in move.reason for move in found.moves)


def test_no_target_is_filled_above_the_limit() -> None:
    """The network of the only other node would be at 85 %."""
    pods = {**PODS, "other": ("b", 650.0), "tiny": ("a", None)}
    assert [] == moves(plan(measured(pods, nodes=("a", "b"))))


def test_nodes_without_the_metric_are_no_targets() -> None:
    """The values of the pods on c have ended, so nobody knows what its network does."""
    cluster = measured({**PODS, "silent": ("c", 10.0)})
    store = cluster.load_store
    store.pod_metrics[NET].sampled_at[cluster.pod_table.slot["uid-silent"]] = -1000.0
    assert [("middle", "a", "b")] == moves(plan(cluster))


def test_a_capacity_by_node() -> None:
    """b has a faster network, c a slower one, and nobody knows that of d."""
    speeds = {"a": 1000.0, "b": 2000.0, "c": 250.0}
    cluster = measured({**PODS, "other": ("b", 1000.0)}, Capacity(metric="speed"), ("a", "b", "c", "d"), speeds)
    assert [("middle", "a", "b")] == moves(plan(cluster, capacity=Capacity(metric="speed")))


def test_a_pod_that_uses_a_resource_does_not_go_where_there_is_none() -> None:
    """c has no network at all, and is no missing node either."""
    cluster = measured(PODS, Capacity(metric="speed"), speeds={"a": 1000.0, "b": 1000.0, "c": 0.0})
    assert [("middle", "a", "b")] == moves(plan(cluster, capacity=Capacity(metric="speed")))


def test_nothing_moves_while_most_nodes_lack_the_metric() -> None:
    """The guards of the cluster know the resource by name, for missing values and for old ones."""
    assert cluster_refusal(guards(measured())) is None
    missing = cluster_refusal(guards(measured({name: (on, None) for name, (on, _) in PODS.items()})))
    assert missing is not None and "3 of 3 nodes have no usable metrics of network" == missing.reason
    old = measured()
    old.load_store.pod_metrics[NET].sampled_at -= 200.0
    refused = cluster_refusal(guards(old))
    assert refused is not None and "the newest metrics of network are 200 s old" == refused.reason
