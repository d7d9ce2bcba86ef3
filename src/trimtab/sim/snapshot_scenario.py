"""Turns a snapshot of a live cluster into a scenario: its pods go on as they did.

A pod with a history repeats it; with one sample it stays there; with none it is taken to use what it requests, because a
missing measurement is never zero, but no more than its node was measured to use beyond the measured pods. What a node uses
beyond all its pods goes on as well. Pods that have finished, are terminating, or wait behind a scheduling gate take no part.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from math import ceil

import numpy as np
from msgspec.structs import replace

from trimtab.core.framework.forbidden_kinds import only_some_pods_need
from trimtab.core.model.duration import HOUR
from trimtab.core.model.objects import PodDisruptionBudget
from trimtab.core.model.pod import NODE_BOUND, Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.storage import VolumeAttachment
from trimtab.core.settings import Settings
from trimtab.sim.scenario import MetricsPipeline, PodTemplate, Scenario, SimulatedNode, TracedPod
from trimtab.sim.snapshot_document import History, PastUsage, Sample
from trimtab.sim.snapshot_file import ClusterSnapshot
from trimtab.sim.usage_patterns import Recorded, Steady, UsagePattern, without_gaps

DEFAULT_STEP = 60.0
BUDGETS = PodDisruptionBudget.kind
DISPENSABLE = frozenset({VolumeAttachment.kind})  # plugins can do without it, as live (`kube/kinds.py`)
INTERVAL = 30.0  # of scrapes, where the snapshot does not say
LEAST_STEPS = 2  # in the first of them a change happens
PLACING, PLACING_STEPS = 1800.0, 12  # how long it takes to place all pods again: seconds, and steps of usage, at least


def scenario_of(snapshot: ClusterSnapshot, name: str = "snapshot", duration: float | None = None) -> Scenario:
    """The cluster from the moment of the snapshot on: an hour, or for as long as its history is if that is longer."""
    history = snapshot.history
    step = history.step if history is not None else DEFAULT_STEP
    pods = _taking_part(snapshot)
    reader = _Usage(snapshot, pods, step)
    return Scenario(
        name=name,
        duration=_length(history, step) if duration is None else duration,
        nodes=tuple(reader.node(SimulatedNode(each)) for each in snapshot.nodes),
        pods=tuple(_traced(pod, reader) for pod in sorted(pods, key=lambda pod: (pod.created, pod.key))),
        objects=snapshot.objects,
        step=step,
        metrics=MetricsPipeline(snapshot.metadata.interval or INTERVAL),
        missing_kinds=tuple(kind for kind in snapshot.metadata.missing if kind not in DISPENSABLE),
        notes=tuple(_notes(snapshot)),
        description=f"a cluster as of {snapshot.metadata.taken:%Y-%m-%d %H:%M:%S %Z}",
    )


def _length(history: History | None, step: float) -> float:
    """In whole steps; a shorter history repeats, so that a change and what follows from it always fit."""
    recorded = history.steps if history is not None else 0
    return max(recorded, ceil(HOUR / step), LEAST_STEPS) * step


def _notes(snapshot: ClusterSnapshot) -> Iterator[str]:
    """What the snapshot lacks, and what becomes of it in a simulation."""
    yield from snapshot.metadata.notes
    missing = snapshot.metadata.missing
    if needed := [kind for kind in missing if kind not in (*DISPENSABLE, BUDGETS)]:
        yield f"without {', '.join(needed)}, which could not be listed: pods that need them stay pending"
    if BUDGETS in missing:
        yield f"without {BUDGETS}, which could not be listed: nothing is preempted, and a drain respects none"
    if unneeded := [kind for kind in missing if kind in DISPENSABLE]:
        yield f"without {', '.join(unneeded)}, which could not be listed and count as none"
    if unknown := len(unmeasured(snapshot)):
        were = (
            "pod was not measured and counts with its"
            if unknown == 1
            else "pods were not measured and count with their"
        )
        yield f"{unknown:,} running {were} requests"


def stopping_kinds(scenario: Scenario, settings: Settings) -> list[str]:
    """The missing kinds without which the scheduler decides nothing, because it cannot tell which pods need them."""
    missing = [kind for kind in scenario.missing_kinds if kind in settings.kinds]
    return [kind for kind in missing if not only_some_pods_need(kind, settings.profiles)]


def unmeasured(snapshot: ClusterSnapshot) -> list[str]:
    """The running pods for which there is neither a sample nor a history: they count with at most their requests."""
    usage = snapshot.usage.pods if snapshot.usage is not None else {}
    history = snapshot.history.pods if snapshot.history is not None else {}
    running = [pod.key for pod in _taking_part(snapshot) if pod.node]
    return [key for key in running if key not in usage and key not in history]


def _taking_part(snapshot: ClusterSnapshot) -> list[Pod]:
    return [pod for pod in snapshot.pods if not (pod.finished or pod.terminating or pod.scheduling_gates)]


class _Usage:
    """Usage patterns from what was measured."""

    def __init__(self, snapshot: ClusterSnapshot, pods: Iterable[Pod], step: float) -> None:
        self.step = step
        self._samples: Mapping[str, Sample] = snapshot.usage.pods if snapshot.usage is not None else {}
        self._history: Mapping[str, PastUsage] = snapshot.history.pods if snapshot.history is not None else {}
        nodes: Mapping[str, Sample] = snapshot.usage.nodes if snapshot.usage is not None else {}
        self._nodes = {name: sample.amounts() for name, sample in nodes.items()}
        self._by_node = defaultdict[str, list[Pod]](list)
        for pod in pods:
            self._by_node[pod.node].append(pod)
        self._shares = {
            (name, resource): self._share(total, self._by_node[name], resource)
            for name, amounts in self._nodes.items()
            for resource, total in amounts.items()
        }

    def _share(self, total: float, pods: list[Pod], resource: str) -> float:
        """How much of what they request the unmeasured pods of a node can use, if all of it uses `total`."""
        left, requested = total, 0
        for pod in pods:
            measured = self._measured(pod, resource)
            left -= measured or 0.0
            requested += pod.requests.of(resource) if measured is None else 0
        return min(max(left, 0.0) / requested, 1.0) if requested else 1.0

    def pod(self, pod: Pod, resource: str) -> UsagePattern:
        values = np.array([np.nan if value is None else value for value in self._past(pod, resource)], dtype=np.float64)
        if np.isnan(values).all():
            return Steady(self._amount(pod, resource))
        return Recorded(without_gaps(values), self.step, 0.0, repeat=True)

    def _past(self, pod: Pod, resource: str) -> tuple[float | None, ...]:
        series = self._history.get(pod.key, PastUsage())
        return series.cpu if resource == CPU else series.memory

    def _measured(self, pod: Pod, resource: str) -> float | None:
        """What it was last measured to use."""
        sample = self._samples.get(pod.key)
        amount = sample.amounts().get(resource) if sample is not None else None
        if amount is not None:
            return amount
        return next((value for value in reversed(self._past(pod, resource)) if value is not None), None)

    def _amount(self, pod: Pod, resource: str) -> float:
        measured = self._measured(pod, resource)
        if measured is not None:
            return measured
        return pod.requests.of(resource) * self._shares.get((pod.node, resource), 1.0)

    def node(self, simulated: SimulatedNode) -> SimulatedNode:
        """With what the node uses beyond its pods; nothing where the node was not measured."""
        name = simulated.node.name
        beyond = {
            resource: max(total - sum(self._amount(pod, resource) for pod in self._by_node[name]), 0.0)
            for resource, total in self._nodes.get(name, {}).items()
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
