"""The pretended API server with its kubelets: keeps the objects, does what the scheduler asks, and reports what changed.

It judges no placement: like the real one it binds any pending pod to any node. A pod's way through it:

    create ─▶ Pending ──Bind, after a delay──▶ bound ──start delay──▶ Running (uses CPU and memory from here on)
                                                 └───────── Preempt ─────┴──▶ leaving ──grace──▶ gone
"""

from __future__ import annotations

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
    EmitEvent,
    GetPod,
    Instruction,
    LabelNode,
    Nominate,
    Preempt,
    SetUnschedulable,
)
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.core.model.readings import Reading, Subject
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.sim.clock import VirtualClock
from trimtab.sim.metrics import WantedUsage, readings
from trimtab.sim.workloads import MIB, UsagePattern, Workload

NAMESPACE = "demo"
WATCH_DELAY = 0.01
CALL_DELAY = (0.005, 0.05)  # seconds, shortest and longest
START_DELAY = (1.0, 4.0)
TERMINATION_DELAY = (0.5, 3.0)
SYSTEM_USAGE = {CPU: 150.0, MEMORY: 600.0 * MIB}  # what a node uses with no pod on it


class World:
    """Objects by name (nodes) and UID (pods); every change gets the next resourceVersion and is reported.

    What people do draws from `script` and the delays from `chance`: so the same seed brings the same pods at the same
    times, whoever schedules them. Meters are read `lag` seconds before the scheduler hears of it.
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
        self.external_load: dict[
            tuple[str, str], UsagePattern
        ] = {}  # shares of a node's resource that are used by no pod
        self.last_samples: dict[tuple[str, str], float] = {}  # the last reading by node and resource
        self._version = 0

    # --- what people do

    def put_node(self, node: Node) -> None:
        """Add the node, or change the one of this name."""
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

    # --- what the scheduler asks for

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
        """As the patches of `wire` would: by UID, and where taints are named only at the version that was seen."""
        node = self.nodes.get(patch.node)
        if node is None or node.uid != patch.uid:
            self._emit(LabelFailed(patch.node, "node not found", self.clock.now))
        elif (patch.add_taints or patch.remove_taints) and node.version != patch.version:
            self._emit(LabelFailed(patch.node, "the node has been changed meanwhile", self.clock.now))
        else:
            labels = {key: value for key, value in {**node.labels, **dict(patch.labels)}.items() if value is not None}
            gone = {place for place, _ in patch.remove_taints}
            kept = tuple(taint for place, taint in enumerate(node.taints) if place not in gone)
            self.put_node(replace(node, labels=labels, taints=(*kept, *patch.add_taints)))
            self.label_patches.append(patch)
            self._emit(LabelDone(patch.node, self.clock.now))

    # --- what happens by itself

    def _start(self, uid: str) -> None:
        if uid in self.pods and not self.pods[uid].terminating:
            self._put_pod(replace(self.pods[uid], phase="Running", started=self.clock.now, ready=True))

    def _remove(self, uid: str) -> None:
        del self.pods[uid]
        version = self._next_version()
        self.clock.call_later(WATCH_DELAY, lambda: self._emit(PodDeleted(uid, self.clock.now, version)))

    def wanted_usage(self) -> WantedUsage:
        """What pods that run, and nodes with all that is on them, would use now if there were enough."""
        now = self.clock.now
        nodes = {name: dict(SYSTEM_USAGE) for name in self.nodes}
        for (name, resource), share in self.external_load.items():
            nodes[name][resource] += share(now) * dict(self.nodes[name].allocatable)[resource]
        pods = {uid: self.workloads[uid].usage(now) for uid, pod in self.pods.items() if pod.phase == "Running"}
        for uid, uses in pods.items():
            for resource, amount in uses.items():
                nodes[self.pods[uid].node][resource] += amount
        return WantedUsage(nodes, pods)

    def scrape(self) -> None:
        """Read every meter, of nodes and of pods."""
        found = readings(self.nodes, self.pods, self.wanted_usage(), self.clock.now)
        if self.metrics_lag:
            self.clock.call_later(self.metrics_lag, lambda: self._deliver(found))
        else:
            self._deliver(found)

    def _deliver(self, readings: tuple[Reading, ...]) -> None:
        of_nodes = [each for each in readings if each.subject is Subject.NODES]
        self.last_samples |= {
            (name, each.resource): value
            for each in of_nodes
            for name, value in zip(each.names, each.values, strict=True)
        }
        self._emit(SamplesRead(readings, self.clock.now))

    def _put_pod(self, pod: Pod) -> None:
        self.pods[pod.uid] = stored = replace(pod, version=self._next_version())
        self.clock.call_later(WATCH_DELAY, lambda: self._emit(PodUpserted(stored, self.clock.now)))

    def _next_version(self) -> int:
        self._version += 1
        return self._version

    def _after(self, delay: tuple[float, float], callback: Callable[[], None]) -> None:
        self.clock.call_later(self.rng.uniform(*delay), callback)
