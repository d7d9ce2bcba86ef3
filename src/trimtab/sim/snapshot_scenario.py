"""Turns a snapshot of a live cluster into a scenario: its pods go on as they did.

A pod with a history repeats it; with one sample it stays there; with none it is taken to use what it requests, because a
missing measurement is never zero. What a node uses beyond its pods goes on as well. Pods that have finished, are terminating,
or wait behind a scheduling gate take no part.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
from msgspec.structs import replace

from trimtab.core.model.duration import HOUR
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.sim.owners import NODE_BOUND
from trimtab.sim.scenario import MetricsPipeline, PodTemplate, Scenario, SimulatedNode, TracedPod
from trimtab.sim.snapshot_document import PastUsage, Sample
from trimtab.sim.snapshot_file import ClusterSnapshot
from trimtab.sim.usage_patterns import Recorded, Steady, UsagePattern, without_gaps

DEFAULT_STEP = 60.0
INTERVAL = 30.0  # of scrapes, where the snapshot does not say
PLACING, PLACING_STEPS = 1800.0, 12  # how long it takes to place all pods again: seconds, and steps of usage, at least


def scenario_of(snapshot: ClusterSnapshot, name: str = "snapshot", duration: float | None = None) -> Scenario:
    """The cluster from the moment of the snapshot on, for as long as its history is, or an hour."""
    history = snapshot.history
    step = history.step if history is not None else DEFAULT_STEP
    length = history.steps * step if history is not None and history.steps else HOUR
    reader = _Usage(snapshot, step)
    pods, by_node = _taking_part(snapshot), defaultdict[str, list[Pod]](list)
    for pod in pods:
        by_node[pod.node].append(pod)
    return Scenario(
        name=name,
        duration=length if duration is None else duration,
        nodes=tuple(reader.node(SimulatedNode(each), by_node[each.name]) for each in snapshot.nodes),
        pods=tuple(_traced(pod, reader) for pod in sorted(pods, key=lambda pod: (pod.created, pod.key))),
        objects=snapshot.objects,
        step=step,
        metrics=MetricsPipeline(snapshot.metadata.interval or INTERVAL),
        description=f"a cluster as of {snapshot.metadata.taken:%Y-%m-%d %H:%M:%S %Z}",
    )


def unmeasured(snapshot: ClusterSnapshot) -> list[str]:
    """The running pods for which there is neither a sample nor a history: they count with their requests."""
    usage = snapshot.usage.pods if snapshot.usage is not None else {}
    history = snapshot.history.pods if snapshot.history is not None else {}
    running = [pod.key for pod in _taking_part(snapshot) if pod.node]
    return [key for key in running if key not in usage and key not in history]


def _taking_part(snapshot: ClusterSnapshot) -> list[Pod]:
    return [pod for pod in snapshot.pods if not (pod.finished or pod.terminating or pod.scheduling_gates)]


class _Usage:
    """Usage patterns from what was measured."""

    def __init__(self, snapshot: ClusterSnapshot, step: float) -> None:
        self.step = step
        self._pods: Mapping[str, Sample] = snapshot.usage.pods if snapshot.usage is not None else {}
        self._nodes: Mapping[str, Sample] = snapshot.usage.nodes if snapshot.usage is not None else {}
        self._history: Mapping[str, PastUsage] = snapshot.history.pods if snapshot.history is not None else {}

    def pod(self, pod: Pod, resource: str) -> UsagePattern:
        series = self._history.get(pod.key)
        found = series and (series.cpu if resource == CPU else series.memory)
        values = np.array([np.nan if value is None else value for value in found or ()], dtype=np.float64)
        if np.isnan(values).all():
            return Steady(self._amount(pod, resource))
        return Recorded(without_gaps(values), self.step, 0.0, repeat=True)

    def _amount(self, pod: Pod, resource: str) -> float:
        """What it was last measured to use, else what it requests."""
        sample = self._pods.get(pod.key)
        amount = sample.amounts().get(resource) if sample is not None else None
        return float(pod.requests.of(resource)) if amount is None else amount

    def node(self, simulated: SimulatedNode, pods: list[Pod]) -> SimulatedNode:
        """With what the node uses beyond its pods; nothing where the node was not measured."""
        sample = self._nodes.get(simulated.node.name)
        if sample is None:
            return simulated
        beyond = {
            resource: max(amount - sum(self._amount(pod, resource) for pod in pods), 0.0)
            for resource, amount in sample.amounts().items()
        }
        cpu, memory = Steady(beyond.get(CPU, 0.0)), Steady(beyond.get(MEMORY, 0.0))
        return SimulatedNode(simulated.node, simulated.joins, cpu, memory)


def _traced(pod: Pod, reader: _Usage) -> TracedPod:
    template = PodTemplate(
        requests=pod.requests,
        cpu=reader.pod(pod, CPU),
        memory=reader.pod(pod, MEMORY),
        spec=pod.spec,
        labels=pod.labels,
        priority=pod.priority,
        scheduler_name=pod.scheduler_name,
        may_preempt=pod.may_preempt,
    )
    return TracedPod(
        name=pod.name,
        template=template,
        arrival=(0.0, 0.0),
        owner=pod.owner.name if pod.owner is not None else "",
        owner_kind=pod.owner.kind if pod.owner is not None else "",
        namespace=pod.namespace,
        node=pod.node,
        uid=pod.uid,
    )


def place_again(scenario: Scenario) -> Scenario:
    """Every pod is placed again, in the order of creation, so slowly that its usage is measured; then measures begin.

    Pods that belong to their node stay.
    """
    seconds = max(PLACING, PLACING_STEPS * scenario.step)
    others = [pod for pod in scenario.pods if pod.owner_kind not in NODE_BOUND]
    staying = [pod for pod in scenario.pods if pod.owner_kind in NODE_BOUND]
    times = (scenario.begins + seconds * number / len(others) for number in range(len(others)))
    arriving = (replace(pod, node="", arrival=(at, at)) for pod, at in zip(others, times, strict=True))
    lasting = replace(scenario, duration=scenario.duration + seconds, warm_up=scenario.warm_up + seconds)
    return replace(lasting, pods=(*staying, *arriving))
