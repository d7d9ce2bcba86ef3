"""Checks of a pod before and after scheduling: unsupported requirements, unknown topology keys, victims that it waits for."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.core.cluster.view import View
from trimtab.core.model.pod import Pod, PodSpec

MAX_NAMED = 5
AFFINITY = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution"


def unsupported_features(pod: Pod) -> tuple[str, ...]:
    """Requirements that no plugin of Trimtab supports, so that the pod stays unschedulable.

    A plugin that exists but is not enabled in the profile is not reported, as in kube-scheduler.
    """
    features = (
        ("resource claims (plugin DynamicResources)", pod.spec.resource_claims),
        ("a scheduling group (plugin GangScheduling)", pod.spec.scheduling_group),
    )
    return tuple(name for name, present in features if present)


def unknown_topology_keys(view: View, pod: Pod) -> str:
    """Names required topology keys that no node has as a label, to append to a message; empty when there are none."""
    unknown = [f"{field}: no node has the label {key!r}" for field, key in _keys(pod.spec) if not view.has_label(key)]
    more = f"; and {len(unknown) - MAX_NAMED} more" if len(unknown) > MAX_NAMED else ""
    return f" ({'; '.join(unknown[:MAX_NAMED])}{more})" if unknown else ""


def victims_leaving(view: View, pod: Pod) -> bool:
    """Whether pods of lower priority that were preempted are still terminating on the pod's nominated node."""
    pods = view.pods_on(pod.nominated_node).values()
    return any(each.terminating and each.preempted and each.priority < pod.priority for each in pods)


def _keys(spec: PodSpec) -> Iterator[tuple[str, str]]:
    """Required keys only: anti-affinity by a key that no node has is always satisfied."""
    for index, spread in enumerate(spec.topology_spread):
        if spread.hard:
            yield f"spec.topologySpreadConstraints[{index}].topologyKey", spread.topology_key
    for index, term in enumerate(spec.affinity.pod_affinity.required if spec.affinity is not None else ()):
        yield f"{AFFINITY}[{index}].topologyKey", term.topology_key
