"""Guards by node: pods are not moved from or to nodes that are about to be removed, nor to nodes that are not ready."""

from __future__ import annotations

import numpy as np

from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.core.rescheduling.guards.context import GuardContext
from trimtab.core.tables import Bools

# By cluster-autoscaler and Karpenter (and Karpenter before 1.0).
REMOVAL_TAINTS = frozenset(
    {
        "ToBeDeletedByClusterAutoscaler",
        "DeletionCandidateOfClusterAutoscaler",
        "karpenter.sh/disrupted",
        "karpenter.sh/disruption",
    }
)


def node_removal(context: GuardContext, pod: Pod) -> str:
    """Whoever removes the node drains it, too."""
    row = context.cluster.node_table.row.get(pod.node)
    found = "" if row is None else removal_taint(context.cluster.node_table.nodes[row])
    return f"its node {pod.node} is about to be removed (taint {found})" if found else ""


def removal_taint(node: Node) -> str:
    """The key of the taint by which an autoscaler announces that it removes the node; empty without one."""
    return next((taint.key for taint in node.taints if taint.key in REMOVAL_TAINTS), "")


def possible_targets(context: GuardContext) -> Bools:
    """By row: the nodes that are ready and stay."""
    nodes = context.cluster.node_table.nodes
    return np.fromiter((node.ready and not removal_taint(node) for node in nodes), dtype=np.bool_, count=len(nodes))
