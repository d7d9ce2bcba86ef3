"""Cell compaction: on how few nodes a policy can place the pods of a scenario's fullest moment.

At the moment of the highest requests, all pods are placed anew on fewer and fewer nodes, in a random order of nodes, until
some pod stays pending. Of several such trials the 90th percentile counts, as in the paper on Borg. The nodes are empty at
first and measured as in the scenario, and pods come in the order in which they were created.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.settings import Settings
from trimtab.sim.scenario import OwnerKind, Scenario, SimulatedNode, TracedPod, Workload
from trimtab.sim.simulation import Simulation
from trimtab.sim.usage import StepUsage
from trimtab.sim.world import World

TRIALS = 11
PERCENTILE = 90
ARRIVAL_GAP = 0.001  # seconds between two pods
SETTLING = 30.0  # seconds, after the last pod


class Compaction(Struct, frozen=True):
    """What it came to: `nodes` there are, `needed` in each trial; `unplaceable` pods are pending even on all nodes."""

    nodes: int
    at: float
    pods: int
    unplaceable: int
    needed: list[int]

    @property
    def percentile(self) -> int:
        """The 90th percentile, as a number of nodes that some trial needed."""
        return int(np.percentile(self.needed, PERCENTILE, method="higher")) if self.needed else 0


class FullestMoment:
    """Watches a simulation for the moment when its pods request the most."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.at, self._highest = 0.0, -1.0
        self.pods: tuple[TracedPod, ...] = ()
        self.nodes: tuple[SimulatedNode, ...] = ()
        world.step_listeners.append(self._step)

    def _step(self, usage: StepUsage) -> None:
        present = [pod for pod in self._world.pods.values() if not pod.terminating and not pod.finished]
        capacity = np.maximum(usage.capacity.sum(axis=1), 1.0)
        requested = [sum(pod.requests.of(resource) for pod in present) for resource in (CPU, MEMORY)]
        total = float((np.array(requested) / capacity).sum())
        if total > self._highest:
            self._highest, self.at = total, usage.at
            self.pods = tuple(self._traced(pod) for pod in sorted(present, key=_order) if not _of_daemon_set(pod))
            self.nodes = tuple(each for name, each in self._world.nodes.items() if name not in self._world.silent_nodes)

    def _traced(self, pod: Pod) -> TracedPod:
        template = replace(self._world.templates[pod.uid], lifetime=None)
        owner = pod.owner.name if pod.owner is not None else ""
        return TracedPod(pod.name, template, (0.0, 0.0), owner=owner, namespace=pod.namespace)


def _order(pod: Pod) -> tuple[float, str]:
    return pod.created, pod.uid


def _of_daemon_set(pod: Pod) -> bool:
    return pod.owner is not None and pod.owner.kind == OwnerKind.DAEMON_SET


def compact(
    scenario: Scenario, settings: Settings, seed: int, tell: Callable[[float], None] = lambda share: None
) -> Compaction:
    """Simulates the scenario for its fullest moment, then tries; `tell` hears of the share that is done."""
    simulation = Simulation(scenario, settings, seed)
    moment = FullestMoment(simulation.world)
    simulation.run(lambda now: tell(0.3 * (now - scenario.begins) / scenario.duration))
    left = pending_pods(scenario, moment, moment.nodes, moment.pods, settings, seed)
    pods = tuple(pod for pod in moment.pods if (pod.namespace, pod.name) not in left)
    needed = []
    for trial in range(TRIALS):
        nodes = list(moment.nodes)
        Random(f"{seed}/{trial}").shuffle(nodes)
        too_few = _surely_too_few(nodes, pods)
        needed.append(
            _fewest(nodes, too_few, lambda some: not pending_pods(scenario, moment, some, pods, settings, seed))
        )
        tell(0.3 + 0.7 * (trial + 1) / TRIALS)
    return Compaction(len(moment.nodes), moment.at, len(pods), len(left), needed)


def _fewest(nodes: list[SimulatedNode], too_few: int, fits: Callable[[tuple[SimulatedNode, ...]], bool]) -> int:
    """By bisection, as if more nodes never hurt; all nodes are known to suffice."""
    enough = len(nodes)
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        too_few, enough = (too_few, middle) if fits(tuple(nodes[:middle])) else (middle, enough)
    return enough


def _surely_too_few(nodes: list[SimulatedNode], pods: tuple[TracedPod, ...]) -> int:
    """The most nodes, from the first on, that have less than what the pods request in all."""
    short = 0
    for resource in (CPU, MEMORY):
        wanted = sum(pod.template.requests.of(resource) for pod in pods)
        room = np.cumsum([float(dict(each.node.allocatable).get(resource, 0)) for each in nodes])
        short = max(short, int((room < wanted).sum()))
    return min(short, len(nodes) - 1)


def pending_pods(
    scenario: Scenario,
    moment: FullestMoment,
    nodes: tuple[SimulatedNode, ...],
    pods: tuple[TracedPod, ...],
    settings: Settings,
    seed: int,
) -> set[tuple[str, str]]:
    """The pods that find no place on these nodes, or are preempted there: namespace and name."""
    measured = 2 * max(scenario.step, scenario.metrics.interval) + 1.0  # when every node has samples
    arrival = moment.at + measured
    arriving = tuple(
        replace(pod, arrival=(arrival + number * ARRIVAL_GAP,) * 2, departure=None, node="")
        for number, pod in enumerate(pods)
    )
    refilled = replace(
        scenario,
        begins=moment.at,
        duration=measured + len(pods) * ARRIVAL_GAP + SETTLING,
        nodes=tuple(replace(each, joins=moment.at) for each in nodes),
        workloads=_daemon_sets(scenario, moment.at),
        pods=arriving,
        metrics=replace(scenario.metrics, loss=0.0, gaps=0.0, outages=()),
        node_events=(),
        failovers=(),
        autoscaling=None,
        oom_kills=False,
    )
    simulation = Simulation(refilled, settings, seed)
    simulation.run_until(refilled.ends)
    world = simulation.world
    wanted = {(pod.namespace, pod.name) for pod in pods}
    placed = {(pod.namespace, pod.name) for pod in world.pods.values() if pod.node}
    return wanted - placed


def _daemon_sets(scenario: Scenario, now: float) -> tuple[Workload, ...]:
    return tuple(
        replace(each, created=now, deleted=None, rollouts=(), scales=())
        for each in scenario.workloads
        if each.kind is OwnerKind.DAEMON_SET and each.created <= now and (each.deleted is None or each.deleted > now)
    )
