"""Owners of pods: rolling updates keep their promises at every moment, ordinals keep their order, lost pods come back."""

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.sim.small_world import (
    RecordedWorld,
    names,
    node,
    nodes,
    ready_names,
    requests,
    scenario,
    simulate,
    stock,
    template,
    workload,
)
from trimtab.core.model.affinity import Affinity, NodeAffinity
from trimtab.core.model.objects import ReplicaSet, StatefulSet
from trimtab.core.model.pod import Pod, PodSpec
from trimtab.core.model.selectors import NodeSelectorTerm, Requirement
from trimtab.core.model.taints import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint
from trimtab.sim.owners import REVISION_LABEL, TEMPLATE_LABEL, start_owners
from trimtab.sim.scenario import (
    NodeAction,
    NodeEvent,
    OwnerKind,
    Rollout,
    Scale,
    SimulatedNode,
    TracedPod,
    Workload,
)
from trimtab.sim.simulation import Simulation
from trimtab.sim.world import World


class Watched:
    """Counts a workload's pods after every change."""

    def __init__(self, scenario_: Any, label: str = TEMPLATE_LABEL) -> None:
        self.simulation = Simulation(scenario_, stock(), 1)
        self.label, self.counts = label, list[tuple[float, int, int]]()
        self.simulation.world.pod_listeners.append(self._count)

    def _count(self, before: Pod | None, after: Pod | None) -> None:
        active = [pod for pod in self.world.pods.values() if not pod.terminating and not pod.finished]
        self.counts.append((self.simulation.clock.now, len(active), sum(pod.ready for pod in active)))

    @property
    def world(self) -> World:
        return self.simulation.world

    def run(self, until: float) -> "Watched":
        self.simulation.run_until(until)
        return self

    def revisions(self) -> Counter[str]:
        return Counter(pod.labels[self.label] for pod in self.world.pods.values() if not pod.terminating)


# --- Deployments


@pytest.mark.parametrize(("surge", "unavailable"), [(1, 0), (0, 1), (2, 1), (4, 4)])
def test_a_rollout_keeps_between_the_promised_counts(surge: int, unavailable: int) -> None:
    """At every moment at most `surge` pods more and `unavailable` ready ones fewer than four; at the end all are new."""
    web = workload(replicas=4, max_surge=surge, max_unavailable=unavailable, rollouts=(Rollout(60.0),))
    watched = Watched(scenario(nodes(3), web))
    old = watched.run(59.0).revisions()
    watched.counts.clear()
    new = watched.run(300.0).revisions()
    assert ([4], [4]) == ([*old.values()], [*new.values()])
    assert not old.keys() & new.keys()
    assert max(active for _, active, _ in watched.counts) <= 4 + surge
    assert min(ready for _, _, ready in watched.counts) >= 4 - unavailable


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 6),
    st.integers(0, 3),
    st.integers(0, 3),
    st.lists(st.tuples(st.floats(60.0, 120.0), st.integers(0, 6)), max_size=3),
)
def test_promises_hold_while_it_is_scaled(
    replicas: int, surge: int, unavailable: int, scales: list[tuple[float, int]]
) -> None:
    """Whatever comes together: counts stay within the promise for the largest and smallest size, and the end is reached."""
    if not surge and not unavailable:
        surge = 1
    web = workload(
        replicas=replicas,
        max_surge=surge,
        max_unavailable=unavailable,
        rollouts=(Rollout(60.0), Rollout(90.0)),
        scales=tuple(Scale(at, size) for at, size in sorted(scales)),
    )
    watched = Watched(scenario(nodes(3), web)).run(59.0)
    watched.counts.clear()
    watched.run(400.0)
    sizes = [replicas, *(size for _, size in scales)]
    last = [size for _, size in sorted(scales)][-1:] or [replicas]
    assert all(active <= max(sizes) + surge for _, active, _ in watched.counts)
    assert all(ready >= min(sizes) - unavailable for _, _, ready in watched.counts)
    assert last == [len(ready_names(watched.world))]
    assert len(watched.revisions()) == bool(last[0])


def test_a_rollout_of_a_template_that_is_never_ready_stops() -> None:
    """With one pod of surge: the old pods stay, and one new pod waits for a node that has room."""
    huge = template(cpu=64_000)
    web = workload(replicas=3, rollouts=(Rollout(60.0, huge),))
    simulation = simulate(scenario(nodes(2), web), 600.0)
    assert (3, 1) == (len(ready_names(simulation.world)), len(simulation.world.pending))


def test_old_pods_that_are_not_ready_are_replaced_one_by_one() -> None:
    """They may become ready yet: never fewer than three pods exist, and in the end all are new."""
    stuck = workload(replicas=3, template=template(ready_delay=9999.0), rollouts=(Rollout(60.0, template()),))
    watched = Watched(scenario(nodes(3), stuck)).run(59.0)
    watched.counts.clear()
    watched.run(200.0)
    assert (3, 4) == (min(active for _, active, _ in watched.counts), max(active for _, active, _ in watched.counts))
    assert 3 == len(ready_names(watched.world))


def test_pods_have_the_template_the_hash_and_the_owner_of_their_replica_set() -> None:
    """The ReplicaSet is announced to the scheduler with a selector that matches them."""
    simulation = simulate(scenario(nodes(1), workload(replicas=2)), 30.0)
    (replica_set,) = [each for each in simulation.world.objects.values() if isinstance(each, ReplicaSet)]
    for pod in simulation.world.pods.values():
        assert pod.owner is not None and replica_set.selector is not None
        assert ("ReplicaSet", replica_set.name, replica_set.uid) == (pod.owner.kind, pod.owner.name, pod.owner.uid)
        assert pod.name.startswith(replica_set.name)
        assert replica_set.selector.matches(pod.labels)


def test_a_lost_pod_is_replaced_under_another_name() -> None:
    """At once, also when it only terminates yet."""
    simulation = simulate(scenario(nodes(1), workload(replicas=2)), 30.0)
    before = {*simulation.world.pods}
    simulation.world.delete_pod(next(iter(before)))
    simulation.run_until(40.0)
    assert 2 == len(ready_names(simulation.world))
    assert 1 == len(before & {*simulation.world.pods})


def test_scaling_down_deletes_pods_without_a_node_then_unready_then_new_ones() -> None:
    """Of five pods two find no room; scaled to two, these go first, and the older ready ones stay."""
    web = workload(replicas=5, template=template(cpu=1000), stagger=5.0, scales=(Scale(60.0, 2),))
    simulation = simulate(scenario(nodes(1, cores=3), web), 50.0)
    oldest = [pod.name for pod in simulation.world.pods.values()][:2]
    assert (3, 2) == (len(ready_names(simulation.world)), len(simulation.world.pending))
    simulation.run_until(90.0)
    assert sorted(oldest) == names(simulation.world.pods.values())


def test_pods_arrive_one_after_the_other() -> None:
    """With a stagger of 10 s from its creation on; a workload that was created before the start begins there."""
    web = workload(replicas=4, created=100.0, stagger=10.0)
    early = workload("early", replicas=3, created=0.0, stagger=10.0)
    simulation = simulate(scenario(nodes(1), web, early, begins=80.0), 60.0)
    created = {
        app: [p.created for p in simulation.world.pods.values() if p.labels["app"] == app] for app in ("web", "early")
    }
    assert [100.0, 110.0, 120.0, 130.0] == pytest.approx(created["web"], abs=0.2)
    assert [80.0, 90.0, 100.0] == pytest.approx(created["early"], abs=0.2)


@pytest.mark.parametrize("kind", [*OwnerKind])
def test_a_deleted_workload_leaves_nothing_behind(kind: OwnerKind) -> None:
    """And nothing comes back, not even by a rollout afterwards."""
    gone = workload(kind=kind, replicas=3, deleted=60.0, rollouts=(Rollout(70.0),))
    gone = replace(gone, replicas=1) if kind is OwnerKind.DAEMON_SET else gone
    simulation = simulate(scenario(nodes(1), gone), 55.0)
    assert 0 < len(simulation.world.pods)
    simulation.run_until(120.0)
    assert {} == simulation.world.pods


# --- StatefulSets


def test_ordinals_start_one_after_the_other() -> None:
    """Each is created only when its predecessor is ready."""
    db = workload("db", OwnerKind.STATEFUL_SET, 3, template=template(ready_delay=5.0))
    simulation = simulate(scenario(nodes(2), db), 60.0)
    lives = sorted(simulation.world.lives.values(), key=lambda life: life.created)
    assert ["default/db-0", "default/db-1", "default/db-2"] == [life.key for life in lives]
    for earlier, later in pairwise(lives):
        assert earlier.ready_at is not None and earlier.ready_at <= later.created
    assert any(isinstance(each, StatefulSet) and each.name == "db" for each in simulation.world.objects.values())


def test_a_lost_ordinal_comes_back_under_its_name_with_another_uid() -> None:
    """Only when it is gone: there are never two of one name."""
    simulation = simulate(scenario(nodes(2), workload("db", OwnerKind.STATEFUL_SET, 3)), 60.0)
    before = {pod.name: pod.uid for pod in simulation.world.pods.values()}
    at_once: list[list[str]] = []
    simulation.world.pod_listeners.append(lambda *_: at_once.append(names(simulation.world.pods.values())))
    simulation.world.delete_pod(before["db-1"])
    simulation.run_until(80.0)
    after = {pod.name: pod.uid for pod in simulation.world.pods.values()}
    assert before.keys() == after.keys()
    assert {"db-1"} == {name for name in after if after[name] != before[name]}
    assert all(len(found) == len(set(found)) for found in at_once)


def test_it_shrinks_and_updates_from_the_last_to_the_first() -> None:
    """Scaled from four to three, db-3 goes; then a rollout replaces db-2, db-1 and db-0, each ready before the next."""
    db = workload(
        "db", OwnerKind.STATEFUL_SET, 4, scales=(Scale(60.0, 3),), rollouts=(Rollout(100.0, template(cpu=200)),)
    )
    watched = Watched(scenario(nodes(2), db), REVISION_LABEL).run(90.0)
    assert ["db-0", "db-1", "db-2"] == ready_names(watched.world)
    watched.counts.clear()
    watched.run(200.0)
    replaced = sorted(
        (life for life in watched.world.lives.values() if life.created > 100.0), key=lambda each: each.created
    )
    assert ["default/db-2", "default/db-1", "default/db-0"] == [life.key for life in replaced]
    assert 2 == min(ready for _, _, ready in watched.counts)
    assert {requests(200, 64)} == {pod.requests for pod in watched.world.pods.values()}


# --- Jobs and bare pods


def test_a_job_runs_as_many_pods_as_it_has_completions() -> None:
    """Each succeeds after its lifetime and stays; none is started in addition."""
    job = workload("job", OwnerKind.JOB, 3, template=template(lifetime=20.0))
    simulation = simulate(scenario(nodes(2), job), 100.0)
    assert ["Succeeded"] * 3 == [pod.phase for pod in simulation.world.pods.values()]
    assert 3 == len(simulation.world.lives)


def test_a_jobs_lost_pod_is_replaced_but_not_one_that_has_succeeded() -> None:
    """Deleted at work it is done again; deleted afterwards it counts."""
    job = workload("job", OwnerKind.JOB, 1, template=template(lifetime=20.0))
    simulation = simulate(scenario(nodes(2), job), 10.0)
    simulation.world.delete_pod(next(iter(simulation.world.pods)))
    simulation.run_until(60.0)
    (done,) = simulation.world.pods.values()
    assert ("Succeeded", 2) == (done.phase, len(simulation.world.lives))
    simulation.world.remove_pod(done.uid, "deleted")
    simulation.run_until(200.0)
    assert 2 == len(simulation.world.lives)


def test_a_bare_pod_is_not_created_again() -> None:
    """It has no owner."""
    simulation = simulate(scenario(nodes(1), workload("solo", OwnerKind.POD, 2)), 30.0)
    assert ["solo-0", "solo-1"] == names(simulation.world.pods.values())
    assert {None} == {pod.owner for pod in simulation.world.pods.values()}
    simulation.world.delete_pod(next(iter(simulation.world.pods)))
    simulation.run_until(120.0)
    assert 1 == len(simulation.world.pods)


# --- DaemonSets

AGENT = workload("agent", OwnerKind.DAEMON_SET, template=template(labels={"app": "agent"}))


def agents(simulation: Simulation) -> list[str]:
    """The nodes of its ready pods."""
    return sorted(pod.node for pod in simulation.world.pods.values() if pod.ready)


def test_every_node_gets_one_pod_also_one_that_joins() -> None:
    """Each pod is required to run on its node, and removed with it."""
    late = SimulatedNode(node("late"), joins=60.0)
    gone = NodeEvent(120.0, "n1", NodeAction.REMOVE)
    simulation = simulate(scenario((*nodes(2), late), AGENT, node_events=(gone,)), 50.0)
    assert ["n1", "n2"] == agents(simulation)
    simulation.run_until(100.0)
    assert ["late", "n1", "n2"] == agents(simulation)
    simulation.run_until(200.0)
    assert ["late", "n2"] == agents(simulation)


@pytest.mark.parametrize(
    ("taint", "expected"),
    [
        (Taint("gpu", "", NO_SCHEDULE), ["n1"]),
        (Taint("gpu", "", NO_EXECUTE), ["n1"]),
        (Taint("gpu", "", PREFER_NO_SCHEDULE), ["n1", "odd"]),
        (Taint("node.kubernetes.io/unschedulable", "", NO_SCHEDULE), ["n1", "odd"]),
    ],
)
def test_a_taint_keeps_its_pods_away_unless_every_daemon_set_tolerates_it(taint: Taint, expected: list[str]) -> None:
    """A cordon does not; and no pod is left pending for the node."""
    simulation = simulate(scenario((*nodes(1), SimulatedNode(node("odd", 4, 8, taint))), AGENT), 60.0)
    assert expected == agents(simulation)
    assert {} == simulation.world.pending


@pytest.mark.parametrize(("effect", "expected"), [(NO_SCHEDULE, ["n1", "n2"]), (NO_EXECUTE, ["n2"])])
def test_a_running_pod_stays_unless_the_taint_has_the_effect_no_execute(effect: str, expected: list[str]) -> None:
    """NoSchedule concerns new pods only."""
    simulation = simulate(scenario(nodes(2), AGENT), 60.0)
    simulation.world.put_node(SimulatedNode(node("n1", 4, 8, Taint("gpu", "", effect))))
    simulation.run_until(120.0)
    assert expected == agents(simulation)


@pytest.mark.parametrize(
    "spec",
    [
        PodSpec(node_selector=(("disk", "ssd"),)),
        PodSpec(
            affinity=Affinity(
                NodeAffinity(
                    (NodeSelectorTerm((Requirement("disk", "In", ("ssd",)), Requirement("size", "Gt", ("3",)))),)
                )
            )
        ),
    ],
)
def test_a_selector_or_an_affinity_of_its_template_chooses_its_nodes(spec: PodSpec) -> None:
    """No pod is created for the others."""
    fast = SimulatedNode(node("fast", labels={"disk": "ssd", "size": "4"}))
    chosen = replace(AGENT, template=template(spec=spec))
    simulation = simulate(scenario((*nodes(2), fast), chosen), 60.0)
    assert (["fast"], 1) == (agents(simulation), len(simulation.world.pods))


def test_an_update_replaces_one_pod_after_the_other() -> None:
    """At most one of three nodes is without a ready pod at any moment."""
    updated = replace(AGENT, rollouts=(Rollout(60.0, template(cpu=200)),))
    watched = Watched(scenario(nodes(3), updated), REVISION_LABEL).run(59.0)
    old = watched.revisions()
    watched.counts.clear()
    new = watched.run(200.0).revisions()
    assert ([3], [3]) == ([*old.values()], [*new.values()])
    assert not old.keys() & new.keys()
    assert 2 == min(ready for _, _, ready in watched.counts)
    assert ["n1", "n2", "n3"] == agents(watched.simulation)


# --- recorded pods


def traced(name: str = "p", **fields: Any) -> TracedPod:
    fields.setdefault("arrival", (10.0, 20.0))
    return TracedPod(name, template(), **fields)


def test_a_recorded_pod_arrives_within_its_time_and_leaves() -> None:
    """The seed draws the moment; it leaves half a second after its departure."""
    simulation = simulate(scenario(nodes(1), pods=(traced(departure=60.0),)), 59.0)
    (life,) = simulation.world.lives.values()
    assert 10.0 <= life.created <= 20.0
    simulation.run_until(70.0)
    assert {} == simulation.world.pods
    assert 60.5 == pytest.approx(life.removed, abs=3.1)


def test_a_recorded_pod_on_a_node_runs_there_from_the_start_and_is_not_scheduled() -> None:
    """With its UID, and without a decision."""
    pod = traced(arrival=(0.0, 0.0), node="n2", uid="u-1")
    simulation = simulate(scenario(nodes(2), pods=(pod,)), 30.0)
    found = simulation.world.pods["u-1"]
    assert ("n2", "Running", 0) == (found.node, found.phase, simulation.decisions)


@pytest.mark.parametrize(("owner", "kind", "count"), [("web", "ReplicaSet", 1), ("", "", 0), ("agent", "DaemonSet", 0)])
def test_a_lost_recorded_pod_comes_back_if_its_owner_would_replace_it(owner: str, kind: str, count: int) -> None:
    """Under another name; a bare one and one of a DaemonSet do not."""
    pod = traced(owner=owner, owner_kind=kind)
    simulation = simulate(scenario(nodes(1), pods=(pod,)), 40.0)
    simulation.world.remove_pod(next(iter(simulation.world.pods)), "node failed")
    simulation.run_until(80.0)
    assert ["p-1"] * count == ready_names(simulation.world)


def test_owners_are_found_by_namespace_and_name() -> None:
    """One for each workload, before it begins."""
    world = RecordedWorld().world
    found = start_owners(world, [workload("a", created=5.0), replace(workload("b"), namespace="other")])
    assert ["default/a", "other/b"] == [*found]
    assert all(isinstance(owner.workload, Workload) for owner in found.values())
