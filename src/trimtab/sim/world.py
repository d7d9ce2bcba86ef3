"""The simulated cluster: an API server with kubelets on a virtual clock.

It stores objects, performs instructions and emits events about what changed. Like a real API server it binds any pending pod
to any node. The lifecycle of a pod:

    create ─▶ Pending ──Bind, after a delay──▶ bound ──start delay──▶ Running (uses CPU and memory from here on)
                                                 └───────── Preempt ─────┴──▶ terminating ──grace──▶ deleted
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random
from uuid import UUID

from msgspec.structs import replace

from trimtab.core.model.events import (
    BindDone,
    BindFailed,
    BindFailure,
    Event,
    GetPodDone,
    LabelDone,
    LabelFailed,
    NodeUpserted,
    PodDeleted,
    PodUpserted,
    PreemptDone,
    SamplesRead,
)
from trimtab.core.model.instructions import (
    Bind,
    BindVolume,
    EmitEvent,
    GetPod,
    Instruction,
    LabelNode,
    Nominate,
    Preempt,
    SelectNode,
    SetUnschedulable,
)
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.core.model.readings import Reading, Subject
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.sim.workloads import MIB, UsagePattern, WantedUsage, Workload, sample

NAMESPACE = "demo"
WATCH_DELAY = 0.01
CALL_DELAY = (0.005, 0.05)  # seconds, shortest and longest
START_DELAY = (1.0, 4.0)
TERMINATION_DELAY = (0.5, 3.0)
SYSTEM_USAGE = {CPU: 150.0, MEMORY: 600.0 * MIB}  # of a node without pods

Callback = Callable[[], None]


class VirtualClock:
    """Time that advances only by `step`; callbacks due at the same time run in the order in which they were scheduled."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self._due: list[tuple[float, int, Callback]] = []
        self._sequence = 0

    def call_later(self, seconds: float, callback: Callback) -> None:
        self._sequence += 1
        heapq.heappush(self._due, (self.now + seconds, self._sequence, callback))

    def call_every(self, seconds: float, callback: Callback) -> None:
        """Repeatedly, for the first time after one interval."""

        def repeat() -> None:
            callback()
            self.call_later(seconds, repeat)

        self.call_later(seconds, repeat)

    def step(self, limit: float) -> bool:
        """Run the next callback due by `limit`; without one, advance to `limit` and return False."""
        if not self._due or self._due[0][0] > limit:
            self.now = max(self.now, limit)
            return False
        self.now, _, callback = heapq.heappop(self._due)
        callback()
        return True


class World:
    """Nodes by name and pods by UID; every change gets the next resourceVersion and is emitted.

    What users do draws from `script_rng` and delays from `rng`, so that one seed gives the same pods at the same times under
    any scheduler. Metrics are delivered `metrics_lag` seconds after they were sampled.
    """

    def __init__(
        self, clock: VirtualClock, rng: Random, emit: Callable[[Event], None], metrics_lag: float = 0.0
    ) -> None:
        self.clock, self.rng, self.metrics_lag = clock, rng, metrics_lag
        self.script_rng = Random(rng.getrandbits(64))
        self._emit = emit
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.workloads: dict[str, Workload] = {}
        self.kube_events: list[EmitEvent] = []
        self.label_patches: list[LabelNode] = []
        # By node and resource: the fraction that is used outside of pods, and the value of the last sample.
        self.external_load: dict[tuple[str, str], UsagePattern] = {}
        self.last_samples: dict[tuple[str, str], float] = {}
        self._version = 0

    # --- what users do

    def put_node(self, node: Node) -> None:
        """Create or update the node."""
        self.nodes[node.name] = stored = replace(node, version=self._next_version())
        self.clock.call_later(WATCH_DELAY, lambda: self._emit(NodeUpserted(stored, self.clock.now)))

    def create_pod(self, workload: Workload, scheduler: str) -> None:
        uid = str(UUID(int=self.script_rng.getrandbits(128), version=4))
        self.workloads[uid] = workload
        self._put_pod(
            Pod(
                uid,
                NAMESPACE,
                workload.name,
                created=self.clock.now,
                scheduler_name=scheduler,
                requests=workload.requests,
            )
        )

    # --- what the scheduler requests

    def perform(self, instruction: Instruction) -> None:
        match instruction:
            case Bind():
                self._after(CALL_DELAY, lambda: self._bind(instruction))
            case GetPod(uid=uid):
                self._after(CALL_DELAY, lambda: self._emit(GetPodDone(uid, self.pods.get(uid), self.clock.now)))
            case SetUnschedulable():
                self._after(CALL_DELAY, lambda: self._set_unschedulable(instruction))
            case Nominate():
                self._after(CALL_DELAY, lambda: self._nominate(instruction))
            case Preempt():
                self._after(CALL_DELAY, lambda: self._preempt(instruction))
            case LabelNode(observe_only=False):
                self._after(CALL_DELAY, lambda: self._label(instruction))
            case EmitEvent():
                self.kube_events.append(instruction)
            case BindVolume() | SelectNode():
                raise NotImplementedError("the simulated cluster has no volumes")

    def _bind(self, bind: Bind) -> None:
        pod = self.pods.get(bind.uid)
        now = self.clock.now
        if pod is None:
            self._emit(BindFailed(bind.uid, bind.node, BindFailure.GONE, "pod not found", now))
        elif pod.node:
            message = f"pod {pod.name} is already assigned to node {pod.node}"
            self._emit(BindFailed(bind.uid, bind.node, BindFailure.CONFLICT, message, now))
        else:
            self._put_pod(replace(pod, node=bind.node, unschedulable_condition=None))
            self._after(START_DELAY, lambda: self._start(bind.uid))
            self._emit(BindDone(bind.uid, bind.node, now))

    def _set_unschedulable(self, instruction: SetUnschedulable) -> None:
        pod = self.pods.get(instruction.uid)
        if pod is not None and not pod.node:
            self._put_pod(replace(pod, unschedulable_condition=(instruction.reason, instruction.message)))

    def _nominate(self, nominate: Nominate) -> None:
        pod = self.pods.get(nominate.uid)
        if pod is not None and not pod.node:
            self._put_pod(replace(pod, nominated_node=nominate.node))

    def _preempt(self, preempt: Preempt) -> None:
        pod = self.pods.get(preempt.uid)
        if pod is not None and not pod.terminating:
            self._put_pod(replace(pod, terminating=True, preempted=True))
            self._after(TERMINATION_DELAY, lambda: self._remove(preempt.uid))
        self._emit(PreemptDone(preempt.uid, preempt.preemptor, self.clock.now))

    def _label(self, patch: LabelNode) -> None:
        """Like the real patch: conditional on the UID and, if it changes taints, on the resourceVersion."""
        node = self.nodes.get(patch.node)
        if node is None or node.uid != patch.uid:
            self._emit(LabelFailed(patch.node, "node not found", self.clock.now))
        elif (patch.add_taints or patch.remove_taints) and node.version != patch.version:
            self._emit(LabelFailed(patch.node, "the node has been modified", self.clock.now))
        else:
            labels = {key: value for key, value in {**node.labels, **dict(patch.labels)}.items() if value is not None}
            removed = {index for index, _ in patch.remove_taints}
            kept = tuple(taint for index, taint in enumerate(node.taints) if index not in removed)
            self.put_node(replace(node, labels=labels, taints=(*kept, *patch.add_taints)))
            self.label_patches.append(patch)
            self._emit(LabelDone(patch.node, self.clock.now))

    # --- what kubelets and metrics do

    def _start(self, uid: str) -> None:
        if uid in self.pods and not self.pods[uid].terminating:
            self._put_pod(replace(self.pods[uid], phase="Running", started=self.clock.now, ready=True))

    def _remove(self, uid: str) -> None:
        del self.pods[uid]
        version = self._next_version()
        self.clock.call_later(WATCH_DELAY, lambda: self._emit(PodDeleted(uid, self.clock.now, version)))

    def wanted_usage(self) -> WantedUsage:
        """What running pods, and nodes as a whole, would use now with unlimited capacity."""
        now = self.clock.now
        nodes = {name: dict(SYSTEM_USAGE) for name in self.nodes}
        for (name, resource), fraction in self.external_load.items():
            nodes[name][resource] += fraction(now) * dict(self.nodes[name].allocatable)[resource]
        pods = {uid: self.workloads[uid].usage(now) for uid, pod in self.pods.items() if pod.phase == "Running"}
        for uid, usage in pods.items():
            for resource, amount in usage.items():
                nodes[self.pods[uid].node][resource] += amount
        return WantedUsage(nodes, pods)

    def scrape(self) -> None:
        """Sample all nodes and pods."""
        readings = sample(self.nodes, self.pods, self.wanted_usage(), self.clock.now)
        if self.metrics_lag:
            self.clock.call_later(self.metrics_lag, lambda: self._deliver(readings))
        else:
            self._deliver(readings)

    def _deliver(self, readings: tuple[Reading, ...]) -> None:
        self.last_samples |= {
            (name, reading.resource): value
            for reading in readings
            if reading.subject is Subject.NODES
            for name, value in zip(reading.names, reading.values, strict=True)
        }
        self._emit(SamplesRead(readings, self.clock.now))

    def _put_pod(self, pod: Pod) -> None:
        self.pods[pod.uid] = stored = replace(pod, version=self._next_version())
        self.clock.call_later(WATCH_DELAY, lambda: self._emit(PodUpserted(stored, self.clock.now)))

    def _next_version(self) -> int:
        self._version += 1
        return self._version

    def _after(self, delay: tuple[float, float], callback: Callback) -> None:
        self.clock.call_later(self.rng.uniform(*delay), callback)
