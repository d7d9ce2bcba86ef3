"""Answers one question about a cluster by simulating it twice: as it is, and with a change.

A change is a new scenario; both run with the same seed. The answer is what would be pending and why, which pods a drain could
not evict, how hot nodes would get, and which pods would run elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from trimtab.core.model.node import HOSTNAME, ZONE, Node
from trimtab.core.model.pod import NODE_BOUND, Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.taints import Taint
from trimtab.core.settings import Settings
from trimtab.sim.measures import INVOLUNTARY, RunMeter
from trimtab.sim.scenario import NodeAction, NodeEvent, Scenario, SimulatedNode, TracedPod
from trimtab.sim.simulation import Simulation, without_observing
from trimtab.sim.snapshot_scenario import LEAST_STEPS
from trimtab.sim.usage import StepUsage
from trimtab.sim.world import World

AT, QUIET = 60.0, 120.0  # when the change happens, and when its first effects are over, after the start
SETTLED = 1200.0  # how long a failure is followed: its pods are replaced after six minutes
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"  # a label
CONDITION_TAINTS = "node.kubernetes.io/"  # taints of this prefix say how a node is, not what it is for
UNDECIDED = "not decided yet"


class Pending(Struct, frozen=True):
    """A pod without a node, and why; `workload` is its owner as namespace/name, or the pod itself."""

    pod: str
    workload: str
    reason: str


class Placed(Struct, frozen=True):
    """A pod that got a node during the run."""

    pod: str
    workload: str
    node: str


class Blocked(Struct, frozen=True):
    """A pod that could not be evicted, and the PodDisruptionBudgets that forbid it."""

    pod: str
    node: str
    budgets: tuple[str, ...]


class NodePeak(Struct, frozen=True):
    """The highest demand on a node relative to its capacity, of CPU and of memory."""

    node: str
    cpu: float
    memory: float


class Answer(Struct, frozen=True):
    """How one run ended.

    nodes: those that pods can be scheduled to. lost: evicted pods that nobody creates again. peaks: of all nodes, the highest
    CPU demand first, once the first effects of a change are over. hot80: the share of node-steps with a CPU demand above 80 %
    of capacity. unmet: the share of CPU demand.
    """

    nodes: int
    pods: int
    pending: tuple[Pending, ...]
    placed: tuple[Placed, ...]
    blocked: tuple[Blocked, ...]
    lost: tuple[str, ...]
    evictions: int
    hot80: float
    unmet: float
    oom_kills: int
    peaks: tuple[NodePeak, ...]


class FailureAnswer(Struct, frozen=True):
    """What a zone's or a node's failure would leave pending or lose, and how hot the fullest node would get."""

    domain: str
    nodes: int
    pending: tuple[Pending, ...]
    lost: tuple[str, ...]
    hottest: NodePeak | None

    @property
    def survived(self) -> bool:
        return not (self.pending or self.lost)


def simulate(scenario: Scenario, settings: Settings, seed: int = 1) -> Answer:
    simulation = Simulation(scenario, without_observing(settings), seed)
    meter = RunMeter(simulation.world, scenario, simulation.budgets)
    peaks = _Peaks(scenario.begins + max(QUIET, scenario.warm_up))
    simulation.world.step_listeners.append(peaks.step)
    lost: list[str] = []
    simulation.world.pod_listeners.append(lambda before, after: lost.extend(_lost(simulation.world, before, after)))
    simulation.run()
    world, measures = simulation.world, meter.result("", seed, simulation.decisions).measures
    return Answer(
        nodes=sum(each.node.ready and not each.node.unschedulable for each in world.nodes.values()),
        pods=len(world.pods),
        pending=tuple(Pending(pod.key, _workload(pod), _reason(pod)) for pod in world.pending.values()),
        placed=tuple(_placed(world, scenario.begins)),
        blocked=tuple(_blocked(simulation)),
        lost=tuple(lost),
        evictions=int(measures["evictions"]),
        hot80=measures["hot80"],
        unmet=measures["unmet"],
        oom_kills=int(measures["oom_kills"]),
        peaks=peaks.hottest_first(),
    )


def _workload(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.owner.name}" if pod.owner is not None else pod.key


def _reason(pod: Pod) -> str:
    return pod.unschedulable_condition[1] if pod.unschedulable_condition is not None else UNDECIDED


def _lost(world: World, before: Pod | None, after: Pod | None) -> Iterable[str]:
    gone = before if after is None else None
    if gone is not None and gone.owner is None and world.lives[gone.uid].left in INVOLUNTARY:
        yield gone.key


def _placed(world: World, begins: float) -> Iterable[Placed]:
    for uid, pod in world.pods.items():
        bound = world.lives[uid].bound
        if bound is not None and bound > begins:
            yield Placed(pod.key, _workload(pod), pod.node)


def _blocked(simulation: Simulation) -> Iterable[Blocked]:
    drained = {event.node for event in simulation.scenario.node_events if event.action is NodeAction.DRAIN}
    for pod in simulation.world.pods.values():
        stays = pod.owner is not None and pod.owner.kind in NODE_BOUND
        if pod.node in drained and not stays and (budgets := simulation.budgets.blocking(pod)):
            yield Blocked(pod.key, pod.node, tuple(budgets))


class _Peaks:
    """The highest demand on each node over all steps that began after `since`."""

    def __init__(self, since: float) -> None:
        self._since = since
        self._peaks: dict[str, tuple[float, float]] = {}

    def step(self, usage: StepUsage) -> None:
        if usage.at - usage.seconds < self._since:
            return
        shares = usage.demand / usage.capacity.clip(min=1.0)
        for row, name in enumerate(usage.nodes):
            if usage.present[row]:
                cpu, memory = self._peaks.get(name, (0.0, 0.0))
                self._peaks[name] = max(cpu, float(shares[0, row])), max(memory, float(shares[1, row]))

    def hottest_first(self) -> tuple[NodePeak, ...]:
        peaks = [NodePeak(name, *peak) for name, peak in self._peaks.items()]
        return tuple(sorted(peaks, key=lambda peak: (-peak.cpu, -peak.memory, peak.node)))


# --- comparing two answers


def further_pending(before: Iterable[Pending], after: Iterable[Pending]) -> tuple[Pending, ...]:
    """The pods that only the second run leaves pending: so many of a workload as are more than in the first."""
    known = Counter(each.workload for each in before)
    further: list[Pending] = []
    for each in after:
        known[each.workload] -= 1
        if known[each.workload] < 0:
            further.append(each)
    return tuple(further)


def is_worse(before: Answer, after: Answer) -> bool:
    """Whether the change leaves more pods pending, cannot be completed, or loses pods."""
    return bool(further_pending(before.pending, after.pending) or after.blocked or further_lost(before, after))


def further_lost(before: Answer, after: Answer) -> tuple[str, ...]:
    """The pods that only the second run loses."""
    known = {*before.lost}
    return tuple(pod for pod in after.lost if pod not in known)


def moved(scenario: Scenario, after: Answer) -> int:
    """How many pods of the scenario are on another node."""
    nodes = {f"{pod.namespace}/{pod.name}": pod.node for pod in scenario.pods if pod.node}
    return sum(nodes.get(each.pod, each.node) != each.node for each in after.placed)


# --- changes


def drain(scenario: Scenario, names: Sequence[str]) -> Scenario:
    """These nodes are drained soon after the start; disruption budgets are respected."""
    events = tuple(NodeEvent(scenario.begins + AT, name, NodeAction.DRAIN) for name in dict.fromkeys(names))
    return replace(scenario, node_events=(*scenario.node_events, *events))


def add_nodes(scenario: Scenario, count: int) -> Scenario:
    """So many nodes more, empty and like the first of the most common size and taints."""
    kinds = Counter(_kind(each) for each in workers(scenario))
    model = next(each for each in workers(scenario) if _kind(each) == kinds.most_common(1)[0][0])
    return replace(scenario, nodes=(*scenario.nodes, *(_copy(model, number + 1) for number in range(count))))


def workers(scenario: Scenario) -> tuple[SimulatedNode, ...]:
    """All nodes but those of the control plane, unless there are no others."""
    return tuple(each for each in scenario.nodes if CONTROL_PLANE not in each.node.labels) or scenario.nodes


def _kind(simulated: SimulatedNode) -> Hashable:
    """What decides which pods a node takes, and how many."""
    return simulated.node.allocatable, _lasting_taints(simulated.node)


def _lasting_taints(node: Node) -> tuple[Taint, ...]:
    return tuple(taint for taint in node.taints if not taint.key.startswith(CONDITION_TAINTS))


def _copy(model: SimulatedNode, number: int) -> SimulatedNode:
    """In good condition, and for the same pods."""
    node, name = model.node, f"{model.node.name}-copy-{number}"
    labels = {**node.labels, HOSTNAME: name}
    taints = _lasting_taints(node)
    return SimulatedNode(
        replace(node, name=name, uid=name, labels=labels, unschedulable=False, taints=taints, ready=True)
    )


def remove_nodes(scenario: Scenario, count: int) -> tuple[Scenario, tuple[str, ...]]:
    """Without so many workers, those with the least requests first; their pods are drained to others."""
    requested = dict.fromkeys((each.node.name for each in workers(scenario)), 0.0)
    sizes = {each.node.name: dict(each.node.allocatable) for each in scenario.nodes}
    for pod in scenario.pods:
        if pod.node in requested:
            shares = (pod.template.requests.of(name) / max(sizes[pod.node].get(name, 0), 1) for name in (CPU, MEMORY))
            requested[pod.node] += max(shares)
    names = tuple(sorted(requested, key=lambda name: (requested[name], name))[:count])
    return drain(scenario, names), names


def add_pods(scenario: Scenario, pods: Iterable[TracedPod]) -> Scenario:
    """These pods arrive soon after the start."""
    at = scenario.begins + AT
    return replace(scenario, pods=(*scenario.pods, *(replace(pod, arrival=(at, at)) for pod in pods)))


# --- failures


def failure_domains(scenario: Scenario) -> dict[str, tuple[str, ...]]:
    """The nodes of each zone; each node by itself that has none, or if all are in one."""
    zones: dict[str, list[str]] = {}
    for each in scenario.nodes:
        zones.setdefault(each.node.labels.get(ZONE, ""), []).append(each.node.name)
    if len(zones) > 1:
        without = {f"node {name}": (name,) for name in zones.pop("", [])}
        return {f"zone {zone}": tuple(names) for zone, names in sorted(zones.items())} | without
    return {f"node {each.node.name}": (each.node.name,) for each in scenario.nodes}


def fail_each(
    scenario: Scenario,
    settings: Settings,
    domains: dict[str, tuple[str, ...]],
    progress: Callable[[str], None] = lambda domain: None,
) -> list[FailureAnswer]:
    """Let each of the domains fail in a run of its own; pods that are pending or lost without that do not count."""
    short = replace(scenario, duration=max(SETTLED, LEAST_STEPS * scenario.step))
    before = simulate(short, settings)
    answers = []
    for domain, names in domains.items():
        progress(domain)
        events = tuple(NodeEvent(scenario.begins + AT, name, NodeAction.FAIL) for name in names)
        answer = simulate(replace(short, node_events=(*short.node_events, *events)), settings)
        pending = further_pending(before.pending, answer.pending)
        hottest = next((peak for peak in answer.peaks if peak.node not in names), None)
        answers.append(FailureAnswer(domain, len(names), pending, further_lost(before, answer), hottest))
    return answers
