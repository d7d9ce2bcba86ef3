"""The driver under random crowds: room, invariants, what is told, and that the same seed gives the same run."""

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
from trimtab.sim.demo.hot_node import HOT_NODE_SCENARIO
from trimtab.sim.demo.scene import node
from trimtab.sim.driver import IDLE_SCRAPE_INTERVAL, SimulationDriver
from trimtab.sim.outcome import run_headless
from trimtab.sim.workloads import MIB, Workload, constant
from trimtab.sim.world import World


def over_allocatable(world: World) -> list[str]:
    """Nodes whose pods ask for more than the node has, counted with plain sums over the world's own objects."""
    found = []
    for each in world.nodes.values():
        room = dict(each.allocatable)
        for resource in (CPU, MEMORY):
            asked = sum(pod.requests.of(resource) for pod in world.pods.values() if pod.node == each.name)
            if asked > room[resource]:
                found.append(f"{each.name}: {asked} {resource} of {room[resource]}")
    return found


@pytest.mark.parametrize("seed", range(10))
def test_no_node_is_ever_over_allocatable_and_the_columns_stay_true(seed: int) -> None:
    """After each decision no node is over, none of the pods stands on the tainted node, and a recount finds no fault."""
    seen: list[str] = []

    def look(drive: SimulationDriver, decision: Decision) -> None:
        seen.extend([*over_allocatable(drive.world), *check_invariants(drive.engine.cluster)])

    drive = random_cluster(seed, look)
    run(drive, 200.0)
    assert [] == seen
    assert [] == over_allocatable(drive.world)
    nodes = {pod.node for pod in drive.world.pods.values()}
    assert "tainted" not in nodes
    assert PODS == len(drive.world.pods) and 3 <= len(nodes)


def test_the_world_is_complete_from_the_start() -> None:
    """Every kind that the default plugins look at counts as listed, so the engine decides at once."""
    drive = SimulationDriver(Settings((default_profile("trimtab"),)), 1, 0.0)
    assert len(drive.engine.state.settings.kinds) > 2
    assert drive.engine.state.may_decide


def test_every_pod_is_bound_or_waits_with_a_reason_that_its_object_shows() -> None:
    """In a cluster that is too small some pods stay pending, and each of them carries kube-scheduler's sentence."""
    drive = random_cluster(1)
    run(drive, 200.0)
    pending = [pod for pod in drive.world.pods.values() if not pod.node]
    assert 0 < len(pending) < PODS
    for pod in pending:
        assert pod.unschedulable_condition is not None
        reason, message = pod.unschedulable_condition
        assert "Unschedulable" == reason
        assert re.fullmatch(r"0/4 nodes are available: (\d [^,]+, )*\d [^,]+\.", message)
        assert "1 node(s) had untolerated taint(s)" in message


def test_each_bound_pod_is_told_of_once() -> None:
    """There is one Scheduled event for each bound pod and none for the others."""
    drive = random_cluster(2)
    run(drive, 200.0)
    told = sorted(tell.name for tell in drive.world.kube_events if tell.reason == "Scheduled")
    assert told == sorted(pod.name for pod in drive.world.pods.values() if pod.node)


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    """All objects with their versions, and all words in their order, are equal for equal seeds."""

    def outcome(seed: int) -> tuple[object, ...]:
        drive = random_cluster(seed)
        run(drive, 100.0)
        return (drive.world.pods, drive.world.kube_events, drive.world.last_samples)

    assert outcome(3) == outcome(3)
    assert outcome(3) != outcome(4)


def test_a_refusal_wakes_nobody() -> None:
    """The condition that a refusal puts on its pod leads to no second try, of that pod or of any other that waits."""
    decided: list[str] = []
    drive = random_cluster(1, lambda drive, decision: decided.append(decision.uid))
    for number in range(3):
        workload = Workload(f"huge-{number}", 99_000, MIB, constant(1.0), constant(1.0))
        drive.clock.call_later(0.5, partial(drive.world.create_pod, workload, "trimtab"))
    run(drive, 59.0)
    huge = [uid for uid, each in drive.world.workloads.items() if each.name.startswith("huge")]
    assert 3 == len(huge)
    assert sorted(huge) == sorted(uid for uid in decided if uid in huge)


def test_a_waiting_pod_lands_when_a_node_joins() -> None:
    """A parked pod is woken by a node that it fits on."""
    drive = random_cluster(1)
    run(drive, 100.0)
    assert any(not pod.node for pod in drive.world.pods.values())
    drive.world.put_node(node("spacious", 256, 512))
    run(drive, 130.0)
    assert [] == [pod.name for pod in drive.world.pods.values() if not pod.node]


def test_idle_hours_pass_with_fewer_looks_and_measurements_stay_fresh() -> None:
    """While idle the meters are read less often, but never so rarely that a sample loses trust."""
    drive = random_cluster(1)
    drive.idle = True
    run(drive, 3600.0)
    load = drive.engine.cluster.load
    assert {1.0} == {float(trust) for trust in load.trust(CPU)}
    assert IDLE_SCRAPE_INTERVAL < load.settings.fresh
    assert 3600.0 - IDLE_SCRAPE_INTERVAL <= min(load.sampled_at(CPU)) < 3600.0


def test_the_same_pods_come_whoever_places_them() -> None:
    """Two profiles that decide differently meet the same pods, by UID, request and time."""
    worlds = []
    for settings in (load_aware_settings(), requests_only_settings()):
        drive = SimulationDriver(settings, 5, HOT_NODE_SCENARIO.starts_at)
        run_headless(drive, HOT_NODE_SCENARIO)
        worlds.append(drive.world)
    came = [[(pod.uid, pod.name, pod.requests, pod.created) for pod in world.pods.values()] for world in worlds]
    assert came[0] == came[1]
    assert [pod.node for pod in worlds[0].pods.values()] != [pod.node for pod in worlds[1].pods.values()]
