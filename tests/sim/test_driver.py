"""The simulation driver with random pods: capacity, invariants, Events, and that equal seeds give equal runs."""

import re
from functools import partial

import pytest

from tests.sim.random_cluster import PODS, random_cluster, run
from trimtab.apps.demo import load_aware_settings, requests_only_settings
from trimtab.config.registry import default_profile
from trimtab.core.cluster.invariants import check_invariants
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.schedule_result import Decision
from trimtab.core.settings import Settings
from trimtab.sim.demo.hot_node import HOT_NODE_SCENARIO, run_headless
from trimtab.sim.demo.scene import node
from trimtab.sim.driver import IDLE_SCRAPE_INTERVAL, SimulationDriver
from trimtab.sim.workloads import MIB, Workload, constant
from trimtab.sim.world import World


def over_allocatable(world: World) -> list[str]:
    """Nodes whose pods request more than allocatable, by plain sums over the world's objects."""
    found = []
    for each in world.nodes.values():
        allocatable = dict(each.allocatable)
        for resource in (CPU, MEMORY):
            requested = sum(pod.requests.of(resource) for pod in world.pods.values() if pod.node == each.name)
            if requested > allocatable[resource]:
                found.append(f"{each.name}: {requested} {resource} of {allocatable[resource]}")
    return found


@pytest.mark.parametrize("seed", range(10))
def test_no_node_is_ever_over_allocatable_and_invariants_hold(seed: int) -> None:
    """After each decision no node is over, no pod is on the tainted node, and a recount finds no difference."""
    seen: list[str] = []

    def check(driver: SimulationDriver, decision: Decision) -> None:
        seen.extend([*over_allocatable(driver.world), *check_invariants(driver.engine.cluster)])

    driver = random_cluster(seed, check)
    run(driver, 200.0)
    assert [] == seen
    assert [] == over_allocatable(driver.world)
    nodes = {pod.node for pod in driver.world.pods.values()}
    assert "tainted" not in nodes
    assert PODS == len(driver.world.pods) and 3 <= len(nodes)


def test_all_kinds_are_synced_from_the_start() -> None:
    """Including those that the default plugins need, so the engine schedules at once."""
    driver = SimulationDriver(Settings((default_profile("trimtab"),)), 1, 0.0)
    assert len(driver.engine.state.settings.kinds) > 2
    assert driver.engine.state.may_decide


def test_every_pod_is_bound_or_has_an_unschedulable_condition() -> None:
    """In a cluster that is too small some pods stay pending, each with kube-scheduler's message."""
    driver = random_cluster(1)
    run(driver, 200.0)
    pending = [pod for pod in driver.world.pods.values() if not pod.node]
    assert 0 < len(pending) < PODS
    for pod in pending:
        assert pod.unschedulable_condition is not None
        reason, message = pod.unschedulable_condition
        assert "Unschedulable" == reason
        assert re.fullmatch(r"0/4 nodes are available: (\d [^,]+, )*\d [^,]+\.", message)
        assert "1 node(s) had untolerated taint(s)" in message


def test_each_bound_pod_has_one_scheduled_event() -> None:
    """And the others have none."""
    driver = random_cluster(2)
    run(driver, 200.0)
    named = sorted(event.name for event in driver.world.kube_events if event.reason == "Scheduled")
    assert named == sorted(pod.name for pod in driver.world.pods.values() if pod.node)


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    """All objects with their versions, and all Events in their order, are equal for equal seeds."""

    def outcome(seed: int) -> tuple[object, ...]:
        driver = random_cluster(seed)
        run(driver, 100.0)
        return (driver.world.pods, driver.world.kube_events, driver.world.last_samples)

    assert outcome(3) == outcome(3)
    assert outcome(3) != outcome(4)


def test_an_unschedulable_condition_requeues_nothing() -> None:
    """Writing the condition triggers no second attempt, of that pod or of any other."""
    decided: list[str] = []
    driver = random_cluster(1, lambda driver, decision: decided.append(decision.uid))
    for number in range(3):
        workload = Workload(f"huge-{number}", 99_000, MIB, constant(1.0), constant(1.0))
        driver.clock.call_later(0.5, partial(driver.world.create_pod, workload, "trimtab"))
    run(driver, 59.0)
    huge = [uid for uid, each in driver.world.workloads.items() if each.name.startswith("huge")]
    assert 3 == len(huge)
    assert sorted(huge) == sorted(uid for uid in decided if uid in huge)


def test_a_pending_pod_is_bound_when_a_node_joins() -> None:
    """An unschedulable pod is requeued by a node that it fits on."""
    driver = random_cluster(1)
    run(driver, 100.0)
    assert any(not pod.node for pod in driver.world.pods.values())
    driver.world.put_node(node("spacious", 256, 512))
    run(driver, 130.0)
    assert [] == [pod.name for pod in driver.world.pods.values() if not pod.node]


def test_idle_hours_have_fewer_scrapes_and_samples_stay_fresh() -> None:
    """While idle, scrapes are less frequent, but frequent enough for samples to stay trusted."""
    driver = random_cluster(1)
    driver.idle = True
    run(driver, 3600.0)
    load = driver.engine.cluster.load
    assert {1.0} == {float(trust) for trust in load.trust(CPU)}
    assert IDLE_SCRAPE_INTERVAL < load.settings.fresh
    assert 3600.0 - IDLE_SCRAPE_INTERVAL <= min(load.sampled_at(CPU)) < 3600.0


def test_the_same_pods_arrive_under_any_settings() -> None:
    """Two profiles that decide differently get the same pods, by UID, requests and time."""
    worlds = []
    for settings in (load_aware_settings(), requests_only_settings()):
        driver = SimulationDriver(settings, 5, HOT_NODE_SCENARIO.starts_at)
        run_headless(driver, HOT_NODE_SCENARIO)
        worlds.append(driver.world)
    created = [[(pod.uid, pod.name, pod.requests, pod.created) for pod in world.pods.values()] for world in worlds]
    assert created[0] == created[1]
    assert [pod.node for pod in worlds[0].pods.values()] != [pod.node for pod in worlds[1].pods.values()]
