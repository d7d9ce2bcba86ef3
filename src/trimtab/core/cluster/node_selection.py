"""Nodes that match a node selector: its terms are ORed, the requirements of one term are ANDed."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.model.pod import PodSpec
from trimtab.core.model.selectors import NodeSelectorTerm, Requirement
from trimtab.core.tables import Bools

NAME_FIELD = "metadata.name"


def matching_any(view: View, terms: Iterable[NodeSelectorTerm]) -> Bools:
    found = np.zeros(view.count, dtype=np.bool_)
    for term in terms:
        found |= matching(view, term)
    return found


def matching(view: View, term: NodeSelectorTerm) -> Bools:
    """Nodes that match one term; none match an empty or invalid term."""
    labels, fields = term.match_expressions, term.match_fields
    valid = all(requirement.valid for requirement in labels) and all(map(_valid_field, fields))
    if not valid or not (labels or fields):
        return np.zeros(view.count, dtype=np.bool_)
    found = np.ones(view.count, dtype=np.bool_)
    for requirement in labels:
        found &= view.matching_label(requirement)
    for requirement in fields:
        found &= _matching_field(view, requirement)
    return found


def required_nodes(view: View, spec: PodSpec) -> Bools:
    """Nodes that the pod's nodeSelector and required node affinity allow."""
    found = np.ones(view.count, dtype=np.bool_)
    for key, value in spec.node_selector or ():
        found &= view.matching_label(Requirement(key, "In", (value,)))
    if spec.affinity is not None and spec.affinity.node_affinity.required is not None:
        found &= matching_any(view, spec.affinity.node_affinity.required)
    return found


def _valid_field(requirement: Requirement) -> bool:
    return requirement.operator in ("In", "NotIn") and len(requirement.values) == 1


def _matching_field(view: View, requirement: Requirement) -> Bools:
    """Only metadata.name is supported; any other field counts as empty."""
    value = requirement.values[0]
    if requirement.key == NAME_FIELD:
        found = view.rows_named(requirement.values)
    else:
        found = np.full(view.count, value == "", dtype=np.bool_)
    return found if requirement.operator == "In" else ~found
