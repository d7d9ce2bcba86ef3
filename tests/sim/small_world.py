"""Builders for tests of the simulator: small nodes, pods and scenarios, and a world whose events are kept.

Delays are fixed, so that times can be computed by hand: a pod runs two seconds after its bind and is ready at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from trimtab.config.registry import default_profile
from trimtab.core.framework.profile import TieBreak
from trimtab.core.model.events import Event
from trimtab.core.model.instructions import Bind
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY, NANOS, PODS, ContainerRequests, PodRequests, pod_requests
from trimtab.core.model.taints import Taint
from trimtab.core.settings import Settings
from trimtab.sim.budgets import Budgets
from trimtab.sim.clock import VirtualClock
from trimtab.sim.kubelets import Kubelets
from trimtab.sim.node_lifecycle import NodeLifecycle
from trimtab.sim.scenario import OwnerKind, PodTemplate, Scenario, SimulatedNode, Workload
from trimtab.sim.simulation import Simulation
from trimtab.sim.usage import UsageTable
from trimtab.sim.usage_patterns import Steady, UsagePattern
from trimtab.sim.world import World

MIB = 1024 * 1024
GIB = 1024 * MIB
START_DELAY = 2.0
SCHEDULER = "trimtab"


def stock(tie_break: TieBreak = TieBreak.HASH) -> Settings:
    """kube-scheduler's default profile."""
    return Settings((default_profile(SCHEDULER, tie_break),))


def node(
    name: str, cores: float = 4, memory_gib: float = 8, *taints: Taint, labels: dict[str, str] | None = None
) -> Node:
    amounts = ((CPU, int(cores * 1000)), (MEMORY, int(memory_gib * GIB)), (PODS, 110))
    labels = {"kubernetes.io/hostname": name, **(labels or {})}
    return Node(name, uid=name, labels=labels, taints=taints, allocatable=amounts, capacity=amounts)


def nodes(count: int, cores: float = 4, memory_gib: float = 8) -> tuple[SimulatedNode, ...]:
    """n1, n2 and so on."""
    return tuple(SimulatedNode(node(f"n{number}", cores, memory_gib)) for number in range(1, count + 1))


def requests(cpu: int, memory_mib: int = 0, cpu_limit: int = 0, memory_limit_mib: int = 0) -> PodRequests:
    """Of one container, in millicores and MiB; 0 is none."""
    asked = {CPU: cpu * (NANOS // 1000), MEMORY: memory_mib * MIB * NANOS}
    limits = {CPU: cpu_limit * (NANOS // 1000), MEMORY: memory_limit_mib * MIB * NANOS}
    return pod_requests(
        [ContainerRequests(*({name: amount for name, amount in each.items() if amount} for each in (asked, limits)))]
    )


def template(
    cpu: int = 100,
    memory_mib: int = 64,
    uses: float | UsagePattern = 0.0,
    uses_mib: float | UsagePattern = 0.0,
    *,
    cpu_limit: int = 0,
    memory_limit_mib: int = 0,
    **fields: Any,
) -> PodTemplate:
    """A pod that requests and uses so much, in millicores and MiB, or by a pattern in bytes."""
    fields.setdefault("start_delay", (START_DELAY, START_DELAY))
    fields.setdefault("labels", {"app": "web"})
    return PodTemplate(
        requests(cpu, memory_mib, cpu_limit, memory_limit_mib),
        Steady(uses) if isinstance(uses, int | float) else uses,
        Steady(uses_mib * MIB) if isinstance(uses_mib, int | float) else uses_mib,
        **fields,
    )


def workload(name: str = "web", kind: OwnerKind = OwnerKind.DEPLOYMENT, replicas: int = 1, **fields: Any) -> Workload:
    fields.setdefault("template", template(labels={"app": name}))
    return Workload(name, kind=kind, replicas=replicas, **fields)


def scenario(nodes: Iterable[SimulatedNode], *workloads: Workload, duration: float = 3600.0, **fields: Any) -> Scenario:
    return Scenario("test", duration, tuple(nodes), workloads, **fields)


def simulate(
    scenario: Scenario, until: float | None = None, settings: Settings | None = None, seed: int = 1
) -> Simulation:
    simulation = Simulation(scenario, settings or stock(), seed)
    simulation.run_until(scenario.ends if until is None else scenario.begins + until)
    return simulation


def names(pods: Iterable[Pod]) -> list[str]:
    return sorted(pod.name for pod in pods)


def ready_names(world: World) -> list[str]:
    return names(pod for pod in world.pods.values() if pod.ready)


class RecordedWorld:
    """A world with kubelets and its events; nobody schedules."""

    def __init__(self, *simulated: SimulatedNode, step: float = 1.0, seed: int = 1, oom_kills: bool = True) -> None:
        self.clock = VirtualClock()
        self.events: list[Event] = []
        usage = UsageTable(seed, 0.0, step, oom_kills)
        self.world = World(self.clock, seed, self.events.append, usage, [SCHEDULER])
        self.kubelets = Kubelets(self.world)
        self.budgets = Budgets(self.world)
        self.lifecycle = NodeLifecycle(self.world, self.kubelets, self.budgets)
        for each in simulated:
            self.world.put_node(each)

    def run(self, seconds: float) -> list[Event]:
        """Advance the clock and return the events of that time."""
        self.events.clear()
        self.clock.run_until(self.clock.now + seconds)
        return list(self.events)

    def bind(self, uid: str, to: str) -> None:
        pod = self.world.pods[uid]
        self.world.perform(Bind(uid, pod.namespace, pod.name, to))

    def running(self, name: str, template: PodTemplate, on: str) -> str:
        """A pod that is bound to the node, and runs there without delay."""
        return self.world.create_pod(name, replace(template, start_delay=(0.0, 0.0)), node=on)
