"""The simulation as a whole: equal seeds give equal runs, policies get equal worlds, and laws over random scenarios."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from hashlib import blake2b
from importlib import resources
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.random_cluster import PODS, random_cluster
from tests.sim.small_world import node, nodes, ready_names, scenario, simulate, stock, template, workload
from tests.sim.world_checks import Bound, agrees, over_allocatable
from trimtab.config.kube_scheduler import parse
from trimtab.core.cluster.invariants import check_invariants
from trimtab.core.model.duration import HOUR
from trimtab.core.model.events import BindFailed
from trimtab.core.model.objects import Service
from trimtab.core.model.pod import PodSpec, Volume
from trimtab.core.model.resources import CPU
from trimtab.core.model.schedule_result import Decision
from trimtab.core.model.storage import PersistentVolumeClaim, StorageClass
from trimtab.core.recording import encode_record
from trimtab.core.settings import Settings
from trimtab.sim.scenario import (
    DisruptionBudget,
    Failover,
    HorizontalAutoscaling,
    MetricsPipeline,
    NodeAction,
    NodeEvent,
    Outage,
    OwnerKind,
    Rollout,
    Scale,
    Scenario,
    SimulatedNode,
    TracedPod,
)
from trimtab.sim.simulation import IDLE_TICK, Simulation
from trimtab.sim.usage_patterns import Bursty, Daily, Noisy, Steady


def by_load() -> Settings:
    """The template `default`."""
    content = (resources.files("trimtab.config") / "templates" / "default.yaml").read_bytes()
    return parse(content, "default.yaml").settings


@pytest.mark.parametrize("seed", range(5))
def test_no_node_is_ever_over_allocatable_and_invariants_hold(seed: int) -> None:
    """After each decision no node is over, no pod is on the tainted node, and a recount finds no difference."""
    seen: list[str] = []

    def check(simulation: Simulation, decision: Decision) -> None:
        seen.extend([*over_allocatable(simulation.world), *check_invariants(simulation.engine.cluster)])

    simulation = random_cluster(seed, check)
    simulation.run_until(200.0)
    assert [] == seen
    assert [] == over_allocatable(simulation.world)
    placed = {pod.node for pod in simulation.world.pods.values()}
    assert "tainted" not in placed
    assert PODS == len(simulation.world.pods) and 3 <= len(placed)


def test_all_kinds_are_synced_from_the_start() -> None:
    """Including those that the default plugins need, so the engine schedules at once."""
    simulation = Simulation(scenario(nodes(1)), stock(), 1)
    assert len(simulation.engine.state.settings.kinds) > 2
    assert simulation.engine.state.may_decide


def test_every_pod_is_bound_or_has_an_unschedulable_condition() -> None:
    """In a cluster that is too small some pods stay pending, each with kube-scheduler's message."""
    simulation = random_cluster(1)
    simulation.run_until(200.0)
    pending = [*simulation.world.pending.values()]
    assert 0 < len(pending) < PODS
    for pod in pending:
        assert pod.unschedulable_condition is not None
        reason, message = pod.unschedulable_condition
        assert "Unschedulable" == reason
        assert re.fullmatch(r"0/4 nodes are available: (\d [^,]+, )*\d [^,]+\.", message)
        assert "1 node(s) had untolerated taint(s)" in message


def test_each_bound_pod_has_one_scheduled_event() -> None:
    """And the others have none."""
    simulation = random_cluster(2)
    simulation.run_until(200.0)
    named = sorted(event.name for event in simulation.world.kube_events if event.reason == "Scheduled")
    assert named == sorted(pod.name for pod in simulation.world.pods.values() if pod.node)


def test_an_unschedulable_condition_requeues_nothing() -> None:
    """Writing the condition triggers no second attempt, of that pod or of any other."""
    decided: list[str] = []
    simulation = Simulation(
        scenario(nodes(2), workload("huge", OwnerKind.POD, 3, template=template(cpu=99_000))),
        stock(),
        1,
        lambda decision: decided.append(decision.uid),
    )
    simulation.run_until(58.0)
    assert 3 == len(decided) == len(set(decided))


def test_a_pending_pod_is_bound_when_a_node_joins() -> None:
    """An unschedulable pod is requeued by a node that it fits on, at once."""
    late = SimulatedNode(node("late", 64, 64), joins=500.0)
    huge = workload("huge", OwnerKind.POD, template=template(cpu=50_000))
    simulation = simulate(scenario((*nodes(1), late), huge), 499.0)
    assert 1 == len(simulation.world.pending)
    simulation.run_until(501.0)
    assert {} == simulation.world.pending


# --- equal seeds, equal worlds


def eventful() -> Scenario:
    """A little of everything."""
    cpu = Noisy(Bursty(100.0, 900.0, share=0.3, seconds=120.0), 0.2)
    web = workload(
        replicas=6,
        template=template(cpu=300, memory_mib=256, uses=cpu, uses_mib=128, start_delay=(1.0, 9.0)),
        rollouts=(Rollout(900.0),),
        scales=(Scale(1200.0, 9),),
        autoscaling=HorizontalAutoscaling(2, 12, 0.8),
        budget=DisruptionBudget(max_unavailable=1),
        stagger=7.0,
    )
    events = (NodeEvent(600.0, "n1", NodeAction.FAIL), NodeEvent(1500.0, "n2", NodeAction.DRAIN))
    return scenario(
        nodes(4),
        web,
        workload("db", OwnerKind.STATEFUL_SET, 3),
        workload("agent", OwnerKind.DAEMON_SET),
        workload("batch", OwnerKind.JOB, 4, template=template(lifetime=300.0), created=200.0),
        duration=1800.0,
        pods=tuple(TracedPod(f"t{n}", template(uses=cpu), (10.0, 400.0), 1000.0, "traced") for n in range(8)),
        metrics=MetricsPipeline(30.0, 5.0, 0.1, 0.1, 0.1, (Outage(300.0, 500.0),)),
        node_events=events,
        failovers=(Failover(1000.0),),
        objects=(Service(name="web", uid="s", namespace="default"),),
    )


def digest(seed: int, policy: Callable[[], Settings] = by_load) -> str:
    """Of every event that the engine saw and every output that it gave, in their order."""
    found = blake2b(digest_size=16)
    simulation = Simulation(
        eventful(), policy(), seed, record=lambda event, outputs: found.update(encode_record(event, outputs))
    )
    simulation.run()
    return found.hexdigest()


def test_the_same_seed_gives_the_same_events_byte_for_byte_and_another_seed_others() -> None:
    """All events with their times and versions, and all outputs with their scores."""
    assert digest(3) == digest(3)
    assert digest(3) != digest(4)


def test_a_run_does_not_depend_on_how_python_hashes_text() -> None:
    """Two processes with other hash seeds give the same bytes."""
    code = "from tests.sim.test_simulation import digest; print(digest(3))"
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for hash_seed in ("1", "77")
    }
    assert {digest(3)} == found


def seen_by(
    policy: Settings, seed: int, given: Scenario
) -> tuple[dict[str, Any], dict[tuple[str, float], float], Simulation]:
    """Each pod's UID, time of creation and start delay, and what it wanted at each step."""
    simulation, demand = Simulation(given, policy, seed), dict[tuple[str, float], float]()
    simulation.world.step_listeners.append(
        lambda usage: demand.update(
            {
                (key, usage.at): round(value, 3)
                for key, value in zip(usage.pod_keys, usage.pod_demand[0].tolist(), strict=True)
            }
        )
    )
    simulation.run()
    pods = {
        pod.key: (pod.uid, pod.created, None if pod.started is None else round(pod.started - (life.bound or 0.0), 6))
        for pod, life in ((pod, simulation.world.lives[pod.uid]) for pod in simulation.world.pods.values())
    }
    return pods, demand, simulation


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 2**32))
def test_every_policy_gets_the_same_world(seed: int) -> None:
    """The same pods at the same times, with the same start delays and the same demand, wherever they were placed.

    They use little, so that no filter of any policy refuses a node for its load, and no pod is left pending.
    """
    cpu = Noisy(Daily(50.0, 250.0, peak=HOUR), 0.3)
    web = workload(replicas=9, stagger=30.0, template=template(cpu=400, uses=cpu, start_delay=(1.0, 50.0)))
    traced = tuple(TracedPod(f"t{n}", template(cpu=50 * n, uses=cpu), (0.0, 900.0)) for n in range(9))
    hot = SimulatedNode(node("hot"), system_cpu=Steady(3000.0))
    given_ = scenario((*nodes(3), hot), web, pods=traced, duration=1800.0)
    (pods, demand, one), (others, other_demand, other) = (seen_by(each, seed, given_) for each in (by_load(), stock()))
    assert pods == others
    assert [] == [key for key, (_, _, start_delay) in pods.items() if start_delay is None]
    assert demand == other_demand
    placements = [{pod.key: pod.node for pod in each.world.pods.values()} for each in (one, other)]
    assert placements[0] != placements[1]


# --- failover, preemption, volumes


@pytest.mark.parametrize("at", [60.0, 60.013, 60.05])
def test_a_new_leader_knows_what_the_api_server_has_and_binds_nothing_twice(at: float) -> None:
    """Killed in the middle of a burst; what it had sent lands, and the next one places the rest after 15 s."""
    burst = workload("burst", replicas=80, created=60.0, template=template(cpu=50))
    given_ = scenario(nodes(4), workload(replicas=10), burst, failovers=(Failover(at),))
    conflicts: list[object] = []
    simulation = Simulation(
        given_, stock(), 1, record=lambda event, _: conflicts.append(event) if isinstance(event, BindFailed) else None
    )
    bound = Bound(simulation.world)
    simulation.run_until(at + 1.0)
    with pytest.raises(LookupError, match="no replica leads"):
        _ = simulation.engine
    simulation.run_until(at + 14.0)
    early = len(bound.counts)
    simulation.run_until(120.0)
    assert early < 90 == len(ready_names(simulation.world))
    assert {1} == set(bound.counts.values())
    assert ([], []) == (bound.moved, conflicts)
    assert agrees(simulation) == []


def test_a_leader_that_is_killed_before_it_led_is_replaced_by_the_next() -> None:
    """Of two failovers ten seconds apart only the second one's replica leads, 15 s after it."""
    late = workload(replicas=1, created=65.0)
    simulation = simulate(scenario(nodes(1), late, failovers=(Failover(60.0), Failover(70.0))), 80.0)
    assert 1 == len(simulation.world.pending)
    simulation.run_until(90.0)
    assert {} == simulation.world.pending


def test_a_pod_of_higher_priority_preempts() -> None:
    """One victim makes room, is marked and deleted; the preemptor runs on its node soon, although nothing else happens."""
    low = workload("low", replicas=4, template=template(cpu=2000))
    high = workload("high", OwnerKind.POD, created=305.0, template=template(cpu=2000, priority=1000))
    simulation = simulate(scenario(nodes(2), low, high), 299.0)
    assert 4 == len(ready_names(simulation.world))
    simulation.run_until(305.0 + 15.0)
    (placed,) = [pod for pod in simulation.world.pods.values() if pod.name == "high"]
    victims = [life for life in simulation.world.lives.values() if life.left == "preempted"]
    assert placed.ready
    assert [placed.node] == [life.node for life in victims]
    assert 1 == len(simulation.world.pending), "the victim's replacement waits"
    assert 15.0 < IDLE_TICK, "a pod that arrives in quiet hours does not wait for the next regular tick"


def test_a_claim_is_bound_before_its_pod() -> None:
    """A volume is provisioned for the node that was chosen."""
    storage = StorageClass(name="fast", uid="sc", provisioner="csi", binding_mode="WaitForFirstConsumer")
    claim = PersistentVolumeClaim(
        name="data", uid="c", namespace="default", requested=1, storage_class="fast", access_modes=("ReadWriteOnce",)
    )
    spec = PodSpec(volumes=(Volume("persistentVolumeClaim", "data"),))
    db = workload("db", OwnerKind.POD, template=template(spec=spec))
    simulation = simulate(scenario(nodes(2), db, objects=(storage, claim)), 60.0)
    bound = simulation.world.objects[PersistentVolumeClaim.kind, "default/data"]
    assert isinstance(bound, PersistentVolumeClaim)
    (pod,) = simulation.world.pods.values()
    assert (True, "pvc-c", pod.node) == (pod.ready, bound.volume, bound.selected_node)


def test_progress_is_told_a_hundred_times() -> None:
    """The last time is the end."""
    told: list[float] = []
    simulation = Simulation(scenario(nodes(1), duration=100.0, begins=50.0), stock(), 1)
    simulation.run(told.append)
    assert (100, 51.0, 150.0) == (len(told), told[0], told[-1])


def test_samples_stay_fresh_in_quiet_hours() -> None:
    """With few ticks, too."""
    simulation = simulate(scenario(nodes(2), workload(), duration=7200.0, step=60.0), None, by_load())
    assert {1.0} == {float(trust) for trust in simulation.engine.cluster.load.trust(CPU)}
