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

from trimtab.core.model.event import (
    BindDone,
    BindFailed,
    Event,
    Fault,
    LabelDone,
    LabelFailed,
    NodeSeen,
    PodGone,
    PodSeen,
    PreemptDone,
    RereadDone,
    SamplesRead,
)
from trimtab.core.model.instruction import (
    Bind,
    Instruction,
    LabelNode,
    MarkUnscheduled,
    Nominate,
    Preempt,
    Reread,
    Tell,
)
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.sample import Reading, Subject
from trimtab.sim.clock import Clock
from trimtab.sim.metering import Wants, readings
from trimtab.sim.workloads import MIB, Pattern, Workload

NAMESPACE = "demo"
WATCH_DELAY = 0.01
CALL_DELAY = (0.005, 0.05)  # seconds, shortest and longest
START_DELAY = (1.0, 4.0)
END_DELAY = (0.5, 3.0)
SYSTEM_USE = {CPU: 150.0, MEMORY: 600.0 * MIB}  # what a node uses with no pod on it


class World:
    """Objects by name (nodes) and UID (pods); every change gets the next resourceVersion and is reported.

    What people do draws from `script` and the delays from `chance`: so the same seed brings the same pods at the same
    times, whoever schedules them. Meters are read `lag` seconds before the scheduler hears of it.
    """

    def __init__(self, clock: Clock, chance: Random, report: Callable[[Event], None], lag: float = 0.0) -> None:
        self.clock, self.chance, self.lag = clock, chance, lag
        self.script = Random(chance.getrandbits(64))
        self._report = report
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.workloads: dict[str, Workload] = {}
        self.told: list[Tell] = []
        self.marked: list[LabelNode] = []
        self.outside: dict[tuple[str, str], Pattern] = {}  # shares of a node's resource that are used by no pod
        self.measured: dict[tuple[str, str], float] = {}  # the last reading by node and resource
        self._version = 0

    # --- what people do

    def put_node(self, node: Node) -> None:
        """Add the node, or change the one of this name."""
        self.nodes[node.name] = stored = replace(node, version=self._next_version())
        self.clock.after(WATCH_DELAY, lambda: self._report(NodeSeen(stored, self.clock.now)))

    def create(self, workload: Workload, scheduler: str) -> None:
        uid = str(UUID(int=self.script.getrandbits(128), version=4))
        self.workloads[uid] = workload
        self._put_pod(
            Pod(
                uid,
                NAMESPACE,
                workload.name,
                created=self.clock.now,
                scheduler=scheduler,
                demand=workload.demand,
            )
        )

    # --- what the scheduler asks for

    def perform(self, instruction: Instruction) -> None:
        match instruction:
            case Bind():
                self._after(CALL_DELAY, lambda: self._bind(instruction))
            case Reread(uid=uid):
                self._after(CALL_DELAY, lambda: self._report(RereadDone(uid, self.pods.get(uid), self.clock.now)))
            case MarkUnscheduled():
                self._after(CALL_DELAY, lambda: self._mark(instruction))
            case Nominate():
                self._after(CALL_DELAY, lambda: self._nominate(instruction))
            case Preempt():
                self._after(CALL_DELAY, lambda: self._preempt(instruction))
            case LabelNode(observe=False):
                self._after(CALL_DELAY, lambda: self._label(instruction))
            case Tell():
                self.told.append(instruction)

    def _bind(self, bind: Bind) -> None:
        pod = self.pods.get(bind.uid)
        now = self.clock.now
        if pod is None:
            self._report(BindFailed(bind.uid, bind.node, Fault.GONE, "pod not found", now))
        elif pod.node:
            message = f"pod {pod.name} is already assigned to node {pod.node}"
            self._report(BindFailed(bind.uid, bind.node, Fault.CONFLICT, message, now))
        else:
            self._put_pod(replace(pod, node=bind.node, unscheduled=None))
            self._after(START_DELAY, lambda: self._start(bind.uid))
            self._report(BindDone(bind.uid, bind.node, now))

    def _mark(self, mark: MarkUnscheduled) -> None:
        pod = self.pods.get(mark.uid)
        if pod is not None and not pod.node:
            self._put_pod(replace(pod, unscheduled=(mark.reason, mark.message)))

    def _nominate(self, nominate: Nominate) -> None:
        pod = self.pods.get(nominate.uid)
        if pod is not None and not pod.node:
            self._put_pod(replace(pod, nominated=nominate.node))

    def _preempt(self, preempt: Preempt) -> None:
        pod = self.pods.get(preempt.uid)
        if pod is not None and not pod.deleting:
            self._put_pod(replace(pod, deleting=True, preempted=True))
            self._after(END_DELAY, lambda: self._remove(preempt.uid))
        self._report(PreemptDone(preempt.uid, preempt.preemptor, self.clock.now))

    def _label(self, wish: LabelNode) -> None:
        """As the patches of `wire` would: by UID, and where taints are named only at the version that was seen."""
        node = self.nodes.get(wish.node)
        if node is None or node.uid != wish.uid:
            self._report(LabelFailed(wish.node, "node not found", self.clock.now))
        elif (wish.taint or wish.untaint) and node.version != wish.version:
            self._report(LabelFailed(wish.node, "the node has been changed meanwhile", self.clock.now))
        else:
            labels = {key: value for key, value in {**node.labels, **dict(wish.labels)}.items() if value is not None}
            gone = {place for place, _ in wish.untaint}
            kept = tuple(taint for place, taint in enumerate(node.taints) if place not in gone)
            self.put_node(replace(node, labels=labels, taints=(*kept, *wish.taint)))
            self.marked.append(wish)
            self._report(LabelDone(wish.node, self.clock.now))

    # --- what happens by itself

    def _start(self, uid: str) -> None:
        if uid in self.pods and not self.pods[uid].deleting:
            self._put_pod(replace(self.pods[uid], phase="Running", started=self.clock.now, ready=True))

    def _remove(self, uid: str) -> None:
        del self.pods[uid]
        version = self._next_version()
        self.clock.after(WATCH_DELAY, lambda: self._report(PodGone(uid, self.clock.now, version)))

    def wants(self) -> Wants:
        """What pods that run, and nodes with all that is on them, would use now if there were enough."""
        now = self.clock.now
        nodes = {name: dict(SYSTEM_USE) for name in self.nodes}
        for (name, resource), share in self.outside.items():
            nodes[name][resource] += share(now) * dict(self.nodes[name].allocatable)[resource]
        pods = {uid: self.workloads[uid].uses(now) for uid, pod in self.pods.items() if pod.phase == "Running"}
        for uid, uses in pods.items():
            for resource, amount in uses.items():
                nodes[self.pods[uid].node][resource] += amount
        return Wants(nodes, pods)

    def scrape(self) -> None:
        """Read every meter, of nodes and of pods."""
        found = readings(self.nodes, self.pods, self.wants(), self.clock.now)
        if self.lag:
            self.clock.after(self.lag, lambda: self._hear(found))
        else:
            self._hear(found)

    def _hear(self, found: tuple[Reading, ...]) -> None:
        of_nodes = [each for each in found if each.subject is Subject.NODES]
        self.measured |= {
            (name, each.resource): value
            for each in of_nodes
            for name, value in zip(each.names, each.values, strict=True)
        }
        self._report(SamplesRead(found, self.clock.now))

    def _put_pod(self, pod: Pod) -> None:
        self.pods[pod.uid] = stored = replace(pod, version=self._next_version())
        self.clock.after(WATCH_DELAY, lambda: self._report(PodSeen(stored, self.clock.now)))

    def _next_version(self) -> int:
        self._version += 1
        return self._version

    def _after(self, delay: tuple[float, float], act: Callable[[], None]) -> None:
        self.clock.after(self.chance.uniform(*delay), act)
