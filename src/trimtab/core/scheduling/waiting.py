"""How long a pod waited for a node and why: the steps of its way through the queue, in words."""

from __future__ import annotations

from msgspec import Struct

from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.scheduling.queue.queue import SchedulingQueue
from trimtab.core.scheduling.queue.queued_pod import QueuedPod, QueueStep

LEFT = "left"
# What a change is called in an explanation.
_NAMES = {
    Change.NODE_ADDED: "a node was added",
    Change.NODE_DELETED: "a node was deleted",
    Change.ALLOCATABLE: "a node's allocatable changed",
    Change.LABELS: "a node's labels changed",
    Change.TAINTS: "a node's taints changed",
    Change.IMAGES: "a node's images changed",
    Change.POD_ADDED: "a pod was placed",
    Change.POD_DELETED: "a pod was deleted",
    Change.POD_UPDATED: "a running pod changed",
    Change.LOAD: "measured load changed",
    Change.OWN_POD_UPDATED: "the pod was updated",
    Change.NOMINATED: "a nomination changed",
    Change.PLUGIN_STATE: "a reservation changed",
    Change.NAMESPACES: "a namespace changed",
    Change.SELECTORS: "a Service or a controller changed",
    Change.STORAGE: "storage changed",
    Change.DISRUPTION_BUDGETS: "a PodDisruptionBudget changed",
    Change.POD_GROUPS: "a PodGroup changed",
}


class WaitingStep(Struct, frozen=True):
    """From this moment on the pod was in this queue (`left`: in none), because of this."""

    at: float
    queue: str
    cause: str


class Waiting(Struct, frozen=True):
    """Since when the pod was queued, until when (None: it still is), its attempts, and the first and newest steps."""

    since: float
    until: float | None
    attempts: int
    steps: tuple[WaitingStep, ...]


def waiting_of(queue: SchedulingQueue, uid: str, pod: Pod | None) -> Waiting | None:
    """How the pod waited; None if it was never queued here, or long ago. `pod`: as it is now, None if it is deleted."""
    entry = queue.pods.get(uid)
    if entry is not None:
        return _waiting(entry)
    finished = queue.finished.get(uid)
    return _waiting(finished, _why_left(pod)) if finished is not None else None


def _why_left(pod: Pod | None) -> str:
    if pod is not None and pod.node:
        return f"it was bound to {pod.node}"
    return "it was deleted" if pod is None or pod.terminating else "it is no longer ours to schedule"


def _waiting(entry: QueuedPod, why_left: str = "") -> Waiting:
    steps = [_step(each) for each in entry.history]
    until = entry.history[-1].at if why_left else None
    if until is not None:
        steps[-1] = WaitingStep(until, LEFT, why_left)
    return Waiting(entry.since, until, entry.attempts, tuple(steps))


def _step(step: QueueStep) -> WaitingStep:
    return WaitingStep(step.at, str(step.queue), step.cause if isinstance(step.cause, str) else _names(step.cause))


def _names(change: Change) -> str:
    return ", ".join(text for flag, text in _NAMES.items() if flag in change) or "something changed"
