"""Guards: the reasons not to move a pod, or not to move any.

Each guard is a function that returns its reason, or an empty text. `refusal` asks those of a pod, and `cluster_refusal` those
of the cluster, before a plan; `nodes.possible_targets` says which nodes no pod should be moved to. A new guard is a function
in the module of its subject and a line in the table here.
"""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.core.model.plan import ALL_PODS, Refusal
from trimtab.core.model.pod import Pod
from trimtab.core.rescheduling.guards import cluster, data, disruption_budgets, nodes, pods, workloads
from trimtab.core.rescheduling.guards.context import (
    ClusterGuard,
    Guard,
    GuardContext,
    UnderWay,
    can_surge,
    owner_slot,
    workload_name,
)

__all__ = ["GuardContext", "UnderWay", "can_surge", "cluster_refusal", "owner_slot", "refusal", "workload_name"]


GUARDS: Mapping[str, Guard] = {
    "terminating": pods.terminating,
    "starting": pods.starting,
    "ready": pods.ready,
    "excluded namespace": pods.excluded_namespace,
    "excluded pods": pods.excluded_pods,
    "opt-out": pods.opt_out,
    "priority": pods.priority,
    "replaceable": pods.replaceable,
    "readable spec": pods.readable_spec,
    "scheduler at work": pods.scheduler_at_work,
    "job": pods.job,
    "minimum age": pods.minimum_age,
    "node removal": nodes.node_removal,
    "local data": data.local_data,
    "pinned volume": data.pinned_volume,
    "cool-down": workloads.cooldown,
    "stateful set": workloads.stateful_set,
    "rollout": workloads.rollout,
    "scaling": workloads.scaling,
    "unavailable pods": workloads.unavailable_pods,
    "last replica": workloads.last_replica,
    "moves under way": workloads.moves_under_way,
    "several budgets": disruption_budgets.several_budgets,
    "disruption budget": disruption_budgets.disruption_budget,
    "healthy pods": disruption_budgets.healthy_pods,
}

CLUSTER_GUARDS: Mapping[str, ClusterGuard] = {
    "stopped": cluster.stopped,
    "window": cluster.window,
    "unreadable kinds": cluster.unreadable_kinds,
    "unready nodes": cluster.unready_nodes,
    "missing metrics": cluster.missing_metrics,
    "old metrics": cluster.old_metrics,
    "jump": cluster.jump,
}


def refusal(context: GuardContext, pod: Pod) -> Refusal | None:
    """By the first guard that refuses to move the pod."""
    for name, guard in GUARDS.items():
        reason = guard(context, pod)
        if reason:
            return Refusal(pod.key, name, reason)
    return None


def cluster_refusal(context: GuardContext) -> Refusal | None:
    """By the first guard that refuses to move any pod."""
    for name, guard in CLUSTER_GUARDS.items():
        reason = guard(context)
        if reason:
            return Refusal(ALL_PODS, name, reason)
    return None
