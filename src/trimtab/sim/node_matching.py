"""Whether a pod may run on a node, as the DaemonSet controller and the cluster autoscaler see it: one node at a time.

Only what the node's labels and taints decide; the scheduler has the last word on everything else.
"""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.core.cluster.node_selection import NAME_FIELD
from trimtab.core.model.node import Node
from trimtab.core.model.pod import PodSpec
from trimtab.core.model.selectors import LabelSelector, NodeSelectorTerm, Requirement, parse_int64
from trimtab.core.model.taints import NO_EXECUTE, NO_SCHEDULE, Toleration, tolerated

_COMPARISONS = ("Gt", "Lt")


def selects(spec: PodSpec, node: Node) -> bool:
    """Whether the node matches the pod's nodeSelector and its required node affinity."""
    if any(node.labels.get(key) != value for key, value in spec.node_selector or ()):
        return False
    terms = spec.affinity.node_affinity.required if spec.affinity is not None else None
    return terms is None or any(_term_matches(term, node) for term in terms)


def tolerates(tolerations: tuple[Toleration, ...], node: Node, *, running: bool = False) -> bool:
    """Whether the pod may be placed on the node; `running`: whether it may stay."""
    effects = (NO_EXECUTE,) if running else (NO_EXECUTE, NO_SCHEDULE)
    return all(tolerated(taint, tolerations) for taint in node.taints if taint.effect in effects)


def _term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {NAME_FIELD: node.name}
    return all(_matches(each, node.labels) for each in term.match_expressions) and all(
        _matches(each, fields) for each in term.match_fields
    )


def _matches(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    if requirement.operator not in _COMPARISONS:
        return LabelSelector(match_expressions=(requirement,)).matches(labels)
    value, limit = parse_int64(labels.get(requirement.key, "")), parse_int64(requirement.values[0])
    if value is None or limit is None:
        return False
    return value > limit if requirement.operator == "Gt" else value < limit
