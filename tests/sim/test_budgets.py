"""Disruption budgets: what they allow follows the pods, an eviction is refused while nothing is allowed."""

import pytest
from msgspec.structs import replace

from tests.sim.small_world import nodes, ready_names, scenario, simulate, template, workload
from trimtab.core.model.objects import PodDisruptionBudget
from trimtab.core.model.selectors import LabelSelector
from trimtab.sim.budgets import needed
from trimtab.sim.scenario import DisruptionBudget, NodeAction, NodeEvent, Scale, TracedPod
from trimtab.sim.simulation import Simulation

WEB = workload(replicas=3, budget=DisruptionBudget(min_available=2))


def allowed(simulation: Simulation, key: str = "default/web") -> int:
    budget = simulation.world.objects[PodDisruptionBudget.kind, key]
    assert isinstance(budget, PodDisruptionBudget)
    return budget.disruptions_allowed


@pytest.mark.parametrize(
    ("budget", "count"),
    [(DisruptionBudget(min_available=2), 2), (DisruptionBudget(max_unavailable=1), 4), (DisruptionBudget(), 5)],
)
def test_how_many_pods_must_stay_ready(budget: DisruptionBudget, count: int) -> None:
    """Of five; one without a number protects all of them."""
    assert count == needed(budget, 5)


def test_a_budget_allows_what_is_ready_beyond_its_minimum() -> None:
    """None before the pods run, one of three then, and the scheduler is told of every change."""
    simulation = simulate(scenario(nodes(2), WEB), 1.0)
    assert 0 == allowed(simulation)
    simulation.run_until(30.0)
    assert 1 == allowed(simulation)
    stored = simulation.world.objects[PodDisruptionBudget.kind, "default/web"]
    assert stored == simulation.engine.cluster.objects.get(PodDisruptionBudget.kind, "default/web")


def test_an_eviction_counts_at_once_and_the_next_one_is_refused_until_the_replacement_is_ready() -> None:
    """Two evictions at the same moment: the second is the API server's 429."""
    simulation = simulate(scenario(nodes(2), WEB), 30.0)
    one, two, _ = simulation.world.pods
    assert (True, False) == (simulation.budgets.evict(one, "drained"), simulation.budgets.evict(two, "drained"))
    assert (0, 1) == (allowed(simulation), len(simulation.budgets.evictions))
    simulation.run_until(60.0)
    assert simulation.budgets.evict(two, "drained")


def test_a_pod_that_is_not_ready_may_be_evicted_always() -> None:
    """It protects nobody."""
    slow = replace(WEB, template=template(ready_delay=1000.0))
    simulation = simulate(scenario(nodes(2), slow), 30.0)
    assert simulation.budgets.evict(next(iter(simulation.world.pods)), "drained")


def test_pods_of_others_are_not_protected() -> None:
    """Neither those with other labels nor those of another namespace."""
    other = workload("other", replicas=1)
    elsewhere = replace(workload("web", replicas=1), namespace="elsewhere")
    strict = replace(WEB, budget=DisruptionBudget(max_unavailable=0))
    simulation = simulate(scenario(nodes(2), strict, other, elsewhere), 30.0)
    evicted = {pod.key: simulation.budgets.evict(pod.uid, "drained") for pod in [*simulation.world.pods.values()]}
    assert {True} == {done for key, done in evicted.items() if not key.startswith("default/web")}
    assert {False} == {done for key, done in evicted.items() if key.startswith("default/web")}


def test_a_scaled_workload_has_another_maximum() -> None:
    """With at most one unavailable, two of three ready pods allow nothing, and so do three of five."""
    web = replace(WEB, budget=DisruptionBudget(max_unavailable=1), scales=(Scale(60.0, 5),))
    simulation = simulate(scenario(nodes(2), web), 50.0)
    assert 1 == allowed(simulation)
    simulation.run_until(60.5)
    assert 0 == allowed(simulation)
    simulation.run_until(90.0)
    assert 1 == allowed(simulation)


@pytest.mark.parametrize(("minimum", "drained"), [(3, 0), (2, 2)])
def test_a_drain_waits_for_the_budget(minimum: int, drained: int) -> None:
    """With all three required nothing moves; with two, one after the other does, never leaving fewer than two ready."""
    web = replace(WEB, budget=DisruptionBudget(min_available=minimum))
    drain = NodeEvent(60.0, "n1", NodeAction.DRAIN)
    simulation = simulate(scenario(nodes(2), web, node_events=(drain,)), 59.0)
    on_n1 = sum(pod.node == "n1" for pod in simulation.world.pods.values())
    least = [3]
    simulation.world.pod_listeners.append(lambda *_: least.append(len(ready_names(simulation.world))))
    simulation.run_until(300.0)
    assert 0 < on_n1
    assert (drained > 0) * on_n1 == len(simulation.budgets.evictions)
    assert minimum <= min(least)
    assert ({"n1", "n2"} if not drained else {"n2"}) == {pod.node for pod in simulation.world.pods.values()}


def test_a_budget_that_the_cluster_came_with_keeps_what_it_allowed() -> None:
    """Three recorded pods of which one may go: one eviction is allowed once they run, not three."""
    pods = tuple(
        TracedPod(f"p{number}", template(), (0.0, 0.0), owner="web", node="n1", uid=f"u{number}") for number in range(3)
    )
    budget = PodDisruptionBudget(
        name="web",
        uid="b",
        namespace="default",
        selector=LabelSelector((("app", "web"),)),
        disruptions_allowed=1,
    )
    simulation = simulate(scenario(nodes(2), pods=pods, objects=(budget,)), 10.0)
    assert 1 == allowed(simulation)
    assert [True, False, False] == [simulation.budgets.evict(f"u{number}", "moved") for number in range(3)]
