"""A recording of pods with their usage in steps, its variants, and the scenario that replays it.

The variants are for experiments: fewer nodes, other requests, more usage, and usage dealt out anew among apps, so that a
policy is not judged by one recording alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from random import Random

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from trimtab.core.model.node import HOSTNAME, Node
from trimtab.core.model.objects import Object, Service
from trimtab.core.model.resources import CPU, MEMORY, NANOS, PODS, ContainerRequests, PodRequests, pod_requests
from trimtab.sim.scenario import NAMESPACE, MetricsPipeline, PodTemplate, Scenario, SimulatedNode, TracedPod
from trimtab.sim.traces.options import TraceOptions
from trimtab.sim.traces.tables import UsageArray
from trimtab.sim.usage_patterns import Recorded
from trimtab.wire.objects import label_map_selector

LIFETIME_BANDS = 5  # usage is dealt out among apps of similar lifetime
ARRIVAL_SPAN = 0.9  # of its step, within which a pod arrives
MOST_PODS = 1000  # of a node; traces say nothing about it
APP = "app"


class RecordedPod(Struct, frozen=True):
    """One pod: requests and limits (millicores, bytes; a limit of 0 is none), and its usage from its first step on."""

    name: str
    app: str
    request: tuple[int, int]
    limit: tuple[int, int]
    first: int
    cpu: UsageArray
    memory: UsageArray
    node: str = ""

    @property
    def end(self) -> int:
        """The first step after it has ended."""
        return self.first + len(self.cpu)

    @property
    def size(self) -> tuple[int, int]:
        """What its usage is relative to: its limits or, without, its requests."""
        return max(self.limit[0], self.request[0], 1), max(self.limit[1], self.request[1], 1)


class RecordedTrace(Struct, frozen=True):
    """Nodes as (name, millicores, bytes), pods in the order of the file, and the number of steps."""

    name: str
    nodes: tuple[tuple[str, int, int], ...]
    pods: tuple[RecordedPod, ...]
    steps: int
    step: float
    warm_up: int = 0


def vary(recording: RecordedTrace, options: TraceOptions) -> RecordedTrace:
    """The recording with all options applied."""
    pods = recording.pods
    if options.requests != 1.0:
        pods = tuple(_with_requests(pod, options.requests) for pod in pods)
    if options.shuffle_usage is not None:
        pods = tuple(_with_usage_shuffled(pods, options.shuffle_usage))
    if options.usage != 1.0:
        pods = tuple(_with_usage(pod, options.usage) for pod in pods)
    if options.stagger:
        pods = tuple(_staggered(pods, options.stagger, recording.step, recording.steps))
    nodes = recording.nodes[: options.nodes]
    names = {name for name, _, _ in nodes} if options.initial_placement else set[str]()
    placed = tuple(pod if pod.node in names else replace(pod, node="") for pod in pods)
    return replace(recording, nodes=nodes, pods=placed)


def _with_requests(pod: RecordedPod, scale: float) -> RecordedPod:
    return replace(pod, request=(int(pod.request[0] * scale), int(pod.request[1] * scale)))


def _with_usage(pod: RecordedPod, scale: float) -> RecordedPod:
    """More or less usage; memory stays within the limit, because no pod can use more."""
    scaled = np.float32(scale)
    memory = pod.memory * scaled
    return replace(pod, cpu=pod.cpu * scaled, memory=np.minimum(memory, pod.limit[1]) if pod.limit[1] else memory)


def _with_usage_shuffled(pods: tuple[RecordedPod, ...], seed: int) -> Iterable[RecordedPod]:
    """Each app with the usage of another one of similar lifetime, relative to its own size."""
    apps: dict[str, list[RecordedPod]] = defaultdict(list)
    for pod in pods:
        apps[pod.app].append(pod)
    by_life = sorted(apps, key=lambda app: max(len(pod.cpu) for pod in apps[app]))
    donors: dict[str, str] = {}
    for band in np.array_split(np.array(by_life), LIFETIME_BANDS):
        dealt = band.tolist()
        Random(seed).shuffle(dealt)
        donors |= zip(band.tolist(), dealt, strict=True)
    place = {pod.name: number for members in apps.values() for number, pod in enumerate(members)}
    for pod in pods:
        donor = apps[donors[pod.app]]
        yield _with_usage_of(pod, donor[place[pod.name] % len(donor)])


def _with_usage_of(pod: RecordedPod, other: RecordedPod) -> RecordedPod:
    cpu = np.resize(other.cpu / np.float32(other.size[0]), len(pod.cpu)) * np.float32(pod.size[0])
    memory = np.resize(other.memory / np.float32(other.size[1]), len(pod.memory)) * np.float32(pod.size[1])
    return replace(pod, cpu=cpu, memory=memory)


def _staggered(pods: tuple[RecordedPod, ...], seconds: float, step: float, steps: int) -> Iterable[RecordedPod]:
    """Pods of one app that arrived together arrive one after the other within this time, and live as long as before."""
    batches: dict[tuple[str, int], int] = defaultdict(int)
    for pod in pods:
        batches[pod.app, pod.first] += 1
    seen: dict[tuple[str, int], int] = defaultdict(int)
    for pod in pods:
        batch = pod.app, pod.first
        shift = int(seen[batch] * seconds / batches[batch] / step)
        seen[batch] += 1
        first = pod.first + shift
        kept = steps - first
        if kept > 0:
            yield replace(pod, first=first, cpu=pod.cpu[:kept], memory=pod.memory[:kept])


def to_scenario(recording: RecordedTrace, labels: bool, ready_delay: float = 0.0) -> Scenario:
    """Replays the recording; labels: its pods have labels, and their apps Services."""
    apps = dict.fromkeys(pod.app for pod in recording.pods if pod.app) if labels else {}
    services: tuple[Object, ...] = tuple(_service(app) for app in apps)
    ends = recording.steps * recording.step
    return Scenario(
        recording.name,
        ends,
        tuple(SimulatedNode(_node(*each)) for each in recording.nodes),
        pods=tuple(_traced_pod(pod, recording.step, ends, labels, ready_delay) for pod in recording.pods),
        objects=services,
        step=recording.step,
        warm_up=recording.warm_up * recording.step,
        metrics=MetricsPipeline(interval=recording.step),
        oom_kills=False,  # what was recorded was not killed
    )


def _node(name: str, cpu: int, memory: int) -> Node:
    amounts = (CPU, cpu), (MEMORY, memory), (PODS, MOST_PODS)
    return Node(name, f"node/{name}", labels={HOSTNAME: name}, allocatable=amounts, capacity=amounts)


def _traced_pod(pod: RecordedPod, step: float, ends: float, labels: bool, ready_delay: float) -> TracedPod:
    begins, departure = pod.first * step, pod.end * step
    template = PodTemplate(
        _requests(pod.request, pod.limit),
        Recorded(pod.cpu, step, begins),
        Recorded(pod.memory, step, begins),
        labels={APP: pod.app} if labels and pod.app else {},
        ready_delay=ready_delay,
        grace_period=0.0,  # what was recorded after the end of the pod is nothing
    )
    arrival = begins, begins + ARRIVAL_SPAN * step
    return TracedPod(pod.name, template, arrival, departure if departure < ends else None, pod.app, node=pod.node)


@lru_cache(maxsize=4096)
def _requests(request: tuple[int, int], limit: tuple[int, int]) -> PodRequests:
    """One value for pods of equal size, of which a trace has many."""
    return pod_requests([ContainerRequests(_nanos(request), _nanos(limit))])


def _nanos(pair: tuple[int, int]) -> dict[str, int]:
    amounts = {CPU: pair[0] * (NANOS // 1000), MEMORY: pair[1] * NANOS}
    return {name: amount for name, amount in amounts.items() if amount}


def _service(app: str) -> Service:
    selector = label_map_selector({APP: app})
    return Service(name=app, uid=f"service/{NAMESPACE}/{app}", namespace=NAMESPACE, selector=selector)
