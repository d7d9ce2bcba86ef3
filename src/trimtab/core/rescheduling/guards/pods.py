"""Guards by what a pod is by itself: its state, its labels and annotations, its priority, its owner and its age."""

from __future__ import annotations

from typing import NamedTuple

from trimtab.core.model.pod import (
    DO_NOT_DISRUPT,
    EVICT,
    MIRROR,
    NODE_BOUND,
    PREFER_NO_EVICTION,
    RESCHEDULING,
    SAFE_TO_EVICT,
    Pod,
)
from trimtab.core.rescheduling.guards.context import GuardContext

SYSTEM_CRITICAL = 2_000_000_000  # the priorities of Kubernetes' own classes begin here


def terminating(context: GuardContext, pod: Pod) -> str:
    return "it is terminating" if pod.terminating else ""


def starting(context: GuardContext, pod: Pod) -> str:
    """A pod with a node is Pending while its images are pulled and its init containers run."""
    return "it is still starting" if pod.phase == "Pending" else ""


def ready(context: GuardContext, pod: Pod) -> str:
    """Only a pod that runs and is ready can be missed, and measured."""
    if pod.phase != "Running":
        return f"it is {pod.phase}"
    return "" if pod.ready else "it is not ready"


def excluded_namespace(context: GuardContext, pod: Pod) -> str:
    return f"namespace {pod.namespace} is excluded" if pod.namespace in context.settings.excluded_namespaces else ""


def excluded_pods(context: GuardContext, pod: Pod) -> str:
    selector = context.settings.excluded_pod_selector
    return "its labels match the excluded pods" if selector is not None and selector.matches(pod.labels) else ""


class OptOut(NamedTuple):
    """An annotation or label by which a pod asks to stay."""

    key: str
    value: str
    is_label: bool = False


OPT_OUTS = (
    OptOut(EVICT, "never"),
    OptOut(EVICT, "never", is_label=True),
    OptOut(RESCHEDULING, "disabled", is_label=True),
    OptOut(PREFER_NO_EVICTION, ""),
    OptOut(SAFE_TO_EVICT, "false"),
    OptOut(DO_NOT_DISRUPT, "true"),
)


def opt_out(context: GuardContext, pod: Pod) -> str:
    for each in OPT_OUTS:
        if (pod.labels if each.is_label else pod.annotations).get(each.key) == each.value:
            text = f"{each.key}={each.value}" if each.value else each.key
            return f"it has the {'label' if each.is_label else 'annotation'} {text}"
    return ""


def priority(context: GuardContext, pod: Pod) -> str:
    if pod.priority >= SYSTEM_CRITICAL:
        return f"its priority {pod.priority} is system-critical"
    threshold = context.settings.priority_threshold
    if threshold is not None and pod.priority >= threshold:
        return f"its priority {pod.priority} is not below {threshold}"
    return ""


def replaceable(context: GuardContext, pod: Pod) -> str:
    """The annotation is on every static pod, also if nobody set an owner."""
    if MIRROR in pod.annotations:
        return "a static pod belongs to its node"
    if pod.owner is None:
        return "no controller would create it again"
    return f"a pod of a {pod.owner.kind} belongs to its node" if pod.owner.kind in NODE_BOUND else ""


def readable_spec(context: GuardContext, pod: Pod) -> str:
    """A replacement with the same spec would not be scheduled."""
    error = pod.spec_error or pod.spec.error
    return f"a replacement could not be scheduled: {error}" if error else ""


def scheduler_at_work(context: GuardContext, pod: Pod) -> str:
    """Without its scheduler the pod would leave, and its replacement would stay without a node."""
    return context.scheduler_problems.get(pod.scheduler_name, "")


def job(context: GuardContext, pod: Pod) -> str:
    """A Job's pod would begin its work again."""
    is_job = pod.owner is not None and pod.owner.kind == "Job"
    return "its work for a Job would be lost" if is_job and not context.settings.allow_jobs else ""


def minimum_age(context: GuardContext, pod: Pod) -> str:
    since = pod.started if pod.started is not None else pod.created
    age = context.now - since
    return f"it has run for {age:.0f} s only" if age < context.settings.min_pod_age else ""
