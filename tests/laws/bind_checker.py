"""Checks from the events alone, in plain integers, whether a bind was allowed; shares no code with the product."""

from __future__ import annotations

from dataclasses import dataclass, field

from trimtab.core.model.events import (
    BindDone,
    BindFailed,
    BindFailure,
    Event,
    GetPodDone,
    GetPodFailed,
    LeaseAcquired,
    LeaseLost,
    NodeDeleted,
    NodeUpserted,
    PodDeleted,
    PodUpserted,
    Synced,
)
from trimtab.core.model.instructions import Bind, GetPod
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod

ENDED = ("Succeeded", "Failed")


@dataclass
class Sent:
    """A bind of ours as far as events tell: unanswered, lost (as of event number `lost`), or accepted."""

    pod: Pod
    node: str
    answered: bool = False
    lost: int | None = None


@dataclass
class BindChecker:
    """Pods, nodes and binds as delivered so far."""

    ours: str = "trimtab"
    number: int = 0
    leading: bool = False
    synced: set[str] = field(default_factory=set)
    pods: dict[str, Pod] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    dead: set[str] = field(default_factory=set)
    sent: dict[str, Sent] = field(default_factory=dict)
    reads: dict[str, list[int]] = field(default_factory=dict)

    # --- what is news

    def is_news(self, event: Event) -> bool:
        match event:
            case PodUpserted(pod=pod):
                return pod.uid not in self.dead and (
                    pod.uid not in self.pods or pod.version > self.pods[pod.uid].version
                )
            case PodDeleted(uid=uid):
                return uid not in self.dead
            case NodeUpserted(node=node):
                held = self.nodes.get(node.name)
                return node.uid not in self.dead and (held is None or node.version > held.version)
            case NodeDeleted(name=name, uid=uid):
                return uid not in self.dead and name in self.nodes and self.nodes[name].uid == uid
        return True

    def observe(self, event: Event) -> None:
        self.number += 1
        match event:
            case PodUpserted() | PodDeleted() | NodeUpserted() | NodeDeleted():
                self._observe_object(event)
            case Synced(kind=kind):
                self.synced.add(kind)
            case LeaseAcquired():
                self.leading = True
            case LeaseLost():
                self.leading = False
            case BindDone(uid=uid) if uid in self.sent:
                self.sent[uid].answered, self.sent[uid].lost = True, None
            case BindFailed(uid=uid, reason=fault) if uid in self.sent:
                self._failed(uid, fault)
            case GetPodFailed(uid=uid):
                self.reads.get(uid, [0]).pop(0)
            case GetPodDone(uid=uid, pod=pod):
                self._read(uid, pod, event.at)

    def _observe_object(self, event: PodUpserted | PodDeleted | NodeUpserted | NodeDeleted) -> None:
        news = self.is_news(event)
        match event:
            case PodUpserted(pod=pod) if news:
                self.pods[pod.uid] = pod
                if pod.node or pod.phase in ENDED:
                    self.sent.pop(pod.uid, None)
            case PodDeleted(uid=uid):
                self._delete(uid)
            case NodeUpserted(node=node) if news:
                if node.name in self.nodes and self.nodes[node.name].uid != node.uid:
                    self.dead.add(self.nodes[node.name].uid)
                self.nodes[node.name] = node
            case NodeDeleted(name=name, uid=uid) if news:
                self.dead.add(uid)
                del self.nodes[name]

    def _delete(self, uid: str) -> None:
        self.dead.add(uid)
        self.pods.pop(uid, None)
        self.sent.pop(uid, None)

    def _failed(self, uid: str, fault: BindFailure) -> None:
        if fault in (BindFailure.UNKNOWN, BindFailure.CONFLICT):
            self.sent[uid].answered, self.sent[uid].lost = True, self.number
        elif fault is BindFailure.GONE:
            self._delete(uid)
        else:
            del self.sent[uid]

    def _read(self, uid: str, pod: Pod | None, at: float) -> None:
        asked = self.reads.get(uid, [0]).pop(0)
        if pod is None:
            self._delete(uid)
            return
        self._observe_object(PodUpserted(pod, at))
        sent = self.sent.get(uid)
        if sent is not None and not pod.node and sent.lost is not None and asked >= sent.lost:
            del self.sent[uid]

    def note_read(self, reread: GetPod) -> None:
        self.reads.setdefault(reread.uid, []).append(self.number)

    # --- what a bind may do

    def violations(self, bind: Bind) -> list[str]:
        """Why this bind should not have been sent; empty if it was allowed."""
        pod, node = self.pods.get(bind.uid), self.nodes.get(bind.node)
        if pod is None or node is None:
            return [f"{bind}: no such pod or node"]
        if bind.uid in self.sent:
            return [f"{bind}: a bind for this pod is under way already"]
        found = [
            *self._of_ourselves(pod),
            *self._of_the_pod(pod),
            *unmet_requirements(pod, node, self.pods_on(bind.node)),
        ]
        self.sent[bind.uid] = Sent(pod, bind.node)
        return [f"{bind}: {each}" for each in found]

    def pods_on(self, node: str) -> list[Pod]:
        """Pods that count against the node: those seen there, and those we have sent there."""
        seen = [pod for pod in self.pods.values() if pod.node == node and pod.phase not in ENDED]
        return seen + [sent.pod for sent in self.sent.values() if sent.node == node]

    def _of_ourselves(self, pod: Pod) -> list[str]:
        return [] if self.leading and {"pods", "nodes"} <= self.synced else ["decided without leave"]

    def _of_the_pod(self, pod: Pod) -> list[str]:
        bad = (
            pod.node or pod.terminating or pod.scheduling_gates or pod.phase in ENDED or pod.scheduler_name != self.ours
        )
        return [f"the pod must not be bound: {pod}"] if bad else []


def unmet_requirements(pod: Pod, node: Node, standing: list[Pod]) -> list[str]:
    """Everything that speaks against one more pod on the node."""
    found = [f"{node.name} has taint {taint}" for taint in node.taints if not pod.spec.tolerations]
    if node.unschedulable:
        found.append(f"{node.name} is cordoned")
    room = dict(node.allocatable)
    everybody = [*standing, pod]
    if len(everybody) > room.get("pods", 0):
        found.append(f"{node.name} takes {room.get('pods', 0)} pods, not {len(everybody)}")
    for resource, wish in pod.requests.amounts:
        total = sum(dict(each.requests.amounts).get(resource, 0) for each in everybody)
        if wish > 0 and total > room.get(resource, 0):
            found.append(f"{resource} of {node.name}: {total} asked, {room.get(resource, 0)} there")
    taken = {port for each in standing for port in each.spec.ports}
    return found + [f"port {port} of {node.name} is taken" for port in pod.spec.ports if port in taken]
