"""The simulated cluster: an API server on a virtual clock.

It stores objects, performs instructions and emits events about what changed. Like a real API server it binds any pending pod
to any node. The lifecycle of a pod:

    create ─▶ Pending ──Bind, after a delay──▶ bound ──start delay──▶ Running ──lifetime──▶ Succeeded
                                                 │                       │
                                                 └───────────────────────┴─ delete, Preempt, evict ─▶ terminating ─▶ removed

Kubelets run the pods (`kubelets.py`), which use CPU and memory meanwhile (`usage.py`). Who creates pods is in `owners.py`,
what happens to nodes in `node_lifecycle.py`, and how usage becomes samples in `scrapes.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

from msgspec.structs import replace

from trimtab.core.model.events import (
    BindDone,
    BindFailed,
    BindFailure,
    Event,
    GetPodDone,
    LabelDone,
    LabelFailed,
    NodeDeleted,
    NodeUpserted,
    ObjectDeleted,
    ObjectUpserted,
    PodDeleted,
    PodUpserted,
    PreemptDone,
    StageAnswered,
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
from trimtab.core.model.objects import Object
from trimtab.core.model.pod import Owner, Pod
from trimtab.sim.clock import Callback, VirtualClock
from trimtab.sim.pod_life import PodLife
from trimtab.sim.randomness import uid_of, uniform
from trimtab.sim.scenario import NAMESPACE, PodTemplate, SimulatedNode
from trimtab.sim.usage import StepUsage, UsageTable
from trimtab.sim.volumes import bind_volume, provision_volume

WATCH_DELAY = 0.01
CALL_DELAY = (0.005, 0.05)  # seconds, shortest and longest
TERMINATION_DELAY = (0.5, 3.0)

PodListener = Callable[[Pod | None, Pod | None], None]  # the pod before and after


class World:
    """Nodes by name and pods by UID; every change gets the next resourceVersion and is emitted.

    Listeners hear of changes before they are emitted: of any pod, of nodes, and of each step of usage. schedulers: the
    names that the policy schedules for; a pod that names another one gets the first.
    """

    def __init__(
        self,
        clock: VirtualClock,
        seed: int,
        emit: Callable[[Event], None],
        usage: UsageTable,
        schedulers: Sequence[str],
    ) -> None:
        self.clock, self.seed, self.usage, self.schedulers = clock, seed, usage, schedulers
        self._emit, self._rng = emit, Random(seed)
        self.nodes: dict[str, SimulatedNode] = {}
        self.pods: dict[str, Pod] = {}
        self.objects: dict[tuple[str, str], Object] = {}
        self.templates: dict[str, PodTemplate] = {}
        self.lives: dict[str, PodLife] = {}
        self.silent_nodes: dict[str, float] = {}  # those whose kubelet has failed, and when
        self.kube_events: list[EmitEvent] = []
        self.label_patches: list[LabelNode] = []
        self.pod_listeners: list[PodListener] = []
        self.node_listeners: list[Callback] = []
        self.step_listeners: list[Callable[[StepUsage], None]] = []
        self.pending: dict[str, Pod] = {}
        self._watchers: dict[str, PodListener] = {}
        self._incarnations: Counter[str] = Counter()
        self._version = 0
        self._steps = 0
        clock.call_every(usage.step_seconds, self._step)

    # --- what users and controllers do

    def put_node(self, simulated: SimulatedNode) -> None:
        """Create or update the node."""
        node = replace(simulated.node, version=self._next_version())
        self.nodes[node.name] = stored = replace(simulated, node=node)
        self.usage.put_node(stored, present=self.works(node.name))
        self.clock.call_later(WATCH_DELAY, lambda: self._emit(NodeUpserted(node, self.clock.now)))
        for listener in self.node_listeners:
            listener()

    def delete_node(self, name: str) -> None:
        """Delete the node and, as the pod garbage collector does, its pods."""
        simulated = self.nodes.pop(name)
        self.silent_nodes.pop(name, None)
        self.usage.put_node(simulated, present=False)
        version, uid = self._next_version(), simulated.node.uid
        self.clock.call_later(WATCH_DELAY, lambda: self._emit(NodeDeleted(name, self.clock.now, uid, version)))
        for pod in [pod for pod in self.pods.values() if pod.node == name]:
            self.remove_pod(pod.uid, "node removed")
        for listener in self.node_listeners:
            listener()

    def works(self, name: str) -> bool:
        """Whether there is a node of this name with a kubelet that has not failed."""
        return name in self.nodes and name not in self.silent_nodes

    def put_object(self, each: Object) -> None:
        stored = replace(each, version=self._next_version())
        self.objects[each.kind, each.key] = stored
        self.clock.call_later(WATCH_DELAY, lambda: self._emit(ObjectUpserted(stored, self.clock.now)))

    def delete_object(self, each: Object) -> None:
        del self.objects[each.kind, each.key]
        deleted, version = each, self._next_version()
        self.clock.call_later(
            WATCH_DELAY,
            lambda: self._emit(ObjectDeleted(deleted.kind, deleted.key, self.clock.now, deleted.uid, version)),
        )

    def create_pod(
        self,
        name: str,
        template: PodTemplate,
        namespace: str = NAMESPACE,
        owner: Owner | None = None,
        node: str = "",
        watcher: PodListener | None = None,
        uid: str = "",
    ) -> str:
        """Create a pod and return its UID; with a `node` it runs there from the start. `watcher` hears of its changes."""
        self._incarnations[f"{namespace}/{name}"] += 1  # a StatefulSet's pod comes back under its name
        uid = uid or uid_of(self.seed, namespace, name, self._incarnations[f"{namespace}/{name}"])
        known = template.scheduler_name in self.schedulers
        scheduler = template.scheduler_name if known else self.schedulers[0]
        self.templates[uid] = template
        if watcher is not None:
            self._watchers[uid] = watcher
        now = self.clock.now
        self.lives[uid] = PodLife(f"{namespace}/{name}", now, scheduler, now if node else None, node)
        self.put_pod(
            Pod(
                uid,
                namespace,
                name,
                labels=template.labels,
                owner=owner,
                created=now,
                node=node,
                scheduler_name=scheduler,
                priority=template.priority,
                may_preempt=template.may_preempt,
                spec=template.spec,
                requests=template.requests,
            )
        )
        return uid

    def watcher_of(self, uid: str) -> PodListener | None:
        return self._watchers.get(uid)

    def delete_pod(self, uid: str, why: str = "deleted") -> None:
        """Gracefully: a running pod terminates within its grace period."""
        pod = self.pods.get(uid)
        if pod is None or pod.terminating:
            return
        if not pod.node or pod.finished:
            self.remove_pod(uid, why)
            return
        self.lives[uid].leave(why, self.clock.now)
        self.put_pod(replace(pod, terminating=True, ready=False))
        delay = min(uniform(*TERMINATION_DELAY, self.seed, "terminate", pod.key), self.templates[uid].grace_period)
        self.clock.call_later(delay, lambda: self.remove_pod(uid, why))

    def remove_pod(self, uid: str, why: str) -> None:
        """At once, as a forced deletion."""
        pod = self.pods.pop(uid, None)
        if pod is None:
            return
        self.usage.stop(uid)
        self._count_requests(pod, None)
        self.pending.pop(uid, None)
        life = self.lives[uid]
        life.removed = self.clock.now
        life.leave(why, self.clock.now)
        version = self._next_version()
        self._tell(pod, None)
        self._watchers.pop(uid, None)
        self.clock.call_later(WATCH_DELAY, lambda: self._emit(PodDeleted(uid, self.clock.now, version)))

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
            case BindVolume():
                self._after(
                    CALL_DELAY, lambda: self._bind_volume(instruction.uid, bind_volume(self.objects, instruction))
                )
            case SelectNode():
                self._after(
                    CALL_DELAY, lambda: self._bind_volume(instruction.uid, provision_volume(self.objects, instruction))
                )

    def _bind(self, bind: Bind) -> None:
        pod = self.pods.get(bind.uid)
        now = self.clock.now
        if pod is None:
            self._emit(BindFailed(bind.uid, bind.node, BindFailure.GONE, "pod not found", now))
        elif pod.node:
            message = f"pod {pod.name} is already assigned to node {pod.node}"
            self._emit(BindFailed(bind.uid, bind.node, BindFailure.CONFLICT, message, now))
        else:
            life = self.lives[bind.uid]
            life.bound, life.node = now, bind.node
            self.put_pod(replace(pod, node=bind.node, unschedulable_condition=None))
            self._emit(BindDone(bind.uid, bind.node, now))

    def _set_unschedulable(self, instruction: SetUnschedulable) -> None:
        pod = self.pods.get(instruction.uid)
        if pod is not None and not pod.node:
            self.put_pod(replace(pod, unschedulable_condition=(instruction.reason, instruction.message)))

    def _nominate(self, nominate: Nominate) -> None:
        pod = self.pods.get(nominate.uid)
        if pod is not None and not pod.node:
            self.put_pod(replace(pod, nominated_node=nominate.node))

    def _preempt(self, preempt: Preempt) -> None:
        pod = self.pods.get(preempt.uid)
        if pod is not None and not pod.terminating:
            self.put_pod(replace(pod, preempted=True))
            self.delete_pod(preempt.uid, "preempted")
        self._emit(PreemptDone(preempt.uid, preempt.preemptor, self.clock.now))

    def _label(self, patch: LabelNode) -> None:
        """Like the real patch: conditional on the UID and, if it changes taints, on the resourceVersion."""
        simulated = self.nodes.get(patch.node)
        if simulated is None or simulated.node.uid != patch.uid:
            self._emit(LabelFailed(patch.node, "node not found", self.clock.now))
            return
        node = simulated.node
        if (patch.add_taints or patch.remove_taints) and node.version != patch.version:
            self._emit(LabelFailed(patch.node, "the node has been modified", self.clock.now))
            return
        labels = {key: value for key, value in {**node.labels, **dict(patch.labels)}.items() if value is not None}
        removed = {index for index, _ in patch.remove_taints}
        kept = tuple(taint for index, taint in enumerate(node.taints) if index not in removed)
        self.put_node(replace(simulated, node=replace(node, labels=labels, taints=(*kept, *patch.add_taints))))
        self.label_patches.append(patch)
        self._emit(LabelDone(patch.node, self.clock.now))

    def _bind_volume(self, uid: str, bound: tuple[Object, ...] | str) -> None:
        error = bound if isinstance(bound, str) else ""
        for each in () if isinstance(bound, str) else bound:
            self.put_object(each)
        self._emit(StageAnswered(uid, self.clock.now, error))

    def _step(self) -> None:
        usage = self.usage.step(self._steps)
        self._steps += 1
        for listener in self.step_listeners:
            listener(usage)

    # --- storing and telling

    def put_pod(self, pod: Pod) -> None:
        """Store the pod and tell everybody."""
        before = self.pods.get(pod.uid)
        self.pods[pod.uid] = stored = replace(pod, version=self._next_version())
        if pod.pending:
            self.pending[pod.uid] = stored
        else:
            self.pending.pop(pod.uid, None)
        self._count_requests(before, stored)
        if before is not None and before.ready != pod.ready and not pod.terminating and not pod.finished:
            self.lives[pod.uid].note_readiness(pod.ready, self.clock.now)
        self._tell(before, stored)
        self.clock.call_later(WATCH_DELAY, lambda: self._emit(PodUpserted(stored, self.clock.now)))

    def _count_requests(self, before: Pod | None, after: Pod | None) -> None:
        held, holds = before is not None and before.holds_resources, after is not None and after.holds_resources
        pod = after or before
        if held != holds and pod is not None:
            self.usage.request(pod.node, self.templates[pod.uid], 1 if holds else -1)

    def _tell(self, before: Pod | None, after: Pod | None) -> None:
        pod = after or before
        watcher = self._watchers.get(pod.uid) if pod is not None else None
        if watcher is not None:
            watcher(before, after)
        for listener in self.pod_listeners:
            listener(before, after)

    def _next_version(self) -> int:
        self._version += 1
        return self._version

    def _after(self, delay: tuple[float, float], callback: Callback) -> None:
        self.clock.call_later(self._rng.uniform(*delay), callback)
