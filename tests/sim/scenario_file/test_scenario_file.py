"""What a valid scenario file means."""

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from tests.sim.scenario_file.scenario_texts import FILE, FULL, parse_body
from trimtab.core.model.duration import HOUR
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.selectors import LabelSelector
from trimtab.core.model.taints import Taint
from trimtab.sim.scenario import (
    DisruptionBudget,
    Failover,
    HorizontalAutoscaling,
    MetricsPipeline,
    NodeAction,
    NodeEvent,
    Outage,
    OutageKind,
    OwnerKind,
    Scale,
    Scenario,
    Workload,
)
from trimtab.sim.scenario_file import parse_scenario
from trimtab.sim.usage_patterns import Bursty, Daily, Noisy, Ramp, Recorded, Steady, Surge, Total, UsagePattern

MIB = 1 << 20
GIB = 1 << 30
BEGINS = 8 * HOUR
FULL_SCENARIO = parse_scenario(FULL, FILE, Path())


def workload(body: str) -> Workload:
    """The only workload of a file with this one, in flow style."""
    (found,) = parse_body(f"workloads: [{body}]\n").workloads
    return found


def usage(text: str, request: str = "requests: {cpu: 2, memory: 1Gi}") -> tuple[UsagePattern, UsagePattern]:
    """The patterns of a pod with this usage."""
    template = workload(f"{{name: x, {request}, usage: {text}}}").template
    return template.cpu, template.memory


def test_the_least() -> None:
    """Only a duration and a node are needed; everything else has the defaults of the values themselves."""
    scenario = parse_body("")
    assert (7200.0, 60.0, 0.0, MetricsPipeline(), True) == (
        scenario.duration,
        scenario.step,
        scenario.warm_up,
        scenario.metrics,
        scenario.oom_kills,
    )
    assert ("s", (), ()) == (scenario.name, scenario.workloads, scenario.pods)
    plain = workload("{name: x}")
    assert Workload("x", replace(plain.template), created=BEGINS) == plain
    assert {"app": "x"} == plain.template.labels


def test_the_first_fields() -> None:
    """Durations are seconds, and times seconds since midnight."""
    found = FULL_SCENARIO
    assert ("everything", "One of each.", 7200.0, BEGINS, 30.0, 600.0, False) == (
        found.name,
        found.description,
        found.duration,
        found.begins,
        found.step,
        found.warm_up,
        found.oom_kills,
    )


def test_nodes() -> None:
    """A count makes several nodes, by turns in the zones."""
    control, *workers = FULL_SCENARIO.nodes
    assert (BEGINS + 300, (Taint("role", "control", "NoSchedule"),)) == (control.joins, control.node.taints)
    assert Total((Steady(100.0), Surge(2000.0, BEGINS + 600, 9 * HOUR, 30.0))) == control.system_cpu
    assert Steady(float(GIB)) == control.system_memory
    assert ["worker-1", "worker-2", "worker-3"] == [each.node.name for each in workers]
    assert ["a", "b", "a"] == [each.node.labels["topology.kubernetes.io/zone"] for each in workers]
    last = workers[-1].node
    expected = ((CPU, 7500), (MEMORY, 16 * GIB), ("nvidia.com/gpu", 2), ("pods", 50))
    assert (expected, expected, "worker-3") == (last.allocatable, last.capacity, last.labels["kubernetes.io/hostname"])
    assert [(("registry.example/app",), 200 * MIB)] == [(each.names, each.size) for each in last.images]


def test_a_workload() -> None:
    """Percentages of pods are rounded as Kubernetes does: up, but for the unavailable ones of a rollout."""
    web = FULL_SCENARIO.workloads[0]
    assert (OwnerKind.DEPLOYMENT, "default", 8, BEGINS + 60, 9 * HOUR + 3300, 10.0) == (
        web.kind,
        web.namespace,
        web.replicas,
        web.created,
        web.deleted,
        web.stagger,
    )
    assert (3, 2, DisruptionBudget(min_available=3)) == (web.max_surge, web.max_unavailable, web.budget)
    assert (Scale(BEGINS + 2400, 10),) == web.scales
    assert HorizontalAutoscaling(2, 20, 0.6, 30.0, 0.2, 60.0) == web.autoscaling
    kinds = [(each.kind.value, each.namespace) for each in FULL_SCENARIO.workloads[1:]]
    expected = [("StatefulSet", "other"), ("Job", "default"), ("DaemonSet", "default"), ("Pod", "default")]
    assert expected == kinds
    assert 600.0 == FULL_SCENARIO.workloads[2].template.lifetime


def test_a_template() -> None:
    """The spec is what the wire decodes from the same fields of a pod."""
    template = FULL_SCENARIO.workloads[0].template
    assert ((2.0, 3.0), 4.0, 5.0, 10, "other") == (
        template.start_delay,
        template.ready_delay,
        template.grace_period,
        template.priority,
        template.scheduler_name,
    )
    assert {"app": "web", "tier": "front"} == template.labels
    assert (500, GIB, 1000, 2 * GIB) == (
        template.requests.of(CPU),
        template.requests.of(MEMORY),
        template.requests.limit_of(CPU),
        template.requests.limit_of(MEMORY),
    )
    spec = template.spec
    assert ((("role", "worker"),), ("registry.example/app",), [80]) == (
        spec.node_selector,
        spec.images,
        [each.port for each in spec.ports],
    )
    assert (1, 1) == (len(spec.tolerations), len(spec.topology_spread))
    assert spec.affinity is not None and spec.affinity.pod_anti_affinity.required


def test_equal_pods_share_their_spec() -> None:
    """The scheduler compares specs by identity."""
    one, two = parse_body("workloads: [{name: x}, {name: y}]\n").workloads
    assert one.template.spec is two.template.spec


def test_rollouts() -> None:
    """A revision has the fields of the one before, unless it sets them; without any it is the same template again."""
    web = FULL_SCENARIO.workloads[0]
    same, other = web.rollouts
    assert (BEGINS + 1200, None, BEGINS + 1800) == (same.at, same.template, other.at)
    assert other.template is not None
    assert (600, web.template.labels, web.template.memory) == (
        other.template.requests.of(CPU),
        other.template.labels,
        other.template.memory,
    )
    assert Noisy(Daily(120.0, 720.0, 14 * HOUR), 0.1) == other.template.cpu


@pytest.mark.parametrize(
    ("rollout", "expected"),
    [
        ("", (1, 0)),
        ("maxSurge: 0, maxUnavailable: 1", (0, 1)),
        ("maxSurge: 0, maxUnavailable: 10%", (0, 1)),  # of three: as in Kubernetes, one where both come to nothing
        ("maxSurge: 10%, maxUnavailable: 0", (1, 0)),
    ],
)
def test_how_a_deployment_rolls_out(rollout: str, expected: tuple[int, int]) -> None:
    """One pod more unless set, and never so that nothing could happen."""
    found = workload(f"{{name: x, replicas: 3, {rollout}}}")
    assert expected == (found.max_surge, found.max_unavailable)


def test_requests_follow_limits() -> None:
    """What has a limit and no request requests its limit, as the API server has it."""
    template = workload("{name: x, requests: {cpu: 1}, limits: {cpu: 2, memory: 1Gi}}").template
    assert (1000, GIB) == (template.requests.of(CPU), template.requests.of(MEMORY))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{cpu: 50%}", Steady(1000.0)),
        ("{cpu: 250m}", Steady(250.0)),
        ("{cpu: 1.5}", Steady(1500.0)),
        ("{cpu: {steady: 10%, noise: 0.2}}", Noisy(Steady(200.0), 0.2)),
        ('{cpu: {daily: {low: 0, high: 1, peak: "26:30"}}}', Daily(0.0, 1000.0, 26.5 * HOUR)),
        ("{cpu: {bursty: {low: 1, high: 2, share: 10%, slot: 1m}}}", Bursty(1000.0, 2000.0, 0.1, 60.0)),
        ("{cpu: {ramp: {to: 150%, over: 10m}}}", Ramp(0.0, 3000.0, 600.0)),
        ("{cpu: {surge: {level: 1, begins: 10m, ends: 20m}}}", Surge(1000.0, BEGINS + 600, BEGINS + 1200)),
        ("{cpu: [{steady: 1}, 50%]}", Total((Steady(1000.0), Steady(1000.0)))),
    ],
)
def test_patterns(text: str, expected: UsagePattern) -> None:
    """A percentage is of the request, two CPUs here, and a quantity is what it says."""
    assert expected == usage(text)[0]


def test_recorded_values(tmp_path: Path) -> None:
    """From the file itself or from a column of another one; each is a level."""
    cpu, memory = usage("{cpu: {recorded: {values: [50%, 250m, 1], step: 1m}}, memory: {recorded: {values: [50%]}}}")
    assert isinstance(cpu, Recorded) and isinstance(memory, Recorded)
    assert ([1000.0, 250.0, 1000.0], 60.0, None) == (cpu.values.tolist(), cpu.step, cpu.begins)
    assert [GIB / 2] == memory.values.tolist()
    (tmp_path / "use.csv").write_text("at,cpu,busy\n0,1,10%\n\n5,2,20%\n")
    body = "workloads: [{name: x, requests: {cpu: 1}, usage: {cpu: {recorded: {file: use.csv, column: busy, begins: 5m}}}}]"
    (found,) = parse_body(f"{body}\n", tmp_path).workloads
    assert isinstance(found.template.cpu, Recorded)
    assert np.array([100.0, 200.0], dtype=np.float32).tolist() == found.template.cpu.values.tolist()
    assert BEGINS + 300 == found.template.cpu.begins


def test_faults() -> None:
    """Events, outages and the cluster autoscaler."""
    found = FULL_SCENARIO
    assert (
        NodeEvent(BEGINS + 900, "worker-2", NodeAction.CORDON),
        NodeEvent(BEGINS + 2400, "worker-2", NodeAction.UNCORDON),
    ) == found.node_events
    assert (Failover(BEGINS + 1800, 20.0),) == found.failovers
    outages = (
        Outage(BEGINS + 600, BEGINS + 1200, OutageKind.ZEROS, ("worker-1",)),
        Outage(BEGINS + 1800, BEGINS + 1860),
    )
    assert MetricsPipeline(15.0, 5.0, 0.01, 0.02, 0.03, outages) == found.metrics
    assert found.autoscaling is not None
    assert (2, 60.0, 0.4, 300.0) == (
        found.autoscaling.max_nodes,
        found.autoscaling.provision_delay,
        found.autoscaling.idle_below,
        found.autoscaling.idle_after,
    )


def test_services() -> None:
    """A Service is an object of the API, by which pods are spread."""
    (service,) = FULL_SCENARIO.objects
    assert ("default/web", LabelSelector((("app", "web"),))) == (service.key, getattr(service, "selector", None))


def test_a_scheduler_name_is_optional() -> None:
    """Without one the pods belong to the first profile of the policy."""
    assert "" == workload("{name: x, pod: {priority: 1}}").template.scheduler_name


def test_the_same_file_is_the_same_scenario() -> None:
    """Values compare equal, but for arrays."""

    def without_arrays(scenario: Scenario) -> Scenario:
        return replace(scenario, workloads=scenario.workloads[:3])

    assert without_arrays(FULL_SCENARIO) == without_arrays(parse_scenario(FULL.encode(), FILE, Path()))
