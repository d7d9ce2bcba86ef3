"""Scenarios from snapshots: pods go on as they were measured, and a missing measurement is never zero."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.sim.snapshot_clusters import cluster, replica, used, worker
from trimtab.config.kube_scheduler import default_configuration
from trimtab.core.model.duration import DAY, HOUR
from trimtab.kube.kinds import EXTRA_KINDS
from trimtab.sim.scenario import PodTemplate, Scenario, TracedPod
from trimtab.sim.simulation import Simulation
from trimtab.sim.snapshot_document import History, PastUsage, Sample, Usage
from trimtab.sim.snapshot_scenario import DISPENSABLE, scenario_of, unmeasured

MIB = 2.0**20


def pods_by_name(scenario: Scenario) -> dict[str, TracedPod]:
    return {each.name: each for each in scenario.pods}


def amounts(template: PodTemplate, *times: float) -> tuple[list[float], list[float]]:
    at = np.array(times)
    return template.cpu.amounts(at, 0.0, 1).tolist(), template.memory.amounts(at, 0.0, 1).tolist()


def test_pods_keep_their_place_and_identity(tmp_path: Path) -> None:
    """Node, UID, owner, requests, priority and whether it may preempt; pending pods arrive at once."""
    snapshot = cluster(
        tmp_path,
        [worker("n-1")],
        [replica("web-1", "n-1"), replica("new", owner="", priority=7, preemptionPolicy="Never")],
    )
    found = pods_by_name(scenario_of(snapshot))
    web, new = found["web-1"], found["new"]
    assert ("n-1", "pod-web-1", "web", "ReplicaSet", "shop") == (
        web.node,
        web.uid,
        web.owner,
        web.owner_kind,
        web.namespace,
    )
    assert ("", "", (0.0, 0.0)) == (new.node, new.owner, new.arrival)
    assert (1000, 7, False) == (new.template.requests.of("cpu"), new.template.priority, new.template.may_preempt)


def test_usage_from_samples_history_or_requests(tmp_path: Path) -> None:
    """A sample lasts; a history repeats, with its gaps filled; without either, and for one missing resource, requests."""
    pods = [replica(name, "n-1", memory="64Mi") for name in ("measured", "recorded", "unknown", "half")]
    samples = {"shop/measured": used(250, MIB), "shop/half": Sample(1.0, cpu=5.0)}
    series = {"shop/recorded": PastUsage((None, 100.0, None, 300.0), (MIB, 2 * MIB, MIB, MIB))}
    snapshot = cluster(
        tmp_path, [worker("n-1")], pods, usage=Usage({}, samples), history=History(0.0, 60.0, {}, series)
    )
    scenario = scenario_of(snapshot)
    found = {
        name: amounts(each.template, 30.0, 90.0, 150.0, 210.0, 270.0) for name, each in pods_by_name(scenario).items()
    }
    assert ([250.0] * 5, [MIB] * 5) == found["measured"]
    assert ([100.0, 100.0, 100.0, 300.0, 100.0], [MIB, 2 * MIB, MIB, MIB, MIB]) == found["recorded"]
    assert ([1000.0] * 5, [64 * MIB] * 5) == found["unknown"]
    assert ([5.0] * 5, [64 * MIB] * 5) == found["half"]
    assert (3600.0, 60.0) == (scenario.duration, scenario.step)


def test_without_measurements(tmp_path: Path) -> None:
    """Every running pod is named, and an hour is simulated."""
    ended = {**replica("ended", "n-1"), "status": {"phase": "Succeeded"}}
    snapshot = cluster(tmp_path, [worker("n-1")], [replica("web-1", "n-1"), replica("new"), ended])
    assert ["shop/web-1"] == unmeasured(snapshot)
    assert 3600.0 == scenario_of(snapshot).duration


@pytest.mark.parametrize(
    ("steps", "step", "duration"),
    [(21, 5.0, 3600.0), (288, 300.0, DAY), (3, 700.0, 4200.0), (1, 2 * HOUR, 4 * HOUR), (0, 60.0, HOUR)],
)
def test_how_long_a_snapshot_is_simulated(steps: int, step: float, duration: float, tmp_path: Path) -> None:
    """As long as its history is, but no less than an hour, in whole steps, of which one follows a change."""
    history = History(0.0, step, {}, {"shop/web-1": PastUsage((100.0,) * steps)})
    assert (
        duration == scenario_of(cluster(tmp_path, [worker("n-1")], [replica("web-1", "n-1")], history=history)).duration
    )


@pytest.mark.parametrize(
    ("samples", "beyond"),
    [
        ({"shop/a": used(500), "shop/b": used(700)}, 800.0),
        ({"shop/a": used(500)}, 500.0),  # b counts with the 1000 that it requests
        ({"shop/a": used(1900), "shop/b": used(1900)}, 0.0),
    ],
)
def test_what_a_node_uses_beyond_its_pods_goes_on(samples: dict[str, Sample], beyond: float, tmp_path: Path) -> None:
    """The node's sample minus its pods', and never less than nothing."""
    usage = Usage({"n-1": used(2000)}, samples)
    snapshot = cluster(
        tmp_path, [worker("n-1"), worker("n-2")], [replica("a", "n-1"), replica("b", "n-1")], usage=usage
    )
    measured, unknown = scenario_of(snapshot).nodes
    moment = np.array([1.0])
    assert [beyond] == measured.system_cpu.amounts(moment, 0.0, 1).tolist()
    assert [0.0] == unknown.system_cpu.amounts(moment, 0.0, 1).tolist()


@pytest.mark.parametrize(
    ("node", "expected", "beyond"),
    [
        (1300.0, {"a": 400.0, "b": 300.0, "c": 600.0}, 0.0),  # 900 left for the 1000 and 2000 that b and c request
        (4000.0, {"a": 400.0, "b": 1000.0, "c": 2000.0}, 600.0),
        (300.0, {"a": 400.0, "b": 0.0, "c": 0.0}, 0.0),
        (None, {"a": 400.0, "b": 1000.0, "c": 2000.0}, 0.0),
    ],
)
@pytest.mark.parametrize("recorded", [False, True])
def test_unmeasured_pods_share_what_their_node_uses_beyond_measured_ones(
    recorded: bool, node: float | None, expected: dict[str, float], beyond: float, tmp_path: Path
) -> None:
    """By their requests, and never with more than these; a history without a sample is a measurement, too."""
    pods = [replica("a", "n-1"), replica("b", "n-1"), replica("c", "n-1", cpu="2"), replica("elsewhere", "n-2")]
    samples = {} if recorded else {"shop/a": used(400)}
    series = {"shop/a": PastUsage((400.0, 400.0, None))} if recorded else {}
    usage = Usage({} if node is None else {"n-1": Sample(1.0, cpu=node)}, samples)
    history = History(0.0, 60.0, {}, series)
    scenario = scenario_of(cluster(tmp_path, [worker("n-1"), worker("n-2")], pods, usage=usage, history=history))
    found = {
        name: each.template.cpu.amounts(np.array([1.0]), 0.0, 1).item() for name, each in pods_by_name(scenario).items()
    }
    assert {**expected, "elsewhere": 1000.0} == pytest.approx(found)
    assert beyond == pytest.approx(scenario.nodes[0].system_cpu.amounts(np.array([1.0]), 0.0, 1).item())


def test_pods_that_take_no_part(tmp_path: Path) -> None:
    """Finished and terminating pods are gone, and a gated pod is not scheduled."""
    ended = {**replica("ended", "n-1"), "status": {"phase": "Failed"}}
    leaving = replica("leaving", "n-1")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-31T07:59:00Z"
    gated = replica("gated", schedulingGates=[{"name": "quota"}])
    snapshot = cluster(tmp_path, [worker("n-1")], [ended, leaving, gated, replica("web-1", "n-1")])
    assert ["web-1"] == [each.name for each in scenario_of(snapshot).pods]


CLAIM = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]


def pending_after(folder: Path, missing: tuple[str, ...]) -> dict[str, str]:
    """The pods that are pending after a minute, and why, in a snapshot that lacks these kinds."""
    pods = [replica("plain"), replica("stateful", volumes=CLAIM)]
    scenario = scenario_of(cluster(folder, [worker("n-1")], pods, missing=missing))
    simulation = Simulation(scenario, default_configuration().settings, seed=1)
    simulation.run_until(60.0)
    conditions = {pod.name: pod.unschedulable_condition for pod in simulation.world.pending.values()}
    return {name: condition[1] if condition is not None else "" for name, condition in conditions.items()}


def test_pods_wait_for_kinds_that_could_not_be_listed(tmp_path: Path) -> None:
    """As live: a pod with a claim stays pending, and where every pod may need the kind, nothing is scheduled."""
    waiting = pending_after(tmp_path, ("persistentvolumeclaims",))
    assert ["stateful"] == [*waiting]
    assert (
        "needs persistentvolumeclaims, which this scheduler cannot list: the snapshot was taken" in waiting["stateful"]
    )
    assert {"plain": "", "stateful": ""} == pending_after(tmp_path, ("namespaces",))


def test_kinds_that_plugins_can_do_without_are_the_same_as_live(tmp_path: Path) -> None:
    """They count as empty."""
    assert {name for name, each in EXTRA_KINDS.items() if each.dispensable} == DISPENSABLE
    assert () == scenario_of(cluster(tmp_path, [worker("n-1")], missing=(*DISPENSABLE,))).missing_kinds


@pytest.mark.parametrize(
    ("missing", "note"),
    [
        ("persistentvolumes", "without persistentvolumes, which could not be listed: pods that need them stay pending"),
        (
            "poddisruptionbudgets",
            "without poddisruptionbudgets, which could not be listed: nothing is preempted, and a drain respects none",
        ),
        ("volumeattachments", "without volumeattachments, which could not be listed and count as none"),
    ],
)
def test_what_a_missing_kind_means_is_noted(missing: str, note: str, tmp_path: Path) -> None:
    """After the snapshot's own notes, and in the words of what becomes of it."""
    scenario = scenario_of(cluster(tmp_path, [worker("n-1")], missing=(missing,), notes=("query x failed",)))
    assert ("query x failed", note) == scenario.notes


def test_a_node_without_capacity(tmp_path: Path) -> None:
    """It is as large as what can be allocated on it."""
    node = worker("n-1")
    del node["status"]["capacity"]
    scenario = scenario_of(cluster(tmp_path, [node], [replica("web-1", "n-1")]))
    simulation = Simulation(scenario, default_configuration().settings, seed=1)
    simulation.run_until(61.0)
    assert simulation.world.usage.latest is not None
    assert [0.25] == simulation.world.usage.latest.utilisation[0].tolist()
