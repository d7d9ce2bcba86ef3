"""The Events that pods get from scheduling: their reasons and messages, in kube-scheduler's words where it has them.

The message of a FailedScheduling Event starts as `Unschedulable.message()` (`core/model/schedule_result.py`).
"""

from __future__ import annotations

from trimtab.core.model.instructions import EmitEvent
from trimtab.core.model.objects import LEGACY_POD_GROUP_LABEL, POD_GROUP_LABEL
from trimtab.core.model.pod import Pod


def scheduled(pod: Pod, node: str) -> EmitEvent:
    return _event(pod, "Scheduled", f"Successfully assigned {pod.key} to {node}", action="Binding")


def failed_scheduling(pod: Pod, message: str) -> EmitEvent:
    return warning(pod, "FailedScheduling", message)


def preempting(pod: Pod, victims: int, node: str) -> EmitEvent:
    return _event(pod, "Preempting", f"Preempting {victims} lower-priority pod(s) on node {node}", action="Preempting")


def preempted(victim: Pod, preemptor: Pod) -> EmitEvent:
    """On the victim, from the scheduler of its preemptor."""
    note = f"Preempted by pod {preemptor.uid} on node {victim.node}"
    return _event(victim, "Preempted", note, action="Preempting", scheduler=preemptor.scheduler_name)


def preemption_failed(pod: Pod, victim: str, error: str) -> EmitEvent:
    return failed_scheduling(pod, f"preemption: {victim} was not deleted: {error}")


def bound_to_missing_node(pod: Pod) -> EmitEvent:
    return warning(pod, "NodeGone", f"bound to node {pod.node}, which no longer exists")


def pod_group_timeout(pod: Pod, group: str, seconds: float, last_failure: str) -> EmitEvent:
    message = f"pod group {group} was not scheduled within {seconds:.0f} s, retrying: {last_failure}"
    return warning(pod, "PodGroupTimeout", message)


def deprecated_label(pod: Pod) -> EmitEvent:
    note = f"label {LEGACY_POD_GROUP_LABEL} is deprecated and still read: use {POD_GROUP_LABEL}"
    return warning(pod, "OlderLabel", note)


def pod_group_ignored(pod: Pod, group: str, profile: str) -> EmitEvent:
    return warning(pod, "PodGroupIgnored", ignored_group_note(group, profile))


def ignored_group_note(group: str, profile: str) -> str:
    ignored = f"the label of pod group {group} is ignored, and its pods are scheduled one by one"
    return f"{ignored}: enable Coscheduling in profile {profile}"


def warning(pod: Pod, reason: str, message: str) -> EmitEvent:
    return _event(pod, reason, message, is_warning=True)


def _event(
    pod: Pod, reason: str, note: str, *, is_warning: bool = False, action: str = "Scheduling", scheduler: str = ""
) -> EmitEvent:
    scheduler = scheduler or pod.scheduler_name
    return EmitEvent(pod.uid, pod.namespace, pod.name, reason, note, is_warning, action, scheduler)
