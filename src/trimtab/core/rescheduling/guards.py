"""Guards: the reasons not to move a pod. Each is a function that returns its reason, or an empty text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from trimtab.core.cluster.cluster import Cluster
from trimtab.core.model.objects import PodDisruptionBudget
from trimtab.core.model.plan import Refusal
from trimtab.core.model.pod import Pod
from trimtab.core.rescheduling.settings import ReschedulingSettings

NODE_BOUND = ("DaemonSet", "Node")  # owners of pods that belong to their node; "Node" owns static pods
OwnerSlot = tuple[str, str, str]  # namespace, the owner's UID, and the name of a StatefulSet's pod


@dataclass(frozen=True, slots=True)
class GuardContext:
    """What guards may look at. `holds` are the owners' pods that must not be moved again before that time."""

    cluster: Cluster
    settings: ReschedulingSettings
    now: float
    holds: Mapping[OwnerSlot, float] = field(default_factory=dict)


Guard = Callable[[GuardContext, Pod], str]


def owner_slot(pod: Pod) -> OwnerSlot:
    """What stays the same when a pod is replaced."""
    if pod.owner is None:
        return pod.namespace, "", pod.name
    return pod.namespace, pod.owner.uid, pod.name if pod.owner.kind == "StatefulSet" else ""


def running(context: GuardContext, pod: Pod) -> str:
    """Only a pod that runs and is ready can be missed, and measured."""
    if pod.terminating or pod.phase != "Running":
        return f"it is {'terminating' if pod.terminating else pod.phase}"
    return "" if pod.ready else "it is not ready"


def replaceable(context: GuardContext, pod: Pod) -> str:
    if pod.owner is None:
        return "no controller would create it again"
    return f"a pod of a {pod.owner.kind} belongs to its node" if pod.owner.kind in NODE_BOUND else ""


def excluded_namespace(context: GuardContext, pod: Pod) -> str:
    return f"namespace {pod.namespace} is excluded" if pod.namespace in context.settings.excluded_namespaces else ""


def minimum_age(context: GuardContext, pod: Pod) -> str:
    since = pod.started if pod.started is not None else pod.created
    age = context.now - since
    return f"it has run for {age:.0f} s only" if age < context.settings.min_pod_age else ""


def cooldown(context: GuardContext, pod: Pod) -> str:
    until = context.holds.get(owner_slot(pod), 0.0)
    return (
        f"a pod of its owner was moved; the next one may be in {until - context.now:.0f} s"
        if context.now < until
        else ""
    )


def disruption_budget(context: GuardContext, pod: Pod) -> str:
    for budget in context.cluster.objects.of_kind(PodDisruptionBudget).values():
        covers = budget.selector is not None and budget.selector.matches(pod.labels)
        if budget.namespace == pod.namespace and covers and budget.disruptions_allowed <= 0:
            return f"disruption budget {budget.key} allows no eviction"
    return ""


GUARDS: Mapping[str, Guard] = {
    "running": running,
    "replaceable": replaceable,
    "excluded namespace": excluded_namespace,
    "minimum age": minimum_age,
    "cool-down": cooldown,
    "disruption budget": disruption_budget,
}


def refusal(context: GuardContext, pod: Pod) -> Refusal | None:
    """By the first guard that refuses."""
    for name, guard in GUARDS.items():
        reason = guard(context, pod)
        if reason:
            return Refusal(pod.key, name, reason)
    return None
