"""Guards by a pod's workload: one that is changing is left alone, and none loses many pods at once.

Pods that are under way in moves of our own count as moves, not as changes of the workload.
"""

from __future__ import annotations

import re

from trimtab.core.model.objects import StatefulSet
from trimtab.core.model.pod import Pod
from trimtab.core.rescheduling.guards.context import GuardContext, Workload, can_surge, is_available, owner_slot
from trimtab.core.rescheduling.settings import Method

_ORDINAL = re.compile(r"-([0-9]{1,9})$")


def cooldown(context: GuardContext, pod: Pod) -> str:
    left = context.holds.get(owner_slot(pod), 0.0) - context.now
    return f"a pod of its owner was moved; the next one may be in {left:.0f} s" if left > 0 else ""


def stateful_set(context: GuardContext, pod: Pod) -> str:
    """Its pods are moved one by one, and only while all of them are there and ready."""
    if pod.owner is None or pod.owner.kind != "StatefulSet":
        return ""
    workload = context.workload(pod)
    if workload.moves:
        return f"another pod of {workload.name} is being moved"
    if _misses_ordinal(context, pod, workload):
        return f"a pod of {workload.name} is missing"
    unready = next((each for each in workload.pods if not is_available(each)), None)
    return f"{unready.name} of {workload.name} is not ready" if unready is not None else ""


def _misses_ordinal(context: GuardContext, pod: Pod, workload: Workload) -> bool:
    """By its replicas, as far as they are known, and by gaps."""
    assert pod.owner is not None
    known = context.cluster.objects.of_kind(StatefulSet).get(f"{pod.namespace}/{pod.owner.name}")
    if known is not None and known.replicas is not None and len(workload.pods) < known.replicas:
        return True
    ordinals = {int(match[1]) for each in workload.pods if (match := _ORDINAL.search(each.name))}
    return bool(ordinals) and max(ordinals) - min(ordinals) >= len(ordinals)


def rollout(context: GuardContext, pod: Pod) -> str:
    """Pods of more than one ReplicaSet or revision: a rollout is in progress, or stopped half-way."""
    if pod.owner is None:
        return ""
    workload = context.workload(pod)
    return f"a rollout of {workload.name} is in progress" if len(workload.revisions) > 1 else ""


def scaling(context: GuardContext, pod: Pod) -> str:
    """Somebody else, such as a HorizontalPodAutoscaler or a drain, adds or removes pods."""
    if pod.owner is None:
        return ""
    workload, since = context.workload(pod), context.now - context.settings.settle_time
    for each in workload.pods:
        if each.uid not in context.moving and (each.terminating or each.created > since):
            return f"{workload.name} is changing: {each.name} {'is terminating' if each.terminating else 'is new'}"
    return ""


def unavailable_pods(context: GuardContext, pod: Pod) -> str:
    """A workload that misses pods must not miss one more; of a large one a few may be broken."""
    if pod.owner is None:
        return ""
    workload = context.workload(pod)
    missing = sum(not is_available(each) and each.uid not in context.moving for each in workload.pods)
    if missing <= workload.share(context.settings.max_unavailable):
        return ""
    return f"{missing} of {len(workload.pods)} pods of {workload.name} are not ready"


def last_replica(context: GuardContext, pod: Pod) -> str:
    """Unless a budget or the settings allow it, or its replacement comes first, a workload never loses its last ready pod;
    a Job's has no replicas."""
    surges = context.settings.method is not Method.EVICTION and can_surge(pod) and not context.evicting
    allowed = context.settings.allow_last_replica or surges or context.budgets(pod)
    if pod.owner is None or pod.owner.kind == "Job" or allowed:
        return ""
    workload = context.workload(pod)
    others = (each for each in workload.pods if each.uid != pod.uid and each.uid not in context.under_way)
    if any(is_available(each) for each in others):
        return ""
    return f"it is the last ready pod of {workload.name}, which has no disruption budget"


def moves_under_way(context: GuardContext, pod: Pod) -> str:
    """Without a budget that says how many, few pods of a workload are moved at once, but one always may be."""
    if pod.owner is None or context.budgets(pod):
        return ""
    workload = context.workload(pod)
    if workload.moves < max(1, workload.share(context.settings.max_unavailable)):
        return ""
    return f"{workload.moves} of {len(workload.pods)} pods of {workload.name} are being moved"
