"""Which nodes a node selector picks: terms are or-ed, the lines of a term are and-ed; who asks for it is left open."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.view import View
from trimtab.core.model.pod import PodSpec
from trimtab.core.model.selectors import NodeSelectorTerm, Requirement

Bools = NDArray[np.bool_]

NAME_FIELD = "metadata.name"


def matching_any(view: View, terms: Iterable[NodeSelectorTerm]) -> Bools:
    found = np.zeros(view.count, dtype=np.bool_)
    for term in terms:
        found |= matching(view, term)
    return found


def matching(view: View, term: NodeSelectorTerm) -> Bools:
    """Nodes that one term picks; an empty or unsound term picks none."""
    lines = (*term.match_expressions, *term.match_fields)
    if (
        not lines
        or not all(line.valid for line in term.match_expressions)
        or not all(map(_valid_field, term.match_fields))
    ):
        return np.zeros(view.count, dtype=np.bool_)
    found = np.ones(view.count, dtype=np.bool_)
    for line in term.match_expressions:
        found &= view.matching_label(line)
    for line in term.match_fields:
        found &= _matching_field(view, line)
    return found


def required_nodes(view: View, spec: PodSpec) -> Bools:
    """Nodes that the pod's own node selector and required node affinity allow."""
    found = np.ones(view.count, dtype=np.bool_)
    for key, value in spec.node_selector or ():
        found &= view.matching_label(Requirement(key, "In", (value,)))
    if spec.affinity is not None and spec.affinity.node_affinity.required is not None:
        found &= matching_any(view, spec.affinity.node_affinity.required)
    return found


def _valid_field(line: Requirement) -> bool:
    return line.operator in ("In", "NotIn") and len(line.values) == 1


def _matching_field(view: View, line: Requirement) -> Bools:
    """Only a node's name can be asked for; any other field is as if empty."""
    value = line.values[0]
    named = view.rows_named(line.values) if line.key == NAME_FIELD else np.full(view.count, value == "", dtype=np.bool_)
    return named if line.operator == "In" else ~named
