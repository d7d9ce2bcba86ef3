"""Autoscalers: replicas follow the load with a tolerance and a stabilisation window, nodes follow pods without room."""

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from tests.sim.small_world import node, nodes, ready_names, scenario, simulate, template, workload
from trimtab.core.model.pod import PodSpec
from trimtab.core.model.taints import NO_SCHEDULE, Taint
from trimtab.sim.scenario import (
    ClusterAutoscaling,
    DisruptionBudget,
    HorizontalAutoscaling,
    OwnerKind,
    Scale,
    Workload,
)
from trimtab.sim.simulation import Simulation
from trimtab.sim.usage_patterns import Recorded, Steady, UsagePattern

# --- replicas


def autoscaled(usage: UsagePattern, replicas: int = 4, **settings: Any) -> Workload:
    """Pods that request 1000m each."""
    settings = {"min_replicas": 2, "max_replicas": 10, "target": 0.5, **settings}
    return workload(
        replicas=replicas, template=template(cpu=1000, uses=usage), autoscaling=HorizontalAutoscaling(**settings)
    )


def replicas(simulation: Simulation) -> int:
    return simulation.owners["default/web"].replicas


@pytest.mark.parametrize(
    ("uses", "expected"),
    [
        (750.0, 6),  # 75 % of requests at a target of 50 %: 4 x 1.5
        (549.0, 4),  # within the tolerance of 10 %
        (451.0, 4),
        (250.0, 4),  # fewer would do, but not for five minutes yet
    ],
)
def test_the_first_recommendation(uses: float, expected: int) -> None:
    """Replicas times the ratio of use to target, rounded up; within the tolerance nothing changes."""
    simulation = simulate(scenario(nodes(4, cores=16), autoscaled(Steady(uses)), step=5.0), 16.0)
    assert expected == replicas(simulation)


def test_it_shrinks_only_after_the_stabilisation_window() -> None:
    """Usage falls at 600 s; the last high recommendation is five minutes old at 900 s, and the minimum is kept."""
    usage = Recorded(np.array([500.0, 100.0]), 600.0, begins=0.0)
    simulation = simulate(scenario(nodes(4, cores=16), autoscaled(usage), step=5.0), 890.0)
    assert 4 == replicas(simulation)
    simulation.run_until(930.0)
    assert (2, 2) == (replicas(simulation), len(ready_names(simulation.world)))


def test_more_replicas_have_less_work_each() -> None:
    """Four pods at 750m of work are 3000m, and six of them 500m each: the target is met, and nothing changes any more."""
    simulation = simulate(scenario(nodes(4, cores=16), autoscaled(Steady(750.0)), step=5.0), 600.0)
    usage = simulation.world.usage.latest
    assert usage is not None
    assert (6, [500.0] * 6) == (replicas(simulation), usage.pod_demand[0].tolist())


def test_it_grows_at_most_to_twice_or_by_four_and_to_its_maximum() -> None:
    """From 4 to 8 to 10 although 40 would be needed; and a single pod becomes five."""
    simulation = simulate(scenario(nodes(8, cores=16), autoscaled(Steady(5000.0)), step=5.0), 16.0)
    assert 8 == replicas(simulation)
    simulation.run_until(60.0)
    assert 10 == replicas(simulation)
    one = autoscaled(Steady(5000.0), replicas=1, min_replicas=1)
    assert 5 == replicas(simulate(scenario(nodes(8, cores=16), one, step=5.0), 16.0))


def test_a_size_outside_of_its_bounds_is_corrected() -> None:
    """Also if usage is on target."""
    simulation = simulate(scenario(nodes(4, cores=16), autoscaled(Steady(500.0), replicas=1), step=5.0), 60.0)
    assert 2 == replicas(simulation)


def test_the_size_at_the_start_counts_as_recommended() -> None:
    """A workload that is idle from the start is kept for the stabilisation window, too."""
    simulation = simulate(scenario(nodes(4, cores=16), autoscaled(Steady(100.0)), step=5.0), 300.0)
    assert 4 == replicas(simulation)
    simulation.run_until(330.0)
    assert 2 == replicas(simulation)


def test_nothing_is_scaled_before_pods_are_ready() -> None:
    """Without a ready pod there is no usage to go by."""
    web = autoscaled(Steady(5000.0))
    slow = replace(web, template=replace(web.template, ready_delay=1000.0))
    assert 4 == replicas(simulate(scenario(nodes(4, cores=16), slow, step=5.0), 500.0))


# --- nodes

POOL = ClusterAutoscaling(node("pool", 4, 8), max_nodes=5, provision_delay=60.0, idle_after=300.0)


def pool(simulation: Simulation) -> list[str]:
    return [name for name in simulation.world.nodes if name.startswith("pool")]


def test_nodes_are_added_for_pods_without_room() -> None:
    """Six pods of three cores: one fits, and five nodes are wanted, of which the maximum leaves room for four."""
    web = workload(replicas=6, template=template(cpu=3000))
    simulation = simulate(scenario(nodes(1), web, autoscaling=POOL), 60.0)
    assert [] == pool(simulation)
    simulation.run_until(120.0)
    assert ["pool-1", "pool-2", "pool-3", "pool-4"] == pool(simulation)
    assert (5, 1) == (len(ready_names(simulation.world)), len(simulation.world.pending))


@pytest.mark.parametrize(
    "pods",
    [
        template(cpu=9000),
        template(cpu=100, spec=PodSpec(node_selector=(("zone", "elsewhere"),))),
    ],
)
def test_no_node_is_added_for_pods_that_it_would_not_take(pods: Any) -> None:
    """Too large for it, or with a selector that it does not match; not even beside pods that it would take."""
    stuck = workload("stuck", replicas=3, template=pods)
    helped = workload("helped", replicas=2, template=template(cpu=3000))
    assert [] == pool(simulate(scenario(nodes(1), stuck, autoscaling=POOL), 300.0))
    assert ["pool-1"] == pool(simulate(scenario(nodes(1), stuck, helped, autoscaling=POOL), 300.0))


def test_a_tainted_pool_is_not_for_pods_that_do_not_tolerate_it() -> None:
    """They would stay pending."""
    tainted = replace(POOL, node=node("pool", 4, 8, Taint("gpu", "", NO_SCHEDULE)))
    web = workload(replicas=2, template=template(cpu=3000))
    assert [] == pool(simulate(scenario(nodes(1), web, autoscaling=tainted), 300.0))


def test_an_idle_node_is_drained_and_removed() -> None:
    """Scaled down at 600 s, the added nodes are idle for 300 s and then go one by one; DaemonSets do not keep them."""
    web = workload(replicas=3, template=template(cpu=3000), scales=(Scale(600.0, 1),))
    agent = workload("agent", OwnerKind.DAEMON_SET)
    simulation = simulate(scenario(nodes(1), web, agent, autoscaling=POOL), 590.0)
    assert ["pool-1", "pool-2"] == pool(simulation)
    simulation.run_until(890.0)
    assert ["pool-1", "pool-2"] == pool(simulation)
    simulation.run_until(1000.0)
    assert 1 >= len(pool(simulation))
    assert {} == simulation.world.pending


def test_a_node_whose_pods_fit_nowhere_else_stays() -> None:
    """It is below the threshold, but removing it would leave its pod pending."""
    web = workload(replicas=3, template=template(cpu=1800))
    simulation = simulate(scenario(nodes(1), web, autoscaling=POOL), 3600.0)
    assert (["pool-1"], 3, []) == (pool(simulation), len(ready_names(simulation.world)), simulation.budgets.evictions)


def test_a_budget_delays_the_removal_and_nothing_is_evicted_twice() -> None:
    """The drain waits for the budget as any other."""
    strict = workload(
        "strict", replicas=1, template=template(cpu=100), created=300.0, budget=DisruptionBudget(max_unavailable=0)
    )
    big = workload("big", replicas=2, template=template(cpu=3950), deleted=600.0)
    simulation = simulate(scenario(nodes(1), big, strict, autoscaling=POOL), 3000.0)
    kept = pool(simulation)
    protected = {pod.node for pod in simulation.world.pods.values()}
    assert ([], kept) == (simulation.budgets.evictions, [name for name in kept if name in protected])


def test_nodes_that_were_there_keep_their_names_and_stay() -> None:
    """A node called pool-1 is neither replaced by the first that is added, nor removed when it is idle."""
    own = replace(nodes(1)[0], node=node("pool-1"))
    web = workload(replicas=2, template=template(cpu=3000), deleted=600.0)
    simulation = simulate(scenario((own,), web, autoscaling=POOL), 300.0)
    assert ["pool-1", "pool-2"] == pool(simulation)
    simulation.run_until(3000.0)
    assert ["pool-1"] == pool(simulation)
